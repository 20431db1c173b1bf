"""Augmentation: each effect alone, what is drawn, and the keys of recipes."""

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.batches import Augmented
from nacre.data.dataset import Kind
from nacre.tasks.augment import augmentation_of, steering
from nacre.tasks.augment.steering import Draws, augment_steering, changed, draw
from nacre.tasks.image_encoder import ImageEncoder
from nacre.tasks.recipe import load_recipe, parse_recipe, to_toml
from nacre.tasks.recipe_sections import ImageRecipe
from support.train import drive, noise

SIZE = (66, 200)


def nothing(count=1, **changes):
    """Draws that change nothing, but for some of them."""
    calm = {
        "camera": torch.zeros(count, dtype=torch.int64),
        "flip": torch.zeros(count, dtype=torch.bool),
        "shift": torch.zeros(count, 2),
        "shadow": torch.full((count, 2), 160.0),
        "side": torch.zeros(count, dtype=torch.bool),
        "light": torch.ones(count),
        "brightness": torch.ones(count),
    }
    return Draws(**(calm | {name: torch.as_tensor(value) for name, value in changes.items()}))


def column(place, size=SIZE):
    """A black image with one white column."""
    image = torch.zeros(1, *size, 3, dtype=torch.uint8)
    image[:, :, place] = 255
    return image


# --- each effect alone --------------------------------------------------------------------------------------


def test_without_any_effect_nothing_changes():
    images, y = noise(3), torch.tensor([-1.0, 0.3, 1.0])
    found, answers = changed(images, y, nothing(3))
    assert torch.equal(found, images)
    assert torch.equal(answers, y)


def test_a_flip_exchanges_left_and_right_and_negates_steering():
    images = noise(2)
    found, y = changed(images, torch.tensor([0.3, 0.3]), nothing(2, flip=[True, False]))
    assert torch.equal(found[0], images[0].flip(1))
    assert torch.equal(found[1], images[1])
    assert y.tolist() == pytest.approx([-0.3, 0.3])


@pytest.mark.parametrize(("camera", "wanted"), [(0, 0.1), (1, 0.3), (2, -0.1)])
def test_side_cameras_steer_back_to_the_middle(camera, wanted):
    assert changed(noise(), torch.tensor([0.1]), nothing(camera=[camera]))[1].item() == pytest.approx(wanted)


def test_the_camera_counts_before_the_flip_and_the_shift_after_it():
    draws = nothing(camera=[1], flip=[True], shift=[[16.0, 0.0]])
    assert changed(noise(), torch.tensor([0.1]), draws)[1].item() == pytest.approx(-0.3 + 0.032)


@pytest.mark.parametrize("dx", [-48, -16, 0, 16, 48])
def test_a_shift_moves_a_column_and_adds_steering(dx):
    pixels = dx * 200 // 320  # of 320 recorded pixels 200 are left
    found, y = changed(column(100), torch.tensor([0.0]), nothing(shift=[[float(dx), 0.0]]))
    assert torch.equal(found, column(100 + pixels))
    assert y.item() == pytest.approx(0.002 * dx)


def test_a_shift_down_moves_rows_and_leaves_steering():
    image = torch.zeros(1, *SIZE, 3, dtype=torch.uint8)
    image[:, 30] = 255
    found, y = changed(image, torch.tensor([0.1]), nothing(shift=[[0.0, 75 / 66 * 4]]))
    assert found[0, :, 5, 0].argmax() == 34
    assert found[0, 34].min() >= 254
    assert y.item() == pytest.approx(0.1)


def test_between_two_pixels_a_shift_mixes_them():
    found, _ = changed(column(100), torch.tensor([0.0]), nothing(shift=[[0.8, 0.0]]))  # half a pixel
    assert found[0, 0, 99:103, 0].tolist() == [0, 128, 128, 0]


def test_what_a_shift_brings_in_repeats_the_edge():
    images = noise()
    found, _ = changed(images, torch.tensor([0.0]), nothing(shift=[[16.0, 0.0]]))
    assert torch.equal(found[0, :, 10:], images[0, :, :-10])
    assert torch.equal(found[0, :, :10], images[0, :, :1].expand(-1, 10, -1))


@pytest.mark.parametrize("side", [False, True])
def test_a_shadow_darkens_one_side_of_its_edge_only(side):
    images = noise()
    draws = nothing(shadow=[[80.0, 240.0]], side=[side], light=[0.25])
    found, y = changed(images, torch.tensor([0.3]), draws)
    assert y.item() == pytest.approx(0.3)
    for row in (0, 33, 65):
        # The edge runs from x = 80 at the top to 240 at the bottom of the recorded image, of which we see a part.
        height = 60 + (row + 0.5) * 75 / 66
        edge = (80 + 160 * height / 160) * 200 / 320
        left, right = slice(0, int(edge - 1)), slice(int(edge + 1), None)
        dark, bright = (right, left) if side else (left, right)
        assert torch.equal(found[0, row, bright], images[0, row, bright])
        assert (found[0, row, dark] - images[0, row, dark] * 0.25).abs().max() < 0.501  # rounded


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_brightness_multiplies_all_pixels(factor):
    images = noise()
    found, y = changed(images, torch.tensor([0.3]), nothing(brightness=[factor]))
    assert torch.equal(found, (images.float() * factor).round().clamp(max=255).byte())
    assert y.item() == pytest.approx(0.3)


@given(st.floats(-1, 1), st.integers(0, 2), st.booleans(), st.floats(-50, 50))
def test_steering_stays_between_the_ends_of_the_wheel(before, camera, flip, dx):
    draws = nothing(camera=[camera], flip=[flip], shift=[[dx, 0.0]])
    y = changed(noise(size=(4, 6)), torch.tensor([before]), draws)[1].item()
    turned = before + (0, 0.2, -0.2)[camera]
    assert y == pytest.approx(min(1, max(-1, (-turned if flip else turned) + 0.002 * dx)), abs=1e-6)


# --- what is drawn ------------------------------------------------------------------------------------------


def test_draws_are_spread_over_their_ranges():
    draws = draw(20_000, 3, torch.Generator().manual_seed(0))
    ranges = {
        "shift to the side": (draws.shift[:, 0], -50, 50),
        "shift down": (draws.shift[:, 1], -5, 5),
        "edge at the top": (draws.shadow[:, 0], 0, 320),
        "edge at the bottom": (draws.shadow[:, 1], 0, 320),
        "light": (draws.light, 0.2, 0.5),
        "brightness": (draws.brightness, 0.8, 1.2),
    }
    for name, (values, low, high) in ranges.items():
        share = (values.double() - low) / (high - low)
        assert 0 <= share.min() < 0.001, name
        assert 0.999 < share.max() <= 1, name
        assert share.mean().item() == pytest.approx(0.5, abs=0.01), name
        assert share.std().item() == pytest.approx(12**-0.5, abs=0.01), name
    assert (draws.camera.bincount() / 20_000).tolist() == pytest.approx([1 / 3] * 3, abs=0.02)
    for flag in (draws.flip, draws.side):
        assert flag.double().mean().item() == pytest.approx(0.5, abs=0.02)
    numbers = torch.stack([v.double() for v, _, _ in ranges.values()] + [draws.flip.double(), draws.side.double()])
    assert (torch.corrcoef(numbers) - torch.eye(8)).abs().max() < 0.03  # each is drawn on its own


def many(cameras):
    """A batch of 8,000 samples of one drive, plain and changed."""
    data = drive(cameras)
    index = torch.randint(len(data), (8000,), generator=torch.Generator().manual_seed(1))
    return data.batch(index), Augmented(data, augment_steering, 0)[index]


def test_six_of_ten_images_are_changed():
    plain, found = many(3)
    same = (found.x == plain.x).flatten(1).all(1)
    assert 1 - same.double().mean().item() == pytest.approx(0.6, abs=0.02)
    assert torch.equal(found.y[same], plain.y[same])
    assert (found.y[~same] != plain.y[~same]).double().mean() > 0.99
    for name in ("time", "key_padding_mask", "group"):
        assert torch.equal(getattr(found, name), getattr(plain, name))


def test_on_average_what_is_changed_steers_straight_ahead():
    """Cameras and shifts cancel out, and flips take what is left."""
    plain, found = many(3)
    right = plain.y[:, 0] > 0.4
    assert found.y[right].mean().item() == pytest.approx(0.4 * plain.y[right].mean().item(), abs=0.03)


def test_changed_images_come_from_the_drawn_cameras(monkeypatch):
    data = drive()
    monkeypatch.setattr(steering, "SHARE", 1.0)
    monkeypatch.setattr(steering, "draw", lambda count, cameras, _: nothing(3, camera=[0, 1, 2]))
    index = torch.tensor([5, 7, 11])
    batch = augment_steering(data, index, torch.Generator())
    n = len(data)
    assert torch.equal(batch.x[:, 0], data.values[[5, n + 7, 2 * n + 11]])
    assert batch.y[:, 0].tolist() == pytest.approx((data.y[index, 0] + torch.tensor([0, 0.2, -0.2])).tolist())


def test_with_one_camera_no_other_is_drawn():
    plain, found = many(1)
    assert (found.y - plain.y).abs()[plain.y.abs() < 0.05].max() <= 0.1 + 2 * 0.05  # no 0.2 of a side camera


def test_the_data_itself_is_never_changed():
    data = drive()
    before = data.digest
    Augmented(data, augment_steering, 0)[torch.arange(len(data))]
    assert replace(data).digest == before


def test_what_is_drawn_depends_on_the_seed_and_the_batch_alone():
    data = drive()
    one, other = torch.arange(8), torch.arange(8, 16)
    first = Augmented(data, augment_steering, 0)
    wanted = first[one]
    torch.manual_seed(99)
    state = torch.get_rng_state()
    first[other]
    again = first[one]
    assert torch.equal(again.x, wanted.x)
    assert torch.equal(again.y, wanted.y)
    assert torch.equal(torch.get_rng_state(), state)  # nor does it take numbers from dropout
    assert not torch.equal(Augmented(data, augment_steering, 1)[one].x, wanted.x)
    turned = first[one.flip(0)]  # another batch, though of the same sequences
    assert not torch.equal(turned.x.flip(0), wanted.x)


def test_two_batches_do_not_share_what_is_drawn():
    data = drive()
    data = replace(data, y=torch.zeros_like(data.y))
    source = Augmented(data, augment_steering, 0)
    first, second = source[torch.arange(8)].y, source[torch.arange(8, 16)].y
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": Kind.STEP_REGRESSION},
        {"targets": ("steering", "throttle"), "y": torch.zeros(48, 2)},
        {"values": torch.zeros(144, 3), "features": ("a", "b", "c")},
        {"values": noise(96, (12, 20)), "time": torch.zeros(96)},
        {"length": torch.full((48,), 2)},
    ],
)
def test_other_data_is_refused_before_training(change):
    data = drive()
    assert augmentation_of("steering", data) is augment_steering
    if change.get("kind"):
        change = change | {"y": torch.zeros(144, 1)}
    with pytest.raises(
        ValueError, match="training.augment 'steering' is for single images .*; drive is something"
    ):
        augmentation_of("steering", replace(data, **change))


# --- the recipe ---------------------------------------------------------------------------------------------


def test_the_udacity_recipe_is_the_networks_of_the_paper():
    recipe = load_recipe("udacity")
    conv = ((24, 5, 2), (36, 5, 2), (48, 5, 2), (64, 3, 1), (64, 3, 1))
    assert recipe.network.image == ImageRecipe(conv, "elu", "columns", "yuv", 0.5, "last")
    assert (recipe.network.d_model, recipe.network.num_heads, recipe.network.dense) == (64, 16, (64,))
    training = recipe.training
    assert (training.batch_size, training.epochs, training.optimizer, training.lr) == (40, 10, "adamw", 1e-3)
    assert training.augment == "steering"
    assert recipe.split.by == "group"
    assert parse_recipe(to_toml(recipe), "udacity") == recipe
    others = [
        replace(recipe, training=replace(training, augment="")),
        replace(
            recipe, network=replace(recipe.network, image=replace(recipe.network.image, dropout_after="each"))
        ),
    ]
    assert len({recipe.digest, *(other.digest for other in others)}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[training]\naugment = 'stering'",
            "training.augment must be one of '', 'steering', 'frames', got 'stering'; did you",
        ),
        (
            "[network.image]\nconv = [[4, 3, 1]]\ndropout_after = 'all'",
            "network.image.dropout_after must be one of 'each', 'last', got 'all'",
        ),
    ],
)
def test_bad_keys_are_named(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_recipe(text, "mine")


@pytest.mark.parametrize(("after", "wanted"), [("each", [0.4, 0.4]), ("last", [0.0, 0.4])])
def test_dropout_follows_each_convolution_or_the_last_one(after, wanted):
    eye = ImageEncoder((12, 20), 3, [[4, 3, 1], [5, 3, 1]], dropout=0.4, dropout_after=after)
    assert [layer.p for layer in eye.layers if isinstance(layer, torch.nn.Dropout)] == wanted


@pytest.mark.parametrize(("task", "size"), [("udacity", (66, 200)), ("carracing", (96, 96))])
def test_features_of_a_new_eye_differ_from_image_to_image_about_as_much_as_pixels_do(task, size):
    torch.manual_seed(0)
    image = load_recipe(task).network.image
    images = torch.rand(20, 1, *size, 3) * 2 - 1
    eye = ImageEncoder(size, 3, image.conv, image.activation, image.tokens)
    tokens = eye(images, torch.zeros(20, 1), torch.zeros(20, 1).bool())[0]
    assert 0.2 < tokens.std(0).mean().item() < 2
    torch.testing.assert_close(tokens.mean(-1), torch.zeros(tokens.shape[:2]), rtol=0, atol=1e-5)
    torch.testing.assert_close(tokens.std(-1, correction=0), torch.ones(tokens.shape[:2]), rtol=0, atol=1e-3)
    raw = eye.layers(images[:, 0].permute(0, 3, 1, 2))
    assert 0.2 < raw.std(0).mean().item() < 2  # before they are levelled
    assert not any(layer.bias.any() for layer in eye.layers if isinstance(layer, torch.nn.Conv2d))
