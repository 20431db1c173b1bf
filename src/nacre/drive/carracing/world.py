"""`World`: CarRacing without a screen, with laps and colours by our own rules. Needs gymnasium."""

from __future__ import annotations

import math
import os
import warnings
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nacre.data.sets.episodes import ACTIONS
from nacre.drive.carracing.road import Place, Road

FPS = 50
LAP_SHARE = 0.95  # of the tiles that a finished lap has touched
_PLAIN = {"road_color": (102, 102, 102), "bg_color": (102, 204, 102), "grass_color": (102, 230, 102)}
_BRIGHTEST = 210.0  # of a random colour; the environment's own limit
_EDGE = 2000 / 6  # metres from the middle to the edge of the playfield, where the environment ends an episode


class Pose(NamedTuple):
    """Position and motion of the car."""

    x: float  # metres
    y: float  # metres
    heading: float  # radians, 0 along x, counter-clockwise
    speed: float  # metres a second
    wheel: float  # angle of the front wheels in radians, positive to the left


class World:
    """One track of CarRacing-v3 with its five actions.

    A lap is finished when the car has crossed the start line after a whole round and has touched 95 % of the
    tiles. The environment's own `flag` may come early or never, since the tile on the start line is often touched
    at the start already.

    Args:
        seed: Seed of the track.
        randomize: Whether road and grass have random colours; the track stays that of the seed.
        render: Whether `view` can be called.

    Example:
        >>> with World(seed=3) as world:
        ...     frame = world.step(ACTIONS.index("gas"))
        ...     print(frame.shape, round(world.pose.speed, 1) > 0)
        (96, 96, 3) True
    """

    def __init__(self, seed: int, randomize: bool = False, render: bool = False) -> None:
        made = _gymnasium().make(
            "CarRacing-v3",
            continuous=False,
            domain_randomize=True,  # so that reset keeps the colours set below
            render_mode="rgb_array" if render else None,
        )
        self._env = cast("Any", made.unwrapped)  # without the wrapper that ends an episode after 1,000 steps
        for name, colour in (_colours(seed) if randomize else _PLAIN).items():
            setattr(self._env, name, np.array(colour, np.float64))
        self.frame: NDArray[np.uint8] = self._env.reset(seed=seed, options={"randomize": False})[0]
        self.road = Road([point[2:4] for point in self._env.track])
        self.flag = False  # whether the environment called the lap finished
        self.steps = 0
        self._along = self.place.along
        self._driven = self._signed(self._along)  # metres along the centre line since the start, minus those back

    def __enter__(self) -> World:
        """The world itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the environment."""
        self._env.close()

    @property
    def pose(self) -> Pose:
        """Position and motion of the car."""
        car = self._env.car
        speed = math.hypot(*car.hull.linearVelocity)
        x, y = car.hull.position
        # The hull's own forward is along y.
        return Pose(x, y, car.hull.angle + math.pi / 2, speed, car.wheels[0].joint.angle)

    @property
    def place(self) -> Place:
        """Metres along the centre line, and distance from it."""
        return self.road.locate(self._env.car.hull.position)

    @property
    def progress(self) -> float:
        """Share of the tiles touched so far."""
        return self._env.tile_visited_count / len(self._env.track)

    @property
    def finished(self) -> bool:
        """Whether a lap is finished, by our rule."""
        return self.progress >= LAP_SHARE and self._driven >= self.road.length

    @property
    def lost(self) -> bool:
        """Whether the car has left the playfield."""
        return max(map(abs, self._env.car.hull.position)) > _EDGE

    def step(self, action: int) -> NDArray[np.uint8]:
        """Take an action for a fiftieth of a second; returns the next frame, [96, 96, 3] uint8."""
        if not 0 <= action < len(ACTIONS):
            raise ValueError(f"action must be 0 to {len(ACTIONS) - 1}, got {action}")
        self.frame, _, _, _, info = self._env.step(action)
        self.flag |= bool(info.get("lap_finished", False))
        along = self.place.along
        self._driven += self._signed(along - self._along)
        self._along, self.steps = along, self.steps + 1
        return self.frame

    def view(self) -> NDArray[np.uint8]:
        """[400, 600, 3] uint8, a larger view for people."""
        return self._env.render()

    def _signed(self, metres: float) -> float:
        """A distance along the closed road, forwards or backwards, whichever is shorter."""
        half = self.road.length / 2
        return (metres + half) % self.road.length - half


def _gymnasium() -> Any:  # noqa: ANN401 (a module)
    """The package, set up to render without a screen."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    with warnings.catch_warnings():
        # Box2D's C code warns while it is imported, and crashes Python where warnings are errors.
        warnings.simplefilter("ignore")
        import Box2D  # noqa: F401 (here, because gymnasium would name another package if it were missing)
        import gymnasium
        import pygame  # noqa: F401
    return gymnasium


def _colours(seed: int) -> dict[str, NDArray[np.float64]]:
    """Random colours like the environment's own: one for the road, one for the ground, and grass close to it."""
    random = np.random.default_rng([seed, 1])
    road, ground = random.uniform(0, _BRIGHTEST, (2, 3))
    grass = ground.copy()
    grass[random.integers(3)] += 20
    return {"road_color": road, "bg_color": ground, "grass_color": grass}
