"""`nacre drive race`: networks drive unseen tracks. Each lap has a file; an interrupted race resumes."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from nacre._util.checks import whole
from nacre._util.files import write_atomic
from nacre._util.pool import default_jobs, each
from nacre._util.provenance import provenance
from nacre._util.text import console_table, csv_text, json_text
from nacre.data.sets.episodes import Drive
from nacre.drive.carracing.contender import Contender, contenders
from nacre.drive.carracing.lap import COLOURS, PLAIN, Lap, drive_lap, read_lap
from nacre.drive.carracing.policy import Decision, NetworkDriver
from nacre.drive.carracing.standings import COLUMNS, Standing, cells, markdown, standing

_LAP_COLUMNS = ("contender", "condition", "seed", "finished", "flag", "lost", "progress", "steps", "error",
                "largest_error", "off_track", "speed", "milliseconds")  # fmt: skip


@dataclass(frozen=True)
class Race:
    """Who races where."""

    runs: Sequence[str]  # run directories, or "expert"
    episodes: int = 10  # tracks
    seed: int = 10_000  # of the first track; the next ones follow
    randomize: bool = False  # drive the same tracks in random colours, too
    out: Path = Path("races")
    limit: int = 2000  # steps after which an episode ends
    film: bool = True  # film the first track, with what the networks look at
    decision: Decision = Decision.TURNS  # how the probabilities of networks become actions
    jobs: int | None = None  # processes at once; None for one for each processor

    def __post_init__(self) -> None:
        """Check runs and ranges."""
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
    """Drive what was not driven yet; write tables, figures and films, and print the standings.

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
    table = console_table(COLUMNS, left=("colours",))
    table.padding = 0  # to fit 80 characters, with names that can be long
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
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
    """standings.csv and .md, laps.csv with one row for each lap, and race.json with their provenance."""
    lap_rows = [
        {**lap, "condition": COLOURS if lap["drive"]["randomize"] else PLAIN, "seed": lap["drive"]["seed"]}
        for lap in laps
    ]
    about = {
        "contenders": {contender.name: dict(contender.about) for contender in who},
        "episodes": race.episodes,
        "seed": race.seed,
        "limit": race.limit,
        # Laps may have been driven by earlier commands, each at its own commit.
        "commits": sorted({str(lap["provenance"]["commit"]) for lap in laps}),
        "provenance": provenance(None),
    }
    texts = {
        "standings.md": markdown(rows),
        "standings.csv": csv_text([field.name for field in fields(Standing)], [asdict(row) for row in rows]),
        "laps.csv": csv_text(_LAP_COLUMNS, lap_rows),
        "race.json": json_text(about),
    }
    for name, text in texts.items():
        write_atomic(race.out / name, text.encode())


def _draw(race: Race, first: Sequence[Lap], done: dict[Lap, dict[str, Any]], console: Console) -> None:
    """Figures and films of the first track."""
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
