"""What the columns of a CSV file are for: target, inputs, and the kind of task that they suggest."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nacre.data.dataset import Kind
from nacre.data.tables.cells import Table
from nacre.data.tables.reading import Reading
from nacre.data.tables.sequences import CsvRows
from nacre.data.tables.targets import infer_kind, is_text, is_whole

_EACH_GROUP = (Kind.CLASSIFICATION, Kind.REGRESSION, Kind.MULTI_LABEL)  # one answer for each group
_log = logging.getLogger("nacre")


def check_roles(
    table: Table, time: str, targets: tuple[str, ...], group: str | None, categories: tuple[str, ...]
) -> None:
    """Refuse columns that are not there, or have two roles."""
    if not targets:
        raise ValueError("target must name at least one column, got none")
    for name in targets:
        table.require("target", name)
    roles = [time, *targets, *([] if group is None else [group]), *categories]
    twice = next((name for name in roles if roles.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"time, target, group and categories must be different columns, got {twice!r} twice")


def check_static(table: Table, time: str, targets: tuple[str, ...], group: str | None, reading: Reading) -> None:
    """Refuse static columns that are not there, or have a role that is not static."""
    for name in reading.static:
        table.require("static", name)
        if name in (time, group, *targets):
            raise ValueError(f"static: {name!r} cannot be the time, the group or the target")


def target_cells(table: Table, name: str, kind: str | None) -> NDArray:
    """[N] cells of a target in the file's order: text, bool, or float64."""
    cells = table.filled(name, "target")
    wants_classes = kind is not None and Kind(kind).has_classes
    wants_numbers = kind is not None and not wants_classes
    if cells.dtype == bool and not wants_numbers:
        return cells.to_numpy()
    mixed = wants_classes and bool(np.isnan(table.maybe_numbers(name)).any())
    if mixed or (table.is_text(name) and not wants_numbers):
        if not wants_classes:
            table.refuse_commas(name, "target")
        return cells.astype(str).to_numpy(object)
    return table.numbers(name, "target")


def without_gaps(table: Table, name: str, group: str | None) -> tuple[Table, NDArray[np.bool_]]:
    """The table with known answers, of their group if it has one, in the empty cells of a target, and these."""
    cells = table.cells(name)
    known = cells.notna().to_numpy()
    if not table.gaps or known.all():
        return table, np.zeros(len(cells), bool)
    if not known.any():
        raise ValueError(f"{table.path}: target {name!r} is missing everywhere, so there is nothing to learn")
    filled = cells
    if group is not None:
        filled = cells.where(known, cells.groupby(table.cells(group), sort=False).transform("first"))
    filled = filled.where(filled.notna(), cells.iloc[int(known.argmax())]).infer_objects()
    return replace(table, frame=table.frame.assign(**{name: filled})), ~known


def choose_kind(
    kind: str | None, targets: tuple[str, ...], cells: list[NDArray], rows: CsvRows
) -> tuple[Kind, tuple[str, ...]]:
    """The kind, and notes about it."""
    guesses = [infer_kind(name, column, rows.group) for name, column in zip(targets, cells, strict=True)]
    if kind is not None:  # after guessing, which refuses a column of one value
        return Kind(kind), ()
    found, why = guesses[0]
    if len(targets) > 1:
        changing = next((why for guess, why in guesses if guess not in _EACH_GROUP), None)
        if changing is not None:
            raise ValueError(f"target: {changing}; for several columns say kind='step-regression', or give one")
        found, why = Kind.REGRESSION, f"{len(targets)} columns are asked for, each constant within its group"
    sentence = f"The task is {found}, because {why}; give kind to choose another."
    _log.info(sentence)
    return found, (sentence,)


def check_target(table: Table, rows: CsvRows, kind: Kind, targets: tuple[str, ...], cells: list[NDArray]) -> None:
    """Refuse a target that does not fit the kind."""
    if len(targets) > 1 and kind not in (Kind.REGRESSION, Kind.STEP_REGRESSION, Kind.MULTI_LABEL):
        raise ValueError(f"target: {kind} predicts one column, got {', '.join(map(repr, targets))}")
    each_group = kind in _EACH_GROUP
    if each_group and len(rows.groups) < 2:
        raise ValueError(
            f"{table.path}: {kind} needs two or more groups, got {len(rows.groups)}; "
            "name the column that tells sequences apart (group=...)"
        )
    for name, column in zip(targets, cells, strict=True):
        if kind.has_classes and not is_text(column) and not is_whole(column):
            odd = int((column != np.rint(column)).argmax())
            raise table.bad_cell(
                name, int(rows.row[odd]), "a class (text, true or false, or a whole number)", "target"
            )
        changed = column != column[rows.first[rows.group]]
        if each_group and changed.any():
            here = int(changed.argmax())
            raise ValueError(
                f"{table.place(int(rows.row[here]))}: target {name!r} changes within group "
                f"{rows.groups[rows.group[here]]!r}; {kind} needs one value for each group"
                + ("" if kind is Kind.MULTI_LABEL else f", choose 'step-{kind}' for one for each row")
            )
        if kind is Kind.MULTI_LABEL and not np.isin(column, (0, 1)).all():
            odd = int((~np.isin(column, (0, 1))).argmax())
            raise table.bad_cell(name, int(rows.row[odd]), "0 or 1", "target")


def choose_features(
    table: Table,
    features: Sequence[str] | None,
    kind: Kind,
    not_inputs: set[str | None],
    targets: tuple[str, ...],
    categories: tuple[str, ...],
    static: tuple[str, ...] = (),
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the inputs, and notes about what was left out."""
    forecasting = kind is Kind.FORECASTING
    if isinstance(features, str):
        raise ValueError(f"features must be a list of columns, got {features!r}; write [{features!r}]")
    if features is not None:
        names = list(features)
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        leak = next((name for name in names if name in targets and not forecasting), None)
        if twice is not None or leak is not None:
            wrong = f"{twice!r} twice" if twice is not None else f"the target {leak!r}"
            raise ValueError(f"features must be different columns without the target, got {wrong}")
        left_out = []
    else:
        hidden = not_inputs if forecasting else not_inputs | set(targets)
        candidates = [name for name in table.frame.columns if name not in hidden]
        left_out = [
            name
            for name in candidates
            if name not in categories and (name.startswith("(column ") or table.is_text(name))
        ]
        for name in left_out:
            table.refuse_commas(name, "features")
        without = set(left_out) - set(targets)
        names = [name for name in candidates if name not in without]
    known = set(names)
    names += [name for name in dict.fromkeys((*categories, *static)) if name not in known]
    if forecasting and targets[0] not in names:
        names.append(targets[0])
    if not names:
        raise ValueError(f"{table.path}: no column of numbers is left as an input; name some (features=...)")
    listed = ", ".join(map(repr, left_out))
    hint = "to use text, name it in categories"
    notes = (f"Left out columns of text or without a name: {listed}; {hint}.",) if left_out else ()
    for sentence in (f"Features: {', '.join(names)}.", *notes):
        _log.info(sentence)
    return tuple(names), notes
