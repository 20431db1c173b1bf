"""Keeping a speed: a controller from speed to throttle."""

from dataclasses import dataclass, field

from nacre._util.checks import real

LONGEST_STEP = 0.2  # seconds; a longer pause of the simulator counts as this much
# Below this speed (mph) there is no braking: at 5 mph and less the simulator takes a negative throttle as reverse
# gear, and since it tells the speed without a sign, the controller could not see that the car goes backwards.
BRAKE_ABOVE = 6.0


@dataclass
class SpeedController:
    """A proportional-integral controller with limits, whose integral does not wind up at them.

    Args:
        target: Speed to keep, in miles per hour, the unit of the simulator.
        proportional: Throttle for each mph too slow.
        integral: Throttle for each mph too slow and second.
        lowest: Hardest braking.
        highest: Most throttle.

    Example:
        >>> SpeedController(target=15.0).throttle(speed=0.0, seconds=0.05)
        1.0
    """

    target: float
    proportional: float = 0.1
    integral: float = 0.05
    lowest: float = -0.5
    highest: float = 1.0
    _held: float = field(default=0.0, init=False)  # the integral term, as a throttle

    def __post_init__(self) -> None:
        """Refuse a speed that no car of the simulator can keep."""
        real("target_speed", self.target, 0.0, 100.0, open_low=True)

    def throttle(self, speed: float, seconds: float) -> float:
        """The throttle to give now.

        Args:
            speed: Speed of the car in mph.
            seconds: Time since the last call.
        """
        error = self.target - speed
        low = self.lowest if speed > BRAKE_ABOVE else 0.0
        held = self._held + self.integral * error * min(max(seconds, 0.0), LONGEST_STEP)
        wanted = self.proportional * error + held
        # At a limit the integral may only move away from it.
        if not (wanted > self.highest and error > 0) and not (wanted < low and error < 0):
            self._held = min(max(held, self.lowest), self.highest)
        return min(max(self.proportional * error + self._held, low), self.highest)
