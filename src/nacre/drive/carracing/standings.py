"""`Standing`: what the laps of a contender in one condition come to, and tables of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean, median, stdev
from typing import Any

from nacre.drive.carracing.lap import COLOURS
from nacre.train.report.statistics import wilson

COLUMNS = {
    "contender": "contender",
    "condition": "colours",
    "laps": "laps",
    "rate": "95 %",
    "flags": "flag",
    "tiles": "tiles",
    "error": "error",
    "off_track": "off",
    "speed": "m/s",
    "latency": "ms",
}


@dataclass(frozen=True)
class Standing:
    """Means over the laps of one contender in one condition.

    Attributes:
        contender: Who.
        condition: Plain or random colours.
        laps: Episodes driven.
        finished: Laps finished by our rule.
        low: Lower end of Wilson's 95 % interval of the share of them.
        high: Upper end.
        flagged: Laps that the environment itself called finished.
        progress: Mean share of tiles.
        progress_std: Its standard deviation over laps; 0 for one lap.
        error: Mean distance from the centre line in metres.
        off_track: Mean share of steps off the road.
        speed: Mean speed in metres a second.
        milliseconds: Median time for a frame; None for the expert.
        inference: "step", "window" or "script".
        parameters: Parameters of the network; None for the expert.
        training_steps: Steps it was trained for; None for the expert.
    """

    contender: str
    condition: str
    laps: int
    finished: int
    low: float
    high: float
    flagged: int
    progress: float
    progress_std: float
    error: float
    off_track: float
    speed: float
    milliseconds: float | None
    inference: str
    parameters: int | None
    training_steps: int | None


def standing(contender: str, condition: str, laps: Sequence[dict[str, Any]]) -> Standing:
    """What laps come to.

    Args:
        contender: Who drove them.
        condition: In which colours.
        laps: What `nacre.drive.carracing.lap.drive_lap` kept.
    """
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


def words(row: Standing) -> dict[str, str]:
    """A standing for people, by the keys of `COLUMNS`."""
    return {
        "contender": row.contender,
        "condition": "random" if row.condition == COLOURS else row.condition,
        "laps": f"{row.finished}/{row.laps}",
        "rate": f"{100 * row.low:.0f}-{row.high:.0%}",
        "flags": str(row.flagged),
        "tiles": f"{row.progress:.1%}",
        "error": f"{row.error:.2f}",
        "off_track": f"{row.off_track:.1%}",
        "speed": f"{row.speed:.1f}",
        "latency": "" if row.milliseconds is None else f"{row.milliseconds:.1f} {row.inference}",
    }


def markdown(rows: Sequence[Standing]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS.values()) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(words(row).values()) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def as_rows(rows: Sequence[Standing]) -> list[list[Any]]:
    """Names of all figures, then the figures of each standing, for CSV."""
    return [[field.name for field in fields(Standing)], *(list(asdict(row).values()) for row in rows)]
