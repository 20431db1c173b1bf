"""`nacre drive race`: networks drive unseen tracks. What was driven is kept, so a race can be gone on with."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from nacre._util.checks import whole
from nacre._util.files import write_atomic
from nacre._util.pool import default_jobs, each
from nacre._util.provenance import provenance
from nacre.data.sets.episodes import Drive
from nacre.drive.carracing.contender import Contender, contenders
from nacre.drive.carracing.lap import COLOURS, PLAIN, Lap, drive_lap, read_lap
from nacre.drive.carracing.policy import Decision, NetworkDriver
from nacre.drive.carracing.standings import COLUMNS, Standing, as_rows, markdown, standing, words

_FIGURES = ("finished", "flag", "lost", "progress", "steps", "error", "largest_error", "off_track", "speed",
            "milliseconds")  # fmt: skip


@dataclass(frozen=True)
class Race:
    """Who races where.

    Attributes:
        runs: Run directories, or "expert".
        episodes: Tracks.
        seed: Seed of the first track; the next ones follow.
        randomize: Whether the same tracks are driven again in random colours.
        out: Where results go.
        limit: Steps after which an episode ends.
        film: Whether the first track is filmed, with what the networks look at.
        decision: How the probabilities of networks become actions.
        jobs: Processes at once; None for one for each processor.
    """

    runs: Sequence[str]
    episodes: int = 10
    seed: int = 10_000
    randomize: bool = False
    out: Path = Path("races")
    limit: int = 2000
    film: bool = True
    decision: Decision = Decision.TURNS
    jobs: int | None = None

    def __post_init__(self) -> None:
        """Check."""
        if not self.runs:
            raise ValueError("runs must name one directory at least, such as runs/carracing/nac/fold0-seed0")
        for name in ("episodes", "limit"):
            whole(name, getattr(self, name), 1)
        whole("seed", self.seed, 0)

    def laps(self, who: Sequence[Contender]) -> list[Lap]:
        """All laps: for each condition, contender after contender."""
        seeds = range(self.seed, self.seed + self.episodes)
        return [
            Lap(contender, Drive(seed, colours, 0.0, contender.name, self.limit))
            for colours in ([False, True] if self.randomize else [False])
            for contender in who
            for seed in seeds
        ]


def run_race(race: Race) -> list[Standing]:
    """Drive what was not driven yet; write tables and pictures, and print the standings.

    Raises:
        ValueError: Before anyone drives, if a run cannot drive, or has seen one of the tracks.
    """
    console = Console()
    who = contenders(race.runs, race.decision)
    laps = race.laps(who)
    _refuse_seen(who, laps)
    done = {lap: kept for lap in laps if (kept := read_lap(lap, race.out))}
    todo = [lap for lap in laps if lap not in done]
    jobs = default_jobs() if race.jobs is None else whole("jobs", race.jobs, 1)
    for lap, kept in each(partial(drive_lap, out=race.out), todo, jobs, console, "racing"):
        done[lap] = kept
    rows = [
        standing(contender.name, condition, kept)
        for condition in (PLAIN, COLOURS)
        for contender in who
        if (kept := [done[lap] for lap in laps if lap.contender == contender and lap.condition == condition])
    ]
    _write(race, who, rows, [done[lap] for lap in laps])
    _draw(race, [lap for lap in laps if lap.drive.seed == race.seed], done, console)
    console.print(_table(rows))
    console.print(
        "laps finished, with Wilson's interval; flag: the environment's own; error: metres from the centre line; "
        "off: time off the road; ms: time for a frame",
        style="dim",
    )
    console.print(f"{len(todo)} laps driven, {len(laps) - len(todo)} were there; in {race.out}", markup=False)
    return rows


def _refuse_seen(who: Sequence[Contender], laps: Sequence[Lap]) -> None:
    seeds = {lap.drive.seed for lap in laps}
    for contender in who:
        if both := sorted(seeds & contender.seen):
            raise ValueError(
                f"{contender.name} knows the tracks of seeds {', '.join(map(str, both[:5]))} from its recorded "
                "drives; give a --seed whose tracks it has never seen"
            )


def _write(race: Race, who: Sequence[Contender], rows: Sequence[Standing], laps: Sequence[dict[str, Any]]) -> None:
    """standings.csv and .md, laps.csv with one row for each lap, and race.json, which says whence they come."""
    each_lap = [
        [lap["contender"], COLOURS if lap["drive"]["randomize"] else PLAIN, lap["drive"]["seed"],
         *(lap[name] for name in _FIGURES)]
        for lap in laps
    ]  # fmt: skip
    about = {
        "contenders": {contender.name: dict(contender.about) for contender in who},
        "episodes": race.episodes,
        "seed": race.seed,
        "limit": race.limit,
        # Laps may have been driven by earlier commands, each at its own commit.
        "commits": sorted({str(lap["provenance"]["commit"]) for lap in laps}),
        "provenance": provenance(None),
    }
    write_atomic(race.out / "standings.md", markdown(rows).encode())
    write_atomic(race.out / "standings.csv", _csv(as_rows(rows)))
    write_atomic(race.out / "laps.csv", _csv([["contender", "condition", "seed", *_FIGURES], *each_lap]))
    write_atomic(race.out / "race.json", json.dumps(about, indent=1).encode())


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _draw(race: Race, first: Sequence[Lap], done: dict[Lap, dict[str, Any]], console: Console) -> None:
    """Pictures of the first track."""
    from nacre.drive.carracing.figures import draw_tracks
    from nacre.drive.carracing.film import film
    from nacre.drive.carracing.saliency import strip

    for condition in (PLAIN, COLOURS):
        shown = [lap for lap in first if lap.condition == condition]
        if not shown:
            continue
        path = race.out / f"tracks-{condition}.png"
        colours = "random colours" if condition == COLOURS else "plain colours"
        write_atomic(path, draw_tracks([done[lap] for lap in shown], f"track {race.seed}, {colours}"))
        console.print(f"wrote {path}", markup=False)
        for lap in shown if race.film else ():
            stem, driver = race.out / f"drive-{lap.contender.name}-{condition}", lap.contender.driver()
            filmed = film(driver, lap.drive, stem)
            made = [filmed.mp4, filmed.gif]
            if isinstance(driver, NetworkDriver):
                made.append(strip(driver, filmed.episode, stem.with_name(f"{stem.name}-looks.png")))
            console.print(f"wrote {', '.join(path.name for path in made)}", markup=False)


def _table(rows: Sequence[Standing]) -> Table:
    table = Table(*COLUMNS.values(), box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for column in table.columns[2:]:
        column.justify, column.no_wrap = "right", True
    for row in rows:
        table.add_row(*words(row).values())
    return table
