"""Where a car is on a road, against a slow search, and an expert that keeps to it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.drive.carracing.expert import BRAKE, COAST, GAS, LEFT, RIGHT, choose
from nacre.drive.carracing.road import Road
from nacre.drive.carracing.world import Pose

coordinate = st.floats(-150, 150)


def circle(radius=100.0, points=200):
    angle = np.linspace(0, 2 * math.pi, points, endpoint=False)
    return Road(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1))


def wavy():
    angle = np.linspace(0, 2 * math.pi, 120, endpoint=False)
    radius = 90 + 15 * np.sin(3 * angle)
    return Road(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1))


WAVY = wavy()
FINE = np.stack([WAVY.ahead(0.0, metres) for metres in np.linspace(0, WAVY.length, 4000)])


@given(coordinate, coordinate)
def test_drive_the_nearest_point_is_the_nearest_of_many(x, y):
    place = WAVY.locate((x, y))
    distance = np.hypot(*(FINE - (x, y)).T).min()
    assert abs(place.error) == pytest.approx(distance, abs=0.05)
    assert math.dist(WAVY.ahead(place.along, 0.0), (x, y)) == pytest.approx(abs(place.error), abs=1e-6)


def test_drive_left_of_the_road_is_positive():
    road = circle()  # counter-clockwise, so that its inside is on the left
    assert road.locate((95, 0)).error == pytest.approx(5, abs=0.02)
    assert road.locate((105, 0)).error == pytest.approx(-5, abs=0.02)


def test_drive_ahead_goes_on_over_the_start_line():
    road = circle()
    near = road.ahead(road.length - 3, 8)
    assert math.dist(near, road.ahead(0.0, 5.0)) < 1e-9
    assert road.length == pytest.approx(2 * math.pi * 100, rel=1e-3)


@given(st.floats(0, 600), st.floats(10, 60), st.floats(20, 150))
def test_drive_the_bend_of_a_circle_is_one_by_its_radius(along, metres, radius):
    stretch = circle(radius).bend(along, metres, over=12.0)
    assert stretch[:, 1] == pytest.approx(1 / radius, rel=0.02)
    assert (np.diff(stretch[:, 0]) > 0).all()
    assert stretch[0, 0] == 0
    assert stretch[-1, 0] >= metres - circle(radius).length / 200


def test_drive_bad_roads_are_refused():
    for points in ([[0, 0], [1, 1]], [0, 1, 2], [[0, 0], [1, 0], [1, 0], [0, 1]]):
        with pytest.raises(ValueError, match="points must"):
            Road(points)


def pose(x=100.0, y=0.0, heading=math.pi / 2, speed=30.0, wheel=0.0):
    return Pose(x, y, heading, speed, wheel)


def test_drive_the_expert_steers_back_to_the_road():
    road = circle(1000.0, 1800)
    assert choose(road, pose(x=1005.0)) == LEFT  # outside, right of the centre line
    assert choose(road, pose(x=995.0)) == RIGHT
    assert choose(road, pose(x=1000.0, heading=math.pi / 2 - 0.5)) == LEFT
    assert choose(road, pose(x=1000.0, heading=math.pi / 2 + 0.5)) == RIGHT


def test_drive_the_expert_looks_after_its_speed_when_it_need_not_steer():
    road = circle(1000.0, 1800)
    straight = {"x": 1000.0, "wheel": 0.01}
    assert choose(road, pose(speed=20.0, **straight)) == GAS
    assert choose(road, pose(speed=47.0, **straight)) == COAST
    assert choose(road, pose(speed=60.0, **straight)) == BRAKE


def test_drive_the_expert_is_slower_in_sharper_bends():
    def goes_faster(radius, speed):
        road = circle(radius)
        asked = [choose(road, pose(x=radius, speed=speed, wheel=wheel)) for wheel in np.linspace(-0.4, 0.4, 81)]
        return GAS in asked

    assert goes_faster(100.0, 40.0)
    assert not goes_faster(20.0, 40.0)
    assert goes_faster(20.0, 30.0)
