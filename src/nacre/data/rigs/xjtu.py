"""Files of XJTU-SY: `1.csv`, `2.csv`, ..., one each minute, with a header that names the axes."""

from pathlib import Path

from nacre.data.rigs.rig import XJTU
from nacre.data.rigs.snapshot import AXES, BadFile, Snapshot, check_samples, numbers_of

_PERIOD = XJTU.period or 0.0


def read_minute(path: Path) -> Snapshot:
    """One numbered file; the axes are found by their names, in whichever order they stand.

    `start` counts from the beginning of minute 1, where the first file should start.

    Raises:
        BadFile: If it holds something else.
    """
    with path.open("rb") as file:
        head = file.readline(200).decode("ascii", "replace").strip().lower()
    names = head.replace('"', "").split(",")
    places = [[i for i, name in enumerate(names) if name.startswith(axis)] for axis in AXES]
    if len(names) != 2 or any(len(found) != 1 for found in places):
        raise BadFile(
            f"{path} must begin with Horizontal_vibration_signals,Vertical_vibration_signals, got {head[:60]!r}"
        )
    rows = numbers_of(path, skip=1)
    if rows.shape[1] != 2:
        raise BadFile(f"{path} has {rows.shape[1]} columns below its header of 2")
    samples = rows[:, [found[0] for found in places]]
    return Snapshot(check_samples(path, samples, XJTU.samples), XJTU.rate, (int(path.stem) - 1) * _PERIOD)
