"""Runs that can be compared, and how the models among them compare.

Runs of one task are comparable if they share budget, recipe, data and folds: a block. Within a block every model
is a row, with its mean over folds, its rank, and a paired test against NAC.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

from nacre.train.report.statistics import corrected_t_test, holm, mean_and_std, ranks
from nacre.train.result import Result

REFERENCE = "nac"  # the model that others are compared with


class BlockSetting(NamedTuple):
    """What runs must share to be compared."""

    task: str
    metric: str
    better: str
    profile: str
    steps: int
    batch_size: int
    recipe: str
    form: str
    data: str
    folds: int


@dataclass(frozen=True)
class Block:
    """Comparable runs."""

    setting: BlockSetting  # what they share; controls, which do not train, share only task, metric, data and folds
    results: tuple[Result, ...]  # one for each model, fold and seed
    repeated: tuple[Result, ...] = ()  # left out: there is another run of that model, fold and seed
    outdated: tuple[Result, ...] = ()  # left out: there are runs of a newer version of that model

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that are no controls."""
        return tuple(dict.fromkeys(r.model for r in self.results if not r.control))

    @property
    def column(self) -> str:
        """What the recipe calls its column of the paper's table; empty if it has none."""
        return next((r.column for r in self.results if r.column), "")


class Comparison(NamedTuple):
    """A model against NAC over the folds and seeds that both have."""

    difference: float  # mean of the model's metric minus NAC's
    p: float | None  # two-sided, corrected for the number of models; None where no test can be made
    cells: int  # folds and seeds that both have


@dataclass(frozen=True)
class ModelRow:
    """A model or control in a block."""

    model: str
    control: bool
    mean: float  # over folds; NaN if any run diverged
    std: float | None  # sample standard deviation over folds; None with one fold
    diverged: int  # number of runs that diverged, or have no value for another reason
    runs: int
    folds: frozenset[int]
    parameters: tuple[int, int]  # fewest and most trainable parameters of its runs
    seconds: float  # mean time of a run
    rank: float | None = None  # 1 = best; None for controls, diverged models and those that lack a fold
    lost: str = "diverged"  # or "undefined": why runs have no value
    against: Comparison | None = None  # with NAC; None for NAC itself, where one diverged, or without common runs


def blocks_of(results: Iterable[Result]) -> list[Block]:
    """Group comparable runs, in the order of tasks; controls join every block of their data."""
    results = list(results)
    settings = dict.fromkeys(_setting(r) for r in results if not r.control)
    homes = {_data(s) for s in settings}
    settings |= dict.fromkeys(_setting(r) for r in results if r.control and _data(_setting(r)) not in homes)
    blocks = []
    for setting in sorted(settings):
        fits = [r for r in results if _fits(r, setting)]
        newest = {r.model: r.version for r in sorted(fits, key=lambda r: r.version)}
        cells: dict[tuple[str, int, int], Result] = {}
        repeated = []
        for r in fits:
            if r.version < newest[r.model]:
                continue
            first = cells.setdefault((r.model, r.fold, r.seed), r)
            if first is not r and not (r.fingerprint and first.fingerprint == r.fingerprint):
                repeated.append(r)
        outdated = tuple(r for r in fits if r.version < newest[r.model])
        blocks.append(Block(setting, tuple(cells.values()), tuple(repeated), outdated))
    return blocks


def _fits(result: Result, setting: BlockSetting) -> bool:
    mine = _setting(result)
    return _data(mine) == _data(setting) if result.control else mine == setting


def rows_of(block: Block, metric: str | None = None) -> list[ModelRow]:
    """One row a model: ranked ones first, best first, then those without a rank, then controls.

    Args:
        block: Comparable runs.
        metric: Another metric of the runs than the one that ranks; the same direction must be better.
    """
    metric = metric or block.setting.metric
    runs: dict[str, list[Result]] = {}
    for r in block.results:
        if r.number(metric) is not None:
            runs.setdefault(r.model, []).append(r)
    rows = [_row(name, mine, metric) for name, mine in runs.items()]
    everything = frozenset().union(*(row.folds for row in rows if not row.control))
    ranked = [row for row in rows if not row.control and row.folds == everything]
    places = ranks([row.mean for row in ranked], block.setting.better)
    place = {row.model: rank for row, rank in zip(ranked, places, strict=True)}
    against = _against(runs, metric)
    rows = [replace(row, rank=place.get(row.model), against=against.get(row.model)) for row in rows]
    sign = 1 if block.setting.better == "lower" else -1

    def place_of(row: ModelRow) -> tuple[bool, float, int, float, str]:
        return row.control, row.rank or math.inf, row.diverged, 0.0 if row.diverged else sign * row.mean, row.model

    return sorted(rows, key=place_of)


class MeanRanks(NamedTuple):
    """Ranks over several tasks."""

    tasks: tuple[str, ...]  # on which all these models have results
    ranks: dict[str, tuple[float, ...]]  # of each model among these, on each of the tasks; best mean first

    def mean(self, model: str) -> float:
        """Mean over the tasks."""
        return sum(self.ranks[model]) / len(self.tasks)


def mean_ranks(blocks: Sequence[Block]) -> MeanRanks | None:
    """Rank models over the tasks on which they all have results; None with fewer than two such models.

    Of all choices of tasks, the one with the most values (tasks times models) is taken, of equal ones the one with
    more tasks. A model that diverged shares the last places. Each block must be of another task.
    """
    scores = {b.setting.task: _scores(b) for b in blocks}
    if len(scores) < len(blocks):
        raise ValueError("blocks must be of different tasks, got several of one; choose one block for each task")
    best: tuple[str, ...] = ()
    models: list[str] = []
    for size in range(1, len(scores) + 1):
        for tasks in combinations(scores, size):
            common = [m for m in scores[tasks[0]] if all(m in scores[t] for t in tasks)]
            if len(common) >= 2 and size * len(common) >= len(best) * len(models):
                best, models = tasks, common
    if not best:
        return None
    columns = [ranks([scores[t][m] for m in models], "lower") for t in best]
    placed = {m: tuple(float(column[i] or 0.0) for column in columns) for i, m in enumerate(models)}
    return MeanRanks(best, dict(sorted(placed.items(), key=lambda item: (sum(item[1]), item[0]))))


def _setting(r: Result) -> BlockSetting:
    return BlockSetting(*(getattr(r, name) for name in BlockSetting._fields))


def _data(setting: BlockSetting) -> tuple[object, ...]:
    """What a control must share with the models beside it."""
    return (setting.task, setting.metric, setting.better, setting.form, setting.data, setting.folds)


def _row(model: str, runs: Sequence[Result], metric: str) -> ModelRow:
    by_fold: dict[int, list[float]] = {}
    for r in runs:
        by_fold.setdefault(r.fold, []).append(_value(r, metric))
    # Seeds are averaged within a fold first: the spread is that of folds.
    spread = mean_and_std([sum(values) / len(values) for values in by_fold.values()])
    diverged = sum(not math.isfinite(_value(r, metric)) for r in runs)
    sizes = [r.parameters for r in runs]
    return ModelRow(
        model=model,
        control=runs[0].control,
        mean=math.nan if diverged else spread.mean,
        std=None if diverged else spread.std,
        diverged=diverged,
        runs=len(runs),
        folds=frozenset(by_fold),
        parameters=(min(sizes), max(sizes)),
        seconds=sum(r.seconds for r in runs) / len(runs),
        lost="diverged" if any(r.diverged for r in runs) else "undefined",
    )


def _against(runs: dict[str, list[Result]], metric: str) -> dict[str, Comparison]:
    """Every model and control against NAC; p is corrected among models and, separately, among controls."""
    found: dict[str, Comparison] = {}
    for control in (False, True):
        pairs = {
            name: compared
            for name, mine in runs.items()
            if name != REFERENCE and mine[0].control == control
            if (compared := _compare(mine, runs.get(REFERENCE, ()), metric)) is not None
        }
        corrected = holm([c.p for c in pairs.values()])
        found |= {name: c._replace(p=p) for (name, c), p in zip(pairs.items(), corrected, strict=True)}
    return found


def _compare(mine: Sequence[Result], reference: Sequence[Result], metric: str) -> Comparison | None:
    if not all(math.isfinite(_value(r, metric)) for r in (*mine, *reference)):
        return None
    theirs = {(r.fold, r.seed, r.split): r for r in reference}
    pairs = [(r, theirs[key]) for r in mine if (key := (r.fold, r.seed, r.split)) in theirs]
    if not pairs:
        return None
    differences = [_value(a, metric) - _value(b, metric) for a, b in pairs]
    share = sum(b.test / max(b.train, 1) for _, b in pairs) / len(pairs)
    return Comparison(mean_and_std(differences).mean, corrected_t_test(differences, share), len(pairs))


def _value(r: Result, metric: str) -> float:
    value = r.number(metric)
    return math.nan if value is None else value


def _scores(block: Block) -> dict[str, float]:
    """Mean of each model that has all folds, so that lower is better; above all others if it diverged."""
    rows = [row for row in rows_of(block) if not row.control and (row.rank is not None or row.diverged)]
    sign = 1 if block.setting.better == "lower" else -1
    finite = [sign * row.mean for row in rows if not row.diverged]
    worst = max(finite, default=0.0)
    return {row.model: worst + 1.0 + abs(worst) if row.diverged else sign * row.mean for row in rows}
