"""Answers relative to what is known: forecasts to the last value, steps to a first guess."""

import pytest
import torch

from nacre.data.dataset import Dataset, Kind
from nacre.tasks.network import TaskNetwork
from nacre.tasks.scaling import answer_scale
from support.controls import series, walk


def make(data, **options):
    torch.manual_seed(1)
    settings = {"d_model": 8, "num_heads": 2, "time_scale": 3.0, "relative_to": [0], "window": (5, 1.0), **options}
    network = TaskNetwork("sdpa", data.kind, len(data.features), data.outputs, **settings)
    network.fit_scale(data, torch.arange(len(data)))
    if network.window is not None:
        torch.nn.init.normal_(network.window.linear.weight)
    return network


def answer(network, batch):
    return network(batch.x, batch.time, batch.key_padding_mask)


def test_a_forecast_moves_with_the_level_of_its_window():
    data = series(walk())
    network = make(data)
    batch = data.batch(torch.arange(9))
    up = torch.tensor([100.0, -30.0])  # of the target, and of another feature
    moved = answer(network, batch._replace(x=batch.x + up))
    torch.testing.assert_close(moved, answer(network, batch) + 100.0, rtol=1e-4, atol=1e-3)


def test_a_network_that_says_nothing_repeats_the_last_value():
    data = series(walk())
    network = make(data, window=None)
    torch.nn.init.zeros_(network.head[-1].weight)
    torch.nn.init.zeros_(network.head[-1].bias)
    network.y_shift.zero_()
    batch = data.batch(torch.arange(9))
    torch.testing.assert_close(answer(network, batch), batch.x[:, -1, :1].expand(-1, 3))


def test_scales_are_those_of_differences():
    data = series(walk(n=300))
    train = torch.arange(50, 120)
    network = make(data)
    network.fit_scale(data, train)
    last = data.start[train] + 4
    away = data.y[train] - data.values[last, :1]
    torch.testing.assert_close(network.y_scale, away.std(correction=0).expand(3))
    torch.testing.assert_close(network.y_shift, away.mean().expand(3))
    rows = data.batch(train).x
    spread = (rows - rows[:, -1:]).flatten(0, 1).std(0, correction=0)
    torch.testing.assert_close(network.scale, spread)


def test_the_linear_map_of_the_window_is_added():
    data = series(walk())
    network, batch = make(data), data.batch(torch.arange(4))
    with_map = answer(network, batch)
    x = (batch.x - batch.x[:, -1:] - network.shift) / network.scale
    added = network.window.linear(x.flatten(1)) * network.y_scale
    torch.nn.init.zeros_(network.window.linear.weight)
    torch.testing.assert_close(with_map, answer(network, batch) + added)


@pytest.mark.parametrize("targets", [1, 2])
def test_steps_are_answered_relative_to_a_guess(targets):
    values = torch.randn(40, 3)
    data = Dataset(
        name="guessed",
        kind=Kind.STEP_REGRESSION,
        values=values,
        time=torch.arange(40).double(),
        start=torch.arange(4) * 10,
        length=torch.full((4,), 10),
        y=values[:, 1 : 1 + targets] + 5 + torch.randn(40, targets),
        group=torch.arange(4),
        groups=tuple("abcd"),
        features=("x", "guess", "other guess"),
        targets=tuple("yz"[:targets]),
        guess=tuple(range(1, 1 + targets)),
    )
    network = make(data, relative_to=list(data.guess), window=None)
    mean, spread = answer_scale(data, torch.arange(4), data.guess)
    torch.testing.assert_close(mean, (data.y - values[:, list(data.guess)]).double().mean(0))
    torch.nn.init.zeros_(network.head[-1].weight)
    torch.nn.init.zeros_(network.head[-1].bias)
    batch = data.batch(torch.arange(4))
    torch.testing.assert_close(answer(network, batch), batch.x[..., list(data.guess)] + mean.float())
    torch.testing.assert_close(network.y_scale, spread.float())
