"""One drive from start to end, whoever drives."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nacre.data.sets.episodes import ACTIONS, Drive, Episode
from nacre.drive.carracing.road import HALF_WIDTH, Road
from nacre.drive.carracing.world import FPS, World

_BURST = (2, 6)  # steps for which a random action is held; single steps would hardly move the car
_RANDOM = tuple(ACTIONS.index(name) for name in ("right", "left", "gas"))  # actions that push a car off its line


class Driver(Protocol):
    """Who drives."""

    name: str

    def begin(self) -> None:
        """Forget the last episode."""
        ...

    def act(self, world: World) -> int:
        """The action for this moment."""
        ...


def run_episode(
    driver: Driver, drive: Drive, watch: Callable[[World, int], None] | None = None, render: bool = False
) -> Episode:
    """Drive until the lap is finished, the car is lost, or time is up.

    Args:
        driver: Chooses the action; under noise its choice is still asked for at every step, and is the label.
        drive: Which track, and how.
        watch: Called before every step with the world and the action.
        render: Whether `watch` may call `World.view`.
    """
    noise = _Noise(drive)
    frames, actions, labels, poses = [], [], [], []
    driver.begin()
    with World(drive.seed, drive.randomize, render) as world:
        while not (world.finished or world.lost or world.steps >= drive.limit):
            label = driver.act(world)
            action = noise.instead_of(label)
            if watch is not None:
                watch(world, action)
            frames.append(world.frame)
            poses.append(world.pose)
            actions.append(action)
            labels.append(label)
            world.step(action)
        pose = np.array(poses)
        return Episode(
            drive=drive,
            frames=np.stack(frames),
            action=np.array(actions),
            label=np.array(labels),
            pose=pose,
            road=world.road.points,
            outcome=_outcome(world, pose),
        )


def errors_of(road: NDArray[np.float64], pose: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n] distance from the centre line [m, 2] at each pose [n, 5], positive to the left."""
    line = Road(road)
    return np.array([line.locate(position).error for position in pose[:, :2]])


def _outcome(world: World, pose: NDArray[np.float64]) -> dict[str, Any]:
    error = np.abs(errors_of(world.road.points, pose))
    return {
        "finished": world.finished,
        "flag": world.flag,
        "lost": world.lost,
        "progress": world.progress,
        "steps": world.steps,
        "seconds": world.steps / FPS,
        "error": float(error.mean()),
        "largest_error": float(error.max()),
        "off_track": float((error > HALF_WIDTH).mean()),
        "speed": float(pose[:, 3].mean()),
    }


class _Noise:
    """Random actions in short bursts that together take a given share of the steps."""

    def __init__(self, drive: Drive) -> None:
        self._random = np.random.default_rng([drive.seed, 2])
        burst = sum(_BURST) / 2
        # The probability of a burst that gives this share, for bursts of this mean length.
        self._chance = drive.noise / (burst * (1 - drive.noise)) if drive.noise else 0.0
        self._left, self._action = 0, 0

    def instead_of(self, action: int) -> int:
        """The action to take, given the one that was chosen."""
        if self._left == 0:
            if self._random.random() >= self._chance:
                return action
            self._left = int(self._random.integers(_BURST[0], _BURST[1] + 1))
            self._action = _RANDOM[self._random.integers(len(_RANDOM))]
        self._left -= 1
        return self._action
