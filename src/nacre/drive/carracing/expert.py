"""`Expert`: a driver that knows the centre line: pure pursuit for steering, curvature ahead for speed."""

import math

import numpy as np

from nacre.data.sets.episodes import ACTIONS
from nacre.drive.carracing.road import Road
from nacre.drive.carracing.world import Pose, World

COAST, RIGHT, LEFT, GAS, BRAKE = range(len(ACTIONS))
_WHEELBASE = 3.3  # metres, of CarRacing's car
_FARTHEST_WHEEL = 0.4  # radians, where the wheels stop
_WHEEL_SLACK = 0.03  # radians of error that are accepted: the wheels turn by 0.06 in a step
_STEERING_GAIN = 2.5  # the tyres slip: a car turns less than its wheels say
_LOOK_AHEAD = (6.0, 0.2)  # metres, and metres for each metre a second
_TOP_SPEED = 45.0  # metres a second
_GRIP = 60.0  # metres a second squared across, with a margin to what the tyres hold
_BRAKING = 10.0  # metres a second squared that slowing down for a bend may count on
_BEND_OVER = 10.0  # metres over which a bend is measured
_SEEN = 36.0  # metres ahead that a frame shows; an expert that looks further cannot be cloned


class Expert:
    """Chooses one of the five actions from the car's pose alone; it has no state.

    It steers until the wheels are at the angle of pure pursuit, then controls the speed. Steering and gas exclude
    each other in the discrete CarRacing, so bends are driven by alternating both.

    Example:
        >>> from nacre.drive.carracing.world import World
        >>> with World(seed=3) as world:
        ...     print(ACTIONS[Expert().act(world)])
        gas
    """

    name = "expert"

    def begin(self) -> None:
        """Nothing to forget."""

    def act(self, world: World) -> int:
        """The action for this moment."""
        return choose(world.road, world.pose)


def choose(road: Road, pose: Pose) -> int:
    """The expert's action for a car on a road."""
    along = road.locate((pose.x, pose.y)).along
    turn = _wheel_angle(road, pose, along) - pose.wheel
    if abs(turn) > _WHEEL_SLACK:
        return LEFT if turn > 0 else RIGHT
    speed = _speed(road, pose, along)
    if pose.speed < speed:
        return GAS
    return BRAKE if pose.speed > 1.1 * speed + 1 else COAST


def _wheel_angle(road: Road, pose: Pose, along: float) -> float:
    """Pure pursuit: the angle of an arc through a point of the centre line ahead; left is positive."""
    goal = road.ahead(along, _LOOK_AHEAD[0] + _LOOK_AHEAD[1] * pose.speed)
    dx, dy = goal[0] - pose.x, goal[1] - pose.y
    bearing = math.atan2(dy, dx) - pose.heading
    angle = math.atan2(2 * _WHEELBASE * math.sin(bearing), math.hypot(dx, dy))
    return max(-_FARTHEST_WHEEL, min(_FARTHEST_WHEEL, _STEERING_GAIN * angle))


def _speed(road: Road, pose: Pose, along: float) -> float:
    """The fastest speed from which every bend ahead can still be taken."""
    metres, bend = road.bend(along, _SEEN - _BEND_OVER, _BEND_OVER).T
    allowed = np.sqrt(_GRIP / bend.clip(1e-6) + 2 * _BRAKING * (metres - 4).clip(0))
    return min(_TOP_SPEED, float(allowed.min()))
