"""The speed controller of the Udacity server, on a toy car."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nacre.drive.udacity.speed_control import BRAKE_ABOVE, SpeedController

STEP = 0.05


def drive(controller, seconds, speed=0.0, slope=0.0):
    """Speeds of a car that gains 8 mph a second at full throttle and loses a tenth of its speed a second."""
    speeds = []
    for _ in range(round(seconds / STEP)):
        throttle = controller.throttle(speed, STEP)
        speed = max(0.0, speed + STEP * (8 * throttle - 0.1 * speed + slope))
        speeds.append(speed)
    return speeds


def test_the_car_comes_to_the_target_speed_and_stays_uphill_and_downhill():
    for target, slope in ((5.0, 0.0), (5.0, -1.0), (15.0, 0.0), (15.0, 3.0), (30.0, 0.0), (30.0, -1.0)):
        speeds = drive(SpeedController(target), 60, slope=slope)
        assert speeds[-200:] == pytest.approx([target] * 200, rel=0.01), (target, slope)


def test_a_car_that_was_held_up_for_a_minute_overshoots_no_more_than_one_that_was_not():
    held = SpeedController(15.0)
    for _ in range(1200):
        held.throttle(0.0, STEP)
    assert max(drive(held, 30)) == pytest.approx(max(drive(SpeedController(15.0), 30)), abs=0.1)


def test_a_car_that_was_pushed_for_a_minute_gets_throttle_again_as_soon_as_one_that_was_not():
    pushed = SpeedController(15.0)
    for _ in range(1200):
        pushed.throttle(60.0, STEP)
    assert min(drive(pushed, 30, speed=15.0)) == pytest.approx(
        min(drive(SpeedController(15.0), 30, 15.0)), abs=1.0
    )


@given(
    target=st.sampled_from([3.0, 15.0]),
    steps=st.lists(st.tuples(st.floats(-10, 30) | st.floats(-999, 999), st.floats(-10, 1e6)), min_size=1),
)
@example(target=3.0, steps=[(5.0, 0.1)])
def test_the_throttle_stays_within_its_limits_and_never_reverses_a_slow_car(target, steps):
    controller = SpeedController(target)
    for speed, seconds in steps:
        throttle = controller.throttle(speed, seconds)
        assert -0.5 <= throttle <= 1.0
        assert throttle >= 0 or speed > BRAKE_ABOVE


def test_a_pause_counts_as_no_more_than_a_fifth_of_a_second():
    paused, steady = SpeedController(15.0), SpeedController(15.0)
    assert paused.throttle(12.0, 3600.0) == steady.throttle(12.0, 0.2)
    assert paused.throttle(12.0, -5.0) == steady.throttle(12.0, 0.0)


def test_a_target_speed_that_no_car_keeps_is_refused():
    for target in (0.0, -1.0, float("nan"), 101.0):
        with pytest.raises(ValueError, match="target_speed must lie in"):
            SpeedController(target)
