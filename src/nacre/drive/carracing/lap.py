"""`Lap`: one episode of a race, and its file."""

import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nacre._util.files import write_atomic
from nacre._util.provenance import provenance
from nacre.data.sets.episodes import ACTIONS, Drive, Episode
from nacre.drive.carracing.contender import Contender
from nacre.drive.carracing.episode import errors_of, run_episode
from nacre.drive.carracing.policy import NetworkDriver

FORMAT = 1
PLAIN, COLOURS = "plain", "colours"  # conditions


@dataclass(frozen=True)
class Lap:
    """A contender on a track."""

    contender: Contender
    drive: Drive

    @property
    def condition(self) -> str:
        """Plain or random colours."""
        return COLOURS if self.drive.randomize else PLAIN

    def path(self, out: Path) -> Path:
        """The lap's file."""
        return out / self.contender.name / self.condition / f"{self.drive.seed:06d}.json"


def read_lap(lap: Lap, out: Path) -> dict[str, Any] | None:
    """The contents of a lap's file; None if it was not driven yet.

    Raises:
        ValueError: If the file is damaged, or is of another driver under the same name.
    """
    path = lap.path(out)
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        same = found["digest"] == lap.contender.digest and found["drive"] == asdict(lap.drive)
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged; delete it and race again") from None
    if not same or found.get("format") != FORMAT:
        raise ValueError(
            f"{path} was driven by another network, or in another way; give another --out, or delete it"
        )
    return found


def drive_lap(lap: Lap, out: Path) -> dict[str, Any]:
    """Drive, write the lap's file, and return its contents."""
    driver = lap.contender.driver()
    episode = run_episode(driver, lap.drive)
    network = driver if isinstance(driver, NetworkDriver) else None
    kept = {
        "format": FORMAT,
        "contender": lap.contender.name,
        "about": dict(lap.contender.about),
        "digest": lap.contender.digest,
        "drive": asdict(lap.drive),
        **episode.outcome,
        "milliseconds": 1000 * statistics.median(network.latency) if network else None,
        "inference": "script" if network is None else "step" if network.streams else "window",
        "trace": _trace(episode),
        "provenance": provenance(None),
    }
    path = lap.path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(kept).encode())
    return kept


def _trace(episode: Episode) -> dict[str, Any]:
    """The path of the car, to the centimetre, and the road."""
    return {
        "x": episode.pose[:, 0].round(2).tolist(),
        "y": episode.pose[:, 1].round(2).tolist(),
        "speed": episode.pose[:, 3].round(2).tolist(),
        "error": errors_of(episode.road, episode.pose).round(2).tolist(),
        "action": episode.action.tolist(),
        "actions": list(ACTIONS),
        "road": episode.road.round(2).tolist(),
    }
