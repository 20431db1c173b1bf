"""CarRacing under our own rules: seeds, colours, laps; and episodes that are driven and recorded in it."""

import itertools

import numpy as np
import pytest

from nacre.data.sets.episodes import ACTIONS, FRAME, Drive, read_episode, write_episode
from nacre.drive.carracing.episode import _Noise, errors_of, run_episode
from nacre.drive.carracing.expert import Expert
from nacre.drive.carracing.world import World

GAS = ACTIONS.index("gas")


@pytest.fixture
def unseen(monkeypatch):
    """Frames are not rendered, which takes nearly all of the time; for tests of what does not depend on them."""
    with World(0):  # imports gymnasium without a screen
        from gymnasium.envs.box2d.car_racing import CarRacing
    monkeypatch.setattr(CarRacing, "_render", lambda self, mode: np.zeros(FRAME, np.uint8))


class Steady:
    """Always takes the same action."""

    name = "steady"

    def __init__(self, action=GAS):
        self.action = action

    def begin(self):
        pass

    def act(self, world):
        return self.action


def frames(seed, randomize=False, steps=3):
    with World(seed, randomize) as world:
        return np.stack([world.frame, *(world.step(GAS).copy() for _ in range(steps))]), world.road.points


def test_drive_the_same_seed_gives_the_same_world_and_colours_leave_the_track_as_it_is():
    plain, again, coloured = frames(7), frames(7), frames(7, randomize=True)
    assert all(map(np.array_equal, plain, again))
    assert not np.array_equal(frames(8)[1], plain[1])
    assert np.array_equal(plain[1], coloured[1])
    assert (plain[0] != coloured[0]).mean() > 0.3
    assert np.array_equal(coloured[0], frames(7, randomize=True)[0])
    assert (frames(8, randomize=True)[0][0, :, :, 0] != coloured[0][0, :, :, 0]).mean() > 0.3


def test_drive_plain_colours_are_those_of_the_environment():
    import gymnasium

    env = gymnasium.make("CarRacing-v3", continuous=False)
    frame, _ = env.reset(seed=7)
    env.close()
    assert np.array_equal(frame, frames(7, steps=0)[0][0])


def test_drive_actions_do_what_their_names_say(unseen):
    wheel, speed = {}, {}
    for name in ACTIONS:
        with World(3) as world:
            for _ in range(25):
                world.step(GAS)
            before = world.pose.speed
            for _ in range(4):
                world.step(ACTIONS.index(name))
            wheel[name], speed[name] = world.pose.wheel, world.pose.speed - before
    assert wheel["left"] > 0.1
    assert wheel["right"] < -0.1
    assert abs(wheel["gas"]) < 0.05
    assert abs(wheel["coast"]) < 0.05
    assert speed["gas"] > speed["coast"] > speed["brake"]


def test_drive_the_car_starts_on_the_centre_line_and_heads_along_it():
    with World(11) as world:
        assert abs(world.place.error) < 1
        pose = world.pose
        ahead = world.road.ahead(world.place.along, 10.0) - (pose.x, pose.y)
        assert np.cos(np.arctan2(ahead[1], ahead[0]) - pose.heading) > 0.95
        assert (world.finished, world.lost) == (False, False)
        assert world.progress < 0.1
        with pytest.raises(ValueError, match="action must be 0 to 4, got 5"):
            world.step(5)


def test_drive_a_lap_needs_a_whole_round_and_the_tiles(unseen, monkeypatch):
    with World(3) as world:
        world._env.tile_visited_count = len(world._env.track)  # all touched, but no round driven
        assert not world.finished
        world._driven = world.road.length
        assert world.finished
        world._env.tile_visited_count = int(0.94 * len(world._env.track))
        assert not world.finished
        # Backwards over the start line and forwards again is no lap.
        places = iter([world.road.length - 5.0, world.road.length - 40.0, world.road.length - 2.0, 1.0])
        world._along = world._driven = 1.0
        place = World.place
        monkeypatch.setattr(World, "place", property(lambda self: place.fget(self)._replace(along=next(places))))
        driven = [world._driven for _ in range(4) if world.step(0) is not None]
    assert driven == pytest.approx([-5.0, -40.0, -2.0, 1.0])


def test_drive_an_episode_is_recorded_as_it_was_driven(tmp_path):
    seen = []
    drive = Drive(seed=5, limit=12, driver="steady")
    episode = run_episode(Steady(), drive, watch=lambda world, action: seen.append((world.pose, action)))
    assert len(episode.frames) == len(seen) == 12
    assert episode.action.tolist() == [GAS] * 12
    assert episode.outcome["steps"] == 12
    assert not episode.outcome["finished"]
    assert np.array_equal(episode.pose, np.array([pose for pose, _ in seen]))
    expected, _ = frames(5, steps=11)
    assert np.array_equal(episode.frames, expected)
    error = np.abs(errors_of(episode.road, episode.pose))
    assert episode.outcome["error"] == pytest.approx(error.mean())
    assert episode.outcome["largest_error"] == pytest.approx(error.max())
    back = read_episode(write_episode(tmp_path, episode))
    assert back.drive == drive
    assert back.outcome == episode.outcome
    for name in ("frames", "action", "label", "pose", "road"):
        assert np.array_equal(getattr(back, name), getattr(episode, name))


def test_drive_noise_changes_actions_but_not_labels(unseen):
    drive = Drive(seed=5, limit=40, noise=0.5)
    episode = run_episode(Steady(0), drive)
    assert (episode.label == 0).all()
    assert 0 < (episode.action != 0).sum() < 40
    assert np.array_equal(episode.action, run_episode(Steady(0), drive).action)


def test_drive_noise_takes_the_share_that_was_asked_for_in_bursts():
    noise = _Noise(Drive(seed=1, noise=0.2))
    random = np.array([noise.instead_of(0) != 0 for _ in range(40_000)])
    assert random.mean() == pytest.approx(0.2, abs=0.02)
    lengths = [len(list(group)) for value, group in itertools.groupby(random) if value]
    assert min(lengths) >= 2
    none = _Noise(Drive(seed=1))
    assert not any(none.instead_of(0) for _ in range(1000))


def test_drive_the_expert_finishes_a_lap_on_the_road(unseen):
    episode = run_episode(Expert(), Drive(seed=20_000))
    assert episode.outcome["finished"]
    assert episode.outcome["progress"] >= 0.95
    assert episode.outcome["off_track"] == 0
    assert episode.outcome["error"] < 2
    assert set(np.unique(episode.action)) >= {1, 2, 3}


@pytest.mark.deep
def test_drive_rendering_does_not_change_what_the_expert_does(monkeypatch):
    seen = run_episode(Expert(), Drive(seed=20_000))
    from gymnasium.envs.box2d.car_racing import CarRacing

    monkeypatch.setattr(CarRacing, "_render", lambda self, mode: np.zeros(FRAME, np.uint8))
    assert seen.outcome == run_episode(Expert(), Drive(seed=20_000)).outcome
