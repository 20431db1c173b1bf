"""PhysioNet's challenge of 2012: the first 48 hours of patients in intensive care, and who died in hospital."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nacre._util.checks import choice
from nacre.data.dataset import Dataset, Kind
from nacre.data.files.store import UNCHECKED
from nacre.data.missing import Missing
from nacre.data.sets.physionet2012_files import Patient, PatientSet, find_sets
from nacre.data.tables.gaps import settle

SETS = ("a", "b", "c")
HOURS = 48
_TYPES = 4  # of ICUs: coronary care, cardiac surgery recovery, medical, surgical
_STATIC = ("Age", "Gender", "Height", "Weight at admission", *(f"ICUType={i}" for i in range(1, _TYPES + 1)))
_SERIES = (
    *("Albumin", "ALP", "ALT", "AST", "Bilirubin", "BUN", "Cholesterol", "Creatinine", "DiasABP", "FiO2", "GCS"),
    *("Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "MAP", "MechVent", "Mg", "Na", "NIDiasABP", "NIMAP"),
    *("NISysABP", "PaCO2", "PaO2", "pH", "Platelets", "RespRate", "SaO2", "SysABP", "Temp", "TroponinI"),
    *("TroponinT", "Urine", "WBC", "Weight"),
)
FEATURES = (*_STATIC, *_SERIES)
_PLACE = {name: place for place, name in enumerate(_SERIES, len(_STATIC))}
_HOT = tuple(range(len(_STATIC) - _TYPES, len(_STATIC)))
_DESCRIPTORS = ("Age", "Gender", "Height", "ICUType")
_MAY_BE_UNKNOWN = (*_DESCRIPTORS, "Weight")  # -1 says so
_HEADER = "Time,Parameter,Value"


@dataclass(frozen=True)
class _Stay:
    """What was observed of one patient."""

    time: NDArray[np.float64]  # [T] hours since admission
    values: NDArray[np.float32]  # [T, F], NaN where not observed
    unnamed: int  # lines that name no parameter


def load_physionet2012(
    data_dir: Path | None = None, *, sets: Sequence[str] = SETS, missing: str = "flags"
) -> Dataset:
    """One sequence for each patient: 37 variables, each at times of its own, and whether the patient died.

    A row holds what was observed at one stamp, in hours since admission; the first one, at 0, is the admission. Of
    several values of a variable at one stamp it is the mean. Age, gender (1 is male), height, weight at admission
    and type of the unit are static, and unknown where the file says -1. Values are as found, however odd. With
    other sets, set c is the official test part.

    The files are those of physionet.org/content/challenge-2012: `set-a.tar.gz`, or a zip file or folder of that
    name, `Outcomes-a.txt`, and so on, in a folder `physionet2012`, or in `data_dir` itself. If there are none,
    they are fetched. They were not at hand when this was written: it is tested on small files in their format.

    Args:
        data_dir: Where to look first, then in $NACRE_DATA and in the cache.
        sets: Which of the sets "a", "b" and "c", of 4,000 patients each.
        missing: What is done about values that were not observed: "flags", "last" or "events", as
            `nacre.data.Missing` says.

    Raises:
        FileNotFoundError: If some are missing, or they cannot be fetched.
        ValueError: If one is damaged.
    """
    choice("missing", missing, [policy for policy in Missing if policy is not Missing.ERROR])
    chosen = _chosen(sets)
    parts = find_sets(data_dir, chosen)
    patients = [(patient, part.name) for part in parts for patient in part.patients()]
    records = [patient.record for patient, _ in patients]
    if len({*records}) != len(records):
        raise ValueError(f"physionet2012: sets {', '.join(chosen)} share patients; get them again")
    stays = [_stay(patient) for patient, _ in patients]
    length = torch.tensor([len(stay.time) for stay in stays])
    values = np.concatenate([stay.values for stay in stays])
    columns, notes = _observed(values)
    test = torch.tensor([name == "c" for _, name in patients])
    data = Dataset(
        name="physionet2012",
        kind=Kind.CLASSIFICATION,
        values=torch.from_numpy(values if len(columns) == len(FEATURES) else values[:, columns]),
        time=torch.from_numpy(np.concatenate([stay.time for stay in stays])),
        start=length.cumsum(0) - length,
        length=length,
        y=torch.tensor([int(patient.died) for patient, _ in patients]),
        group=torch.arange(len(stays)),
        groups=tuple(records),
        features=tuple(FEATURES[i] for i in columns),
        classes=("survived", "died"),
        one_hot=tuple(place for place, i in enumerate(columns) if i in _HOT),
        static=tuple(place for place, i in enumerate(columns) if i < len(_STATIC)),
        test=test if 0 < test.sum() < len(test) else None,
        time_unit="hours",
        form=f"sets {', '.join(chosen)} as found ({UNCHECKED})",
        files={file: sha256 for part in parts for file, sha256 in part.sha256.items()},
        notes=(*notes, *_left_out(parts, sum(stay.unnamed for stay in stays))),
    )
    return settle(data, Missing(missing))


def _chosen(sets: Sequence[str]) -> list[str]:
    if isinstance(sets, str) or not sets or len({*sets}) != len(sets):
        raise ValueError(f'sets must be a list of different sets, such as ["a", "b"], got {sets!r}')
    for name in sets:
        choice("sets", name, SETS)
    return sorted(sets)


def _observed(values: NDArray[np.float32]) -> tuple[list[int], list[str]]:
    """Columns of which something was observed, and a note on the others."""
    empty = [i for i in range(len(FEATURES)) if i not in _HOT and np.isnan(values[:, i]).all()]
    named = ", ".join(FEATURES[i] for i in empty)
    notes = [f"Left out {named}, of which nothing was observed."] if empty else []
    return [i for i in range(len(FEATURES)) if i not in empty], notes


def _left_out(parts: list[PatientSet], unnamed: int) -> list[str]:
    silent = sum(part.unanswered for part in parts)
    counted = (silent, "patients without an outcome"), (unnamed, "lines that name no variable")
    return [f"Left out {number:,} {what}." for number, what in counted if number]


def _stay(patient: Patient) -> _Stay:
    """Read the file of one patient."""
    static, unnamed = dict[str, float](), 0
    minute, column, value = [0], [0], [math.nan]  # the admission
    for at, name, number in _lines(patient):
        if at == 0 and name in _MAY_BE_UNKNOWN:
            static.setdefault(name, number)
        if name in _PLACE and not math.isnan(number):
            minute.append(at)
            column.append(_PLACE[name])
            value.append(number)
        unnamed += not name
    stamps, row = np.unique(minute, return_inverse=True)
    cell = row * len(FEATURES) + np.array(column)
    size = len(stamps) * len(FEATURES)
    count = np.bincount(cell[1:], minlength=size)
    total = np.bincount(cell[1:], np.array(value[1:]), minlength=size)
    values = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(len(stamps), -1)
    values[:, : len(_STATIC)] = _static(static)
    return _Stay(stamps / 60, values.astype(np.float32), unnamed)


def _static(known: dict[str, float]) -> list[float]:
    """Values of the static features."""
    unit = known.get("ICUType", math.nan)
    plain = [known.get(name, math.nan) for name in ("Age", "Gender", "Height", "Weight")]
    return [*plain, *(float(unit == i) for i in range(1, _TYPES + 1))]


def _lines(patient: Patient) -> Iterator[tuple[int, str, float]]:
    """Minutes since admission, parameter and value of each line; NaN where it is not known."""
    lines = patient.text.rstrip().splitlines()
    first = [_HEADER, f"00:00,RecordID,{patient.record}"]
    for number, wanted in enumerate(first, 1):
        got = lines[number - 1].strip() if number <= len(lines) else ""
        if got != wanted:
            raise ValueError(f"{patient.path}, line {number}: wanted {wanted}, got {got[:80]!r}")
    for number, line in enumerate(lines[2:], 3):
        try:
            read = _line(line)
        except ValueError as error:
            raise ValueError(f"{patient.path}, line {number:,}: {error}") from None
        yield read


def _line(line: str) -> tuple[int, str, float]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 3:
        raise ValueError(f"wanted {_HEADER}, got {line[:80]!r}")
    stamp, name, cell = cells
    at = _minutes(stamp)
    if name and name not in _PLACE and name not in _DESCRIPTORS:
        raise ValueError(f"the challenge has no parameter {name!r}")
    value = float(cell) if cell else math.nan
    if value == -1 and name in _MAY_BE_UNKNOWN:
        value = math.nan
    if math.isinf(value) or (name == "ICUType" and not math.isnan(value) and value not in range(1, _TYPES + 1)):
        raise ValueError(f"{name} cannot be {cell}")
    return at, name, value


@lru_cache(60 * HOURS + 1)  # every stamp there can be
def _minutes(stamp: str) -> int:
    hour, _, minute = stamp.partition(":")
    if not (stamp.isascii() and hour.isdecimal() and minute.isdecimal() and int(minute) < 60):
        raise ValueError(f"wanted a stamp such as 07:30, got {stamp[:20]!r}")
    at = 60 * int(hour) + int(minute)
    if at > 60 * HOURS:
        raise ValueError(f"{stamp} is after the first {HOURS} hours")
    return at
