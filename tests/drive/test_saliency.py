"""Grad-CAM of driving networks: the right numbers, at the right place of the right frame."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from nacre.data.dataset import Kind
from nacre.data.sets.episodes import ACTIONS, Drive, Episode
from nacre.drive.carracing.policy import NetworkDriver
from nacre.drive.carracing.saliency import decide, heat, heat_now, overlay, spread_moments, strip
from nacre.tasks.network import TaskNetwork
from support.drive import CAUSAL, IMAGE
from support.drive import network as make_network

SMALL = {**IMAGE, "dropout": 0.5}
FIRST, STEP = 21, 16  # the pixel at which the first cell of SMALL looks, and pixels from cell to cell


def network(model="nac", image=SMALL, **options):
    return make_network(model, image=image, seed=3, **options)


def frames_of(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 96, 96, 3), np.uint8)


def slow_heat(net, frames, action):
    """Grad-CAM step by step, then each pixel as a weighted mean of the four cells around it."""
    x = (torch.from_numpy(frames).float() - 127.5) / 127.5
    features = net.eye.layers[:-1](x.permute(0, 3, 1, 2)).detach().requires_grad_()  # [T, filters, h, w]
    time = torch.arange(len(frames), dtype=torch.float64).unsqueeze(0) / 50
    padding = torch.zeros(time.shape, dtype=torch.bool)
    tokens = features.reshape(1, len(frames), -1)
    tokens = (tokens - tokens.mean(-1, keepdim=True)) / (tokens.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    tokens, time, padding = net.front(tokens, time, padding)
    logits = net.answer(net.layer(tokens, time=time, key_padding_mask=padding)[0, -1])
    (gradient,) = torch.autograd.grad(logits[action], features)
    steps, filters, height, width = features.shape
    maps = np.zeros((steps, 96, 96))
    for step in range(steps):
        cells = sum(gradient[step, k].mean() * features[step, k] for k in range(filters)).clamp(min=0).detach()
        for row in range(height):
            for column in range(width):
                maps[step] += np.outer(hat(row, height), hat(column, width)) * float(cells[row, column])
    return maps / maps.max() if maps.max() > 0 else maps


def hat(cell, cells):
    """[96] weight of a cell at each pixel: 1 where it looks, 0 where its neighbours look."""
    places = FIRST + STEP * np.arange(cells)
    pixel = np.arange(96).clip(places[0], places[-1])
    return (1 - np.abs(pixel - places[cell]) / STEP).clip(0)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("nac", CAUSAL),
        pytest.param("nac", {}, marks=pytest.mark.deep),
        ("sdpa", {}),
        ("cfc-ncp", {}),
        pytest.param("contiformer", {}, marks=pytest.mark.deep),
    ],
)
def test_drive_heat_equals_slow_grad_cam_for_every_action(model, options):
    net, frames = network(model, **options), frames_of(4)
    hot = 0
    for action in range(len(ACTIONS)):
        got, wanted = heat(net, frames, action), slow_heat(net, frames, action)
        assert got.shape == (4, 96, 96)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, wanted, atol=2e-4)
        hot += bool(wanted.max() == 1 and all(wanted.max((1, 2)) > 0))
    assert hot, "some action must have heat in every frame, or nothing was compared"


class Mean(nn.Module):
    """A layer whose state is the mean of all tokens."""

    def forward(self, x, time, key_padding_mask):
        return x.mean(1, keepdim=True).expand_as(x)


class Through(nn.Module):
    """A layer whose states are its tokens."""

    def forward(self, x, time, key_padding_mask):
        return x


def by_hand(layer, cell):
    """A network that looks for red: the logit of "left" is the redness of one cell of 9 x 9, or of all."""
    image = {"size": [96, 96], "conv": [[2, 3, 2], [2, 5, 2], [2, 5, 2]]}
    net = network("sdpa", image)
    with torch.no_grad():
        for part in net.eye.layers:
            if isinstance(part, nn.Conv2d):
                part.weight.zero_()
                part.bias.zero_()
                part.weight[0, 0] = part.weight[1, -1] = 1 / part.kernel_size[0] ** 2  # red stays red, blue blue
        head = nn.Linear(2 * 9 * 9, 5)
        head.weight.zero_()
        head.weight[ACTIONS.index("left")].view(2, 9, 9)[0][cell] = 1.0
    net.layer, net.head = layer, nn.Sequential(head)
    return net


def with_patch(place, colour=0):
    """A black frame with a patch of what one cell of the eye sees: 27 pixels around (13, 13) + 8 cells."""
    frame = np.zeros((96, 96, 3), np.uint8)
    top, left = 8 * place[0], 8 * place[1]
    frame[top : top + 27, left : left + 27, colour] = 255
    return frame


def hottest(hot):
    return tuple(int(i) for i in np.unravel_index(hot.argmax(), hot.shape))


def test_drive_heat_is_at_the_corner_on_which_the_logit_depends():
    cell = (0, 6)  # near the right upper corner, off both diagonals: no flip and no turn keeps it
    frame = np.maximum(with_patch(cell), with_patch((7, 1), colour=2))  # and something blue far from it
    hot = heat(by_hand(Through(), cell), np.stack([frame] * 3), ACTIONS.index("left"))
    assert hottest(hot[-1])[1] == 13 + 8 * 6
    assert hottest(hot[-1])[0] <= 13
    assert (hot[-1][56:] == 0).all(), "blue must be cold"
    assert (hot[:-1] == 0).all(), "only the last frame is asked"


def test_drive_heat_of_each_frame_of_a_window_is_in_that_frame():
    places = [(1, 6), (3, 2), (5, 7), (6, 3)]
    frames = np.stack([with_patch(place) for place in places])
    hot = heat(by_hand(Mean(), (slice(None), slice(None))), frames, ACTIONS.index("left"))
    assert [hottest(one) for one in hot] == [(13 + 8 * row, 13 + 8 * column) for row, column in places]


def test_drive_heat_is_zero_where_nothing_speaks_for_the_action():
    hot = heat(by_hand(Mean(), (0, 0)), np.stack([with_patch((0, 0))]), ACTIONS.index("right"))
    assert (hot == 0).all()
    assert (heat_now(by_hand(Mean(), (0, 0)), np.stack([with_patch((0, 0))]), ACTIONS.index("right")) == 0).all()


def test_drive_heat_now_is_the_last_map_of_the_window_with_full_range():
    faint = with_patch((6, 3)) // 2 + 80  # the last frame is less red than the one before
    frames = np.stack([with_patch((1, 6)), faint])
    net, left = by_hand(Mean(), (slice(None), slice(None))), ACTIONS.index("left")
    last = heat(net, frames, left)[-1]
    assert 0 < last.max() < 1
    now = heat_now(net, frames, left)
    assert now.dtype == np.float32
    np.testing.assert_allclose(now, last / last.max(), rtol=1e-6)


def test_drive_heat_leaves_the_network_as_it_was():
    net, frames = network(), frames_of(3)
    wanted = heat(net, frames, 1)
    net.train()
    net.head.eval()
    net.eye.layers[0].weight.requires_grad_(False)
    net.eye.layers[0].bias.grad = torch.ones(4)
    before = {name: part.training for name, part in net.named_modules()}
    flags = {name: p.requires_grad for name, p in net.named_parameters()}
    np.testing.assert_array_equal(heat(net, frames, 1), wanted)  # although dropout was on
    assert before == {name: part.training for name, part in net.named_modules()}
    assert flags == {name: p.requires_grad for name, p in net.named_parameters()}
    assert {name for name, p in net.named_parameters() if p.grad is not None} == {"eye.layers.0.bias"}
    assert (net.eye.layers[0].bias.grad == 1).all()
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in net.modules())


def test_drive_heat_is_the_same_without_gradients_and_for_frozen_networks():
    net, frames = network(), frames_of(3)
    wanted = heat(net, frames, 1)
    with torch.no_grad():
        np.testing.assert_array_equal(heat(net, frames, 1), wanted)
        assert not torch.is_grad_enabled()
    np.testing.assert_array_equal(heat(net.requires_grad_(False), frames, 1), wanted)


def test_drive_heat_refuses_what_is_no_window():
    net = network()
    with pytest.raises(ValueError, match=r"frames must be \[T, 96, 96, 3\] of uint8, got \[96, 96, 3\] of uint8"):
        heat(net, frames_of(1)[0], 0)
    with pytest.raises(ValueError, match="of float64"):
        heat(net, frames_of(1) / 255, 0)
    with pytest.raises(ValueError, match=r"got \[0, 96"):
        heat(net, frames_of(0), 0)
    for action in (-1, 5):
        with pytest.raises(ValueError, match=f"action must be 0 to 4, got {action}"):
            heat(net, frames_of(1), action)
    with pytest.raises(ValueError, match="one for frames"):
        heat(TaskNetwork("sdpa", Kind.CLASSIFICATION, 3, 5, d_model=8), frames_of(1), 0)


def test_drive_overlay_shows_the_frame_below_the_heat():
    frame = frames_of(1)[0]
    hot = np.zeros((96, 96), np.float32)
    hot[10:20, 30:50] = 1.0
    seen = overlay(frame, hot)
    assert seen.dtype == np.uint8
    assert (seen[hot == 0] == frame[hot == 0]).all()
    below, above = frame[hot == 1].astype(float), seen[hot == 1].astype(float)
    assert np.corrcoef(below[:, 0], above[:, 0])[0, 1] > 0.99, "what is below stays visible"
    assert np.ptp(above[:, 0]) < np.ptp(below[:, 0]) / 2, "but paler"


def test_drive_overlay_is_the_brighter_the_hotter_it_is():
    road = np.full((96, 96, 3), 40, np.uint8)
    hot = np.linspace(0, 1, 96, dtype=np.float32)[None].repeat(96, 0)
    bright = overlay(road, hot)[0] @ np.array([0.299, 0.587, 0.114])
    assert (np.diff(bright[20:]) > 0).all()
    with pytest.raises(ValueError, match="height and width of its frame"):
        overlay(road, hot[:50])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 12))
def test_drive_moments_lie_one_in_each_stretch_and_show_new_actions_first(actions, count):
    actions = np.array(actions)
    moments = spread_moments(actions, count)
    stretches = np.array_split(np.arange(len(actions)), min(count, len(actions)))
    assert len(moments) == len(stretches)
    seen = set()
    for moment, stretch in zip(moments, stretches, strict=True):
        assert moment in stretch
        new = set(actions[stretch]) - seen
        assert not new or actions[moment] in new
        same = stretch[actions[stretch] == actions[moment]]
        assert abs(moment - stretch.mean()) == np.abs(same - stretch.mean()).min()
        seen.add(actions[moment])


def episode_of(frames, labels):
    count = len(frames)
    return Episode(
        Drive(7), frames, np.array(labels), np.array(labels), np.zeros((count, 5)), np.zeros((3, 2)), {}
    )


def test_drive_probabilities_of_a_window_are_those_of_the_driver():
    driver, frames = NetworkDriver(network(**CAUSAL), 4, "nac"), frames_of(9)
    for moment, frame in enumerate(frames):
        wanted = driver.logits(frame).softmax(0)
        got = decide(driver.network, frames[max(0, moment - 3) : moment + 1])
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_drive_strip_shows_moments_above_and_their_heat_below(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("nacre._util.plotting.png", lambda figure: drawn.append(figure) or b"png")
    net, frames = network(), frames_of(30)
    path = strip(NetworkDriver(net, 4, "nac"), episode_of(frames, [3] * 30), tmp_path / "new" / "a.png", moments=3)
    assert path.read_bytes() == b"png"
    axes = drawn[0].axes
    assert len(axes) == 6
    for column, moment in enumerate((4, 14, 24)):
        window = frames[moment - 3 : moment + 1]
        probability = decide(net, window)
        action = int(probability.argmax())
        above, below = (axes[column + row].images[0].get_array() for row in (0, 3))
        assert (above == frames[moment]).all()
        assert (below == overlay(frames[moment], heat_now(net, window, action))).all()
        title = f"{moment / 50:.1f} s\n{ACTIONS[action]} {probability[action]:.0%}"
        assert axes[column].get_title() == title


def png_size(path):
    with Image.open(path, formats=["PNG"]) as image:
        return image.size


def test_drive_strip_of_a_short_drive_is_a_png_with_fewer_moments(tmp_path):
    driver = NetworkDriver(network("sdpa"), 4, "sdpa")
    path = strip(driver, episode_of(frames_of(2), [3, 1]), tmp_path / "strip.png")
    two = png_size(path)
    strip(driver, episode_of(frames_of(4), [3, 1, 3, 3]), path)
    assert png_size(path)[0] > 1.5 * two[0]
    assert [file.name for file in tmp_path.iterdir()] == ["strip.png"]
    with pytest.raises(ValueError, match="moments must be at least 1"):
        strip(driver, episode_of(frames_of(2), [3, 1]), path, moments=0)
