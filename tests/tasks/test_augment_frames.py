"""Training windows of CarRacing: mirrored as the environment would, recoloured as it draws colours."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nacre.data.batches import Augmented
from nacre.data.dataset import Kind
from nacre.data.sets.carracing import load_carracing
from nacre.data.sets.episodes import ACTIONS
from nacre.drive.carracing.expert import choose
from nacre.drive.carracing.road import Road
from nacre.drive.carracing.world import Pose, World
from nacre.tasks.augment import augmentation_of, frames
from nacre.tasks.augment.frames import BRIGHTEST, DASHBOARD, augment_frames, mirrored, other_side, recoloured
from support.drive import write_episodes

COAST, RIGHT, LEFT, GAS, BRAKE = range(5)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drives")
    write_episodes(folder, steps=40)
    return load_carracing(folder, frames=3)


def pixels(*shape):
    return torch.randint(
        0, 256, (*shape, 96, 96, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


# --- mirrors ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_mirrored_instruments_are_those_of_a_car_that_turns_to_the_other_side():
    turns = []
    for side in (LEFT, RIGHT):
        with World(seed=3) as world:
            frames = [torch.from_numpy(world.step(action).copy()) for action in [GAS] * 30 + [side] * 8]
        turns.append(frames[30:])
    for turning in (2, 8):
        left, right = (frames[turning - 1] for frames in turns)
        apart = (mirrored(left)[DASHBOARD:].short() - right[DASHBOARD:].short()).abs()
        assert apart.amax() <= 64, turning  # the edge of a bar lies inside a pixel
        assert apart.float().mean() < 1, turning
        assert (left[DASHBOARD:].short() - right[DASHBOARD:].short()).abs().amax() > 128, turning  # they differ


def test_the_view_is_mirrored_whole():
    x = pixels(2, 3)
    out = mirrored(x)
    assert torch.equal(out[..., :DASHBOARD, :, :], x[..., :DASHBOARD, :, :].flip(-2))
    assert torch.equal(mirrored(out), x)
    assert torch.equal(out[..., DASHBOARD:, :36, :], x[..., DASHBOARD:, :36, :])  # speed stands at the left


def test_the_expert_does_the_mirrored_thing_on_a_mirrored_road():
    random = np.random.default_rng(0)
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) * (100 + 20 * np.sin(3 * angle))[:, None]
    mirror = np.array([-1.0, 1.0])
    done = set()
    for _ in range(1000):
        at = int(random.integers(60))
        x, y = points[at] + random.normal(0, 2, 2)
        heading = angle[at] + np.pi / 2 + random.normal(0, 0.3)
        speed, wheel = random.uniform(5, 70), random.normal(0, 0.1)
        here = choose(Road(points), Pose(x, y, heading, speed, wheel))
        there = choose(Road(points * mirror), Pose(-x, y, np.pi - heading, speed, -wheel))
        assert other_side(torch.tensor(here)) == there
        done.add(here)
    assert done == set(range(5))


def test_left_and_right_change_places_and_nothing_else_does():
    assert other_side(torch.arange(5)).tolist() == [COAST, LEFT, RIGHT, GAS, BRAKE]


# --- colours ------------------------------------------------------------------------------------------------


def test_colours_change_places_and_are_inverted():
    x = pixels(1, 2)
    out = recoloured(x, torch.tensor([[2, 0, 1]]), torch.tensor([[False, True, False]]))
    red, green, blue = x[..., :DASHBOARD, :, :].unbind(-1)
    view = out[..., :DASHBOARD, :, :]
    assert torch.equal(view[..., 0], blue)
    assert torch.equal(view[..., 1].short(), (BRIGHTEST - red.short()).clamp(min=0))
    assert torch.equal(view[..., 2], green)
    assert torch.equal(out[..., DASHBOARD:, :, :], x[..., DASHBOARD:, :, :])


def test_without_exchange_and_inversion_nothing_changes():
    x = pixels(4, 2)
    assert torch.equal(recoloured(x, torch.arange(3).expand(4, 3), torch.zeros(4, 3).bool()), x)


# --- batches ------------------------------------------------------------------------------------------------


def test_labels_turn_just_where_frames_do(data, monkeypatch):
    monkeypatch.setattr(frames, "RECOLOURED", 0.0)
    index = torch.arange(len(data))
    plain, batch = data.batch(index), augment_frames(data, index, drawn())
    valid = ~plain.key_padding_mask
    same = torch.tensor([torch.equal(a[v], b[v]) for a, b, v in zip(batch.x, plain.x, valid, strict=True)])
    assert 0.35 < same.float().mean() < 0.65
    assert torch.equal(batch.y[same], plain.y[same])
    assert torch.equal(batch.y[~same], other_side(plain.y[~same]))
    for row in (~same).nonzero().flatten().tolist():  # every frame of a window, not some
        assert torch.equal(batch.x[row][valid[row]], mirrored(plain.x[row][valid[row]]))


def test_half_of_the_windows_keep_their_colours(data, monkeypatch):
    monkeypatch.setattr(frames, "MIRRORED", 0.0)
    index = torch.arange(len(data))
    plain, batch = data.batch(index), augment_frames(data, index, drawn())
    same = (batch.x == plain.x).flatten(1).all(1)
    assert 0.35 < same.float().mean() < 0.7
    assert torch.equal(batch.y, plain.y)


def test_padding_stays_dark_and_stamps_stay(data):
    index = data.start.new_tensor([0, 1, 2])  # the first moments of a drive have fewer frames
    for seed in range(8):
        plain, batch = data.batch(index), augment_frames(data, index, drawn(seed))
        assert plain.key_padding_mask.any()
        assert not batch.x[plain.key_padding_mask].any()
        for name in ("time", "key_padding_mask", "group"):
            assert torch.equal(getattr(batch, name), getattr(plain, name))


def test_the_data_itself_is_never_changed(data):
    before = data.values.clone(), data.y.clone()
    augment_frames(data, torch.arange(20), drawn())
    assert torch.equal(data.values, before[0])
    assert torch.equal(data.y, before[1])


def test_what_is_drawn_depends_on_the_seed_and_the_batch_alone(data):
    index = torch.arange(12)
    once, again, other = (Augmented(data, augment_frames, seed)[index] for seed in (1, 1, 2))
    assert torch.equal(once.x, again.x)
    assert not torch.equal(once.x, other.x)


@pytest.mark.parametrize(
    "change",
    [{"classes": ACTIONS[::-1]}, {"kind": Kind.STEP_CLASSIFICATION}, {"values": torch.zeros(123, 48, 48, 3)}],
)
def test_other_data_is_refused_before_training(data, change):
    assert augmentation_of("frames", data) is augment_frames
    with pytest.raises(ValueError, match=r"'frames' is for frames of CarRacing.*; carracing is something else"):
        augmentation_of("frames", replace(data, **change))
