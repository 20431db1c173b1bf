"""`nacre drive collect`: record episodes of a driver, one file each. Existing files are kept."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from nacre._util.checks import real, whole
from nacre._util.pool import default_jobs, each
from nacre._util.text import console_table
from nacre.data.sets.episodes import SUFFIX, Drive, read_episode, write_episode
from nacre.drive.carracing.episode import Driver, run_episode
from nacre.drive.carracing.expert import Expert
from nacre.train.report.statistics import wilson

FOLDER = Path("carracing")  # where `nacre train carracing` looks first


@dataclass(frozen=True)
class Collect:
    """What to record."""

    episodes: int  # how many
    seed: int = 0  # of the first track; the next ones follow
    out: Path = FOLDER
    noise: float = 0.0  # share of the steps with a random action; labels stay the driver's
    randomize: bool = False  # random colours of road and grass
    policy: Path | None = None  # a Stable-Baselines3 PPO file that drives; None for the expert
    keep: bool = True  # write the episodes; else only their metrics are printed
    limit: int = 2000  # steps after which an episode ends
    jobs: int | None = None  # processes at once; None for one for each processor

    def __post_init__(self) -> None:
        """Check the ranges."""
        whole("episodes", self.episodes, 1)
        whole("seed", self.seed, 0)
        whole("limit", self.limit, 1)
        real("noise", self.noise, 0.0, 0.9)


def collect(what: Collect) -> list[dict[str, Any]]:
    """Record what is not there yet, print a table of all, and return their outcomes in the order of seeds."""
    console = Console()
    first = Drive(what.seed, what.randomize, what.noise, _driver(what.policy).name, what.limit)
    drives = [replace(first, seed=what.seed + number) for number in range(what.episodes)]
    outcomes = {drive: kept for drive in drives if what.keep and (kept := _kept(what.out, drive))}
    todo = [drive for drive in drives if drive not in outcomes]
    record = partial(_record, policy=what.policy, out=what.out if what.keep else None)
    jobs = default_jobs() if what.jobs is None else whole("jobs", what.jobs, 1)
    for drive, outcome in each(record, todo, jobs, console, "recording"):
        outcomes[drive] = outcome
    rows = [outcomes[drive] for drive in drives]
    console.print(_table(drives, rows))
    done = sum(row["finished"] for row in rows)
    low, high = wilson(done, len(rows))
    console.print(f"{first.driver}: {done} of {len(rows)} laps finished (95 % interval {low:.0%} to {high:.0%})")
    if what.keep:
        console.print(f"{len(todo)} recorded, {len(rows) - len(todo)} were there; in {what.out}", markup=False)
    return rows


def _driver(policy: Path | None) -> Driver:
    if policy is None:
        return Expert()
    from nacre.drive.carracing.ppo import load_ppo

    return load_ppo(policy)


def _record(drive: Drive, policy: Path | None, out: Path | None) -> dict[str, Any]:
    episode = run_episode(_driver(policy), drive)
    if out is not None:
        write_episode(out, episode)
    return episode.outcome


def _kept(folder: Path, drive: Drive) -> dict[str, Any] | None:
    """Outcome of an episode that was recorded before, in the same way."""
    path = folder / f"{drive.name}{SUFFIX}"
    if not path.exists():
        return None
    episode = read_episode(path)
    if episode.drive != drive:
        raise ValueError(f"{path} was driven in another way ({episode.drive}); give another --out, or delete it")
    return episode.outcome


def _table(drives: list[Drive], rows: list[dict[str, Any]]) -> Table:
    table = console_table(("seed", "lap", "tiles", "off road", "error m", "largest m", "speed m/s", "steps"))
    for drive, row in zip(drives, rows, strict=True):
        table.add_row(
            str(drive.seed),
            "finished" if row["finished"] else "lost" if row["lost"] else "time up",
            f"{row['progress']:.1%}",
            f"{row['off_track']:.1%}",
            f"{row['error']:.2f}",
            f"{row['largest_error']:.2f}",
            f"{row['speed']:.1f}",
            f"{row['steps']:,}",
        )
    return table
