"""`Standing`: the mean metrics of a contender's laps in one condition, and tables of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from nacre._util.text import markdown_rows
from nacre.drive.carracing.lap import COLOURS
from nacre.train.report.statistics import wilson

COLUMNS = ("contender", "colours", "laps", "95 %", "flag", "tiles", "error", "off", "m/s", "ms")


@dataclass(frozen=True)
class Standing:
    """Means over the laps of one contender in one condition."""

    contender: str
    condition: str  # plain or random colours
    laps: int
    finished: int  # laps finished by our rule
    low: float  # lower end of Wilson's 95 % interval of their share
    high: float  # upper end
    flagged: int  # laps finished by the environment's own rule
    progress: float  # mean share of tiles
    progress_std: float  # its standard deviation over laps; 0 for one lap
    error: float  # mean distance from the centre line in metres
    off_track: float  # mean share of steps off the road
    speed: float  # mean, in metres a second
    milliseconds: float | None  # median time for a frame; None for the expert
    inference: str  # "step", "window" or "script"
    parameters: int | None  # of the network; None for the expert
    training_steps: int | None  # None for the expert


def standing(contender: str, condition: str, laps: Sequence[dict[str, Any]]) -> Standing:
    """The standing of a contender in a condition, from laps as `drive_lap` returns them."""
    finished = sum(lap["finished"] for lap in laps)
    low, high = wilson(finished, len(laps))
    progress = [lap["progress"] for lap in laps]
    times = [lap["milliseconds"] for lap in laps if lap["milliseconds"] is not None]
    return Standing(
        contender=contender,
        condition=condition,
        laps=len(laps),
        finished=finished,
        low=low,
        high=high,
        flagged=sum(lap["flag"] for lap in laps),
        progress=fmean(progress),
        progress_std=stdev(progress) if len(laps) > 1 else 0.0,
        error=fmean(lap["error"] for lap in laps),
        off_track=fmean(lap["off_track"] for lap in laps),
        speed=fmean(lap["speed"] for lap in laps),
        milliseconds=median(times) if times else None,
        inference=laps[0]["inference"],
        parameters=laps[0]["about"].get("parameters"),
        training_steps=laps[0]["about"].get("training_steps"),
    )


def cells(row: Standing) -> list[str]:
    """A standing as text, in the order of `COLUMNS`."""
    return [
        row.contender,
        "random" if row.condition == COLOURS else row.condition,
        f"{row.finished}/{row.laps}",
        f"{100 * row.low:.0f}-{row.high:.0%}",
        str(row.flagged),
        f"{row.progress:.1%}",
        f"{row.error:.2f}",
        f"{row.off_track:.1%}",
        f"{row.speed:.1f}",
        "" if row.milliseconds is None else f"{row.milliseconds:.1f} {row.inference}",
    ]


def markdown(rows: Sequence[Standing]) -> str:
    """A table in Markdown."""
    return markdown_rows(COLUMNS, map(cells, rows)) + "\n"
