"""`Contender`: who takes part in a race, under a name of its own."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nacre._util.foreign_code import trusted_packages, trusting
from nacre.drive.carracing.episode import Driver
from nacre.drive.carracing.expert import Expert
from nacre.drive.carracing.policy import Decision, load_driver
from nacre.train.run import Run

EXPERT = "expert"  # races beside networks if its name is given instead of a run
_SEED = re.compile(r"(\d+)-")  # at the start of the names of recorded episodes


@dataclass(frozen=True)
class Contender:
    """Who takes part."""

    name: str  # in tables, different from all others of the race
    run: Path | None  # run directory; None for the expert
    about: tuple[tuple[str, Any], ...]  # of the run: model, parameters, training steps, number of drives ...
    digest: str  # checksum of everything that decides how it drives
    seen: frozenset[int]  # seeds of the tracks that it was trained, validated or tested on
    decision: Decision = Decision.TURNS  # how a network's probabilities become an action
    trust: tuple[str, ...] = ()  # packages whose code its network may import, in other processes, too

    def driver(self) -> Driver:
        """A driver at the start of an episode."""
        with trusting(self.trust):
            return Expert() if self.run is None else load_driver(self.run, self.decision)


def contenders(runs: Sequence[str], decision: Decision = Decision.TURNS) -> list[Contender]:
    """Those who take part, from run directories or "expert".

    Raises:
        ValueError: If one is given twice, or cannot drive.
    """
    paths = [None if run == EXPERT else Path(run) for run in runs]
    if len({path and path.resolve() for path in paths}) < len(paths):
        raise ValueError(f"each run can be given once, got {', '.join(runs)}")
    found = [_contender(path, decision) for path in paths]
    return [replace(each, name=name) for each, name in zip(found, _names(found), strict=True)]


def _contender(run: Path | None, decision: Decision) -> Contender:
    if run is None:
        return Contender(EXPERT, None, (("model", EXPERT),), EXPERT, frozenset())
    driver = load_driver(run, decision)  # refuses what cannot drive, before anyone does
    trained = Run.open(run)
    result = trained.result.record
    digest = hashlib.sha256(f"{trained.weights} {driver.frames} {decision}".encode()).hexdigest()
    files: Iterable[str] = result["data"]["files"]
    seeds = [int(match[1]) for name in files if (match := _SEED.match(name))]
    about = {
        "model": driver.name,
        "task": result["task"],
        "accuracy": result["value"],
        "parameters": result["parameters"],
        "training_steps": result["budget"]["steps_taken"],
        "drives": len(seeds),
        "frames": driver.frames,
        "decision": str(decision),
        "fold": result["fold"],
        "seed": result["seed"],
        "trained": result["fingerprint"],
    }
    return Contender(
        driver.name, run, tuple(about.items()), digest, frozenset(seeds), decision, trusted_packages()
    )


def _names(found: Sequence[Contender]) -> list[str]:
    """The model's name; if several share it, with task, fold and seed; if these are shared too, with a number."""
    names = [contender.name for contender in found]
    for form in ("{model}-{task}", "{model}-{task}-fold{fold}-seed{seed}"):
        longer = [form.format(**dict(c.about)) if c.run else c.name for c in found]
        names = [long if names.count(name) > 1 else name for name, long in zip(names, longer, strict=True)]
    return [
        f"{name}-{names[:i].count(name) + 1}" if names.count(name) > 1 else name for i, name in enumerate(names)
    ]
