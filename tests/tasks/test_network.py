"""`TaskNetwork`: what goes in, what is read out, and by which rows it is scaled."""

import dataclasses
import math

import pytest
import torch
from torch import nn

import nacre
from nacre.data.dataset import Kind
from nacre.tasks.network import TaskNetwork
from nacre.tasks.scaling import answer_scale
from support.controls import example, ragged, series, walk
from support.refused import refused

KINDS = list(Kind)
NUMBERS = [kind for kind in Kind if kind.has_numbers]


class Passes(nn.Module):
    """A layer that gives back its input, zeros in padding as all layers do."""

    def forward(self, x, time, key_padding_mask):
        return x.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)


def make(data, model="sdpa", **options):
    """A small network for a data set, always with the same weights."""
    torch.manual_seed(1)
    settings = {"d_model": 8, "num_heads": 2, "dense": [6], "time_scale": 3.0, **options}
    return TaskNetwork(model, data.kind, len(data.features), data.outputs, **settings)


def bare(kind):
    """A network for 3 features that gives what it reads out: the features, and the time since the first step."""
    network = TaskNetwork("sdpa", kind, 3, 4, d_model=8, num_heads=2, time_scale=2.0)
    network.layer, network.head = Passes(), nn.Identity()
    return network


def answer(network, batch):
    return network(batch.x, batch.time, batch.key_padding_mask)


def tiny():
    """Three sequences of 3 features: of 6 steps, of 4, and of one."""
    padding = torch.arange(6) >= torch.tensor([[6], [4], [1]])
    time = torch.rand(3, 6, dtype=torch.float64).add(0.1).cumsum(1) + 1e6
    return torch.randn(3, 6, 3).masked_fill(padding.unsqueeze(-1), 0.0), time, padding


def rows_of(data, index):
    """Rows of these sequences, each once."""
    return sorted({row for i in index for row in range(data.start[i], data.start[i] + data.length[i])})


# --- all kinds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_shapes(kind):
    data = example(kind)
    batch = data.batch(torch.arange(5))
    out = answer(make(data), batch)
    steps = (batch.x.shape[1],) if kind.each_step else ()
    assert out.shape == (5, *steps, data.outputs)
    assert out.dtype == torch.float32
    assert answer(make(data).double(), batch).dtype == torch.float64


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_networks_are_the_same(kind, tmp_path):
    data = example(kind)
    network = make(data, "cfc-ncp", conv=[[4, 3, 1]], dropout=0.3, options={"mode": "pure"})
    network.fit_scale(data, torch.arange(30))
    loaded = nacre.load(nacre.save(network.eval(), tmp_path)).eval()
    assert isinstance(loaded, TaskNetwork)
    assert loaded.kind is kind
    assert loaded.to_config() == network.to_config()
    batch = data.batch(torch.arange(40))
    assert torch.equal(answer(loaded, batch), answer(network, batch))


@pytest.mark.parametrize(
    ("kind", "stride"), [(kind, stride) for kind in KINDS for stride in ((1,) if kind.each_step else (1, 2))]
)
def test_a_batch_equals_its_samples(kind, stride):
    data = ragged(kind, n=12)
    network = make(data, conv=[[4, 3, stride]])
    network.fit_scale(data, torch.arange(12))
    out = answer(network, data.batch(torch.arange(12)))
    for i in range(12):
        alone = answer(network, data.batch(torch.tensor([i])))[0]
        torch.testing.assert_close(out[i, : len(alone)] if kind.each_step else out[i], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_padding_changes_no_bit(kind):
    data = ragged(kind, n=12)
    network = make(data, conv=[[4, 3, 1]])
    batch = data.batch(torch.arange(12))
    dirty = batch._replace(
        x=batch.x.masked_fill(batch.key_padding_mask.unsqueeze(-1), math.nan),
        time=batch.time.masked_fill(batch.key_padding_mask, math.nan),
    )
    assert torch.equal(answer(network, dirty), answer(network, batch))


def test_strides_are_refused_where_every_step_has_an_answer():
    with pytest.raises(ValueError, match=r"conv must have stride 1 in step-regression, .* got \[\[4, 3, 2\]\]"):
        make(ragged(Kind.STEP_REGRESSION), conv=[[4, 3, 2]])


def test_options_out_of_range_are_refused():
    for name in ("time_scale", "dropout"):
        for value in (-1.0, float("nan"), "1"):
            with pytest.raises((TypeError, ValueError), match=f"{name} must"):
                make(ragged(Kind.REGRESSION), **{name: value})


# --- read-out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.CLASSIFICATION, Kind.REGRESSION])
def test_sequences_are_read_out_by_the_mean_over_valid_steps(kind):
    x, time, padding = tiny()
    out = bare(kind)(x, time, padding)
    for row, length in enumerate((6, 4, 1)):
        since = (time[row, :length] - time[row, 0]).float() / 2.0
        torch.testing.assert_close(out[row], torch.cat([x[row, :length], since.unsqueeze(1)], 1).sum(0) / length)


def test_forecasts_are_read_out_from_the_last_valid_step():
    x, time, padding = tiny()
    out = bare(Kind.FORECASTING)(x, time, padding)
    for row, last in enumerate((5, 3, 0)):
        since = (time[row, last] - time[row, 0]).float() / 2.0
        torch.testing.assert_close(out[row], torch.cat([x[row, last], since.view(1)]))


@pytest.mark.parametrize("kind", [Kind.STEP_CLASSIFICATION, Kind.STEP_REGRESSION])
def test_steps_are_read_out_each_from_its_own_state(kind):
    x, time, padding = tiny()
    since = ((time - time[:, :1]) / 2.0).float().unsqueeze(-1)
    torch.testing.assert_close(bare(kind)(x, time, padding)[~padding], torch.cat([x, since], -1)[~padding])


@pytest.mark.parametrize("kind", [Kind.CLASSIFICATION, Kind.FORECASTING])
def test_tokens_of_a_stride_are_read_out_without_padding(kind):
    x, time, padding = tiny()
    network = TaskNetwork("sdpa", kind, 3, 5, d_model=8, num_heads=2, conv=[[5, 3, 2]])
    network.layer, network.head = Passes(), nn.Identity()
    tokens, _, _ = network.front(torch.cat([x, (time - time[:, :1]).float().unsqueeze(-1)], -1), time, padding)
    out = network(x, time, padding)
    for row, valid in enumerate((4, 3, 1)):  # of 4 tokens, which cover steps 0-1, 1-3, 3-5 and 5
        expected = tokens[row, valid - 1] if kind is Kind.FORECASTING else tokens[row, :valid].mean(0)
        torch.testing.assert_close(out[row], expected)


# --- scale --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_scaled_training_features_have_mean_0_and_spread_1(kind):
    data = example(kind)
    data = dataclasses.replace(data, values=data.values * 50 + 300)
    network = make(data)
    network.fit_scale(data, torch.arange(10, 40))
    scaled = ((data.values[rows_of(data, range(10, 40))] - network.shift) / network.scale).double()
    torch.testing.assert_close(scaled.mean(0), torch.zeros_like(scaled[0]), rtol=0, atol=1e-4)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones_like(scaled[0]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", NUMBERS)
def test_scaled_training_answers_have_mean_0_and_spread_1(kind):
    data = example(kind)
    data = dataclasses.replace(data, y=data.y * torch.tensor([50.0, 50.0, 50.0])[: data.outputs] + 300)
    network = make(data)
    network.fit_scale(data, torch.arange(10, 40))
    answers = data.y[rows_of(data, range(10, 40)) if kind.each_step else slice(10, 40)]
    scaled = ((answers[~answers.isnan().any(1)] - network.y_shift) / network.y_scale).double()
    if kind is Kind.FORECASTING:  # all horizons share one scale
        scaled = scaled.view(-1, 1)
    torch.testing.assert_close(scaled.mean(0), torch.zeros_like(scaled[0]), rtol=0, atol=1e-4)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones_like(scaled[0]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_leak_nothing_but_training_rows_and_answers_acts_on_the_scale(kind):
    data, train = example(kind), torch.arange(30)
    used = torch.zeros(len(data.values), dtype=torch.bool)
    used[rows_of(data, range(30))] = True
    y = data.y.clone()
    y[~used if kind.each_step else slice(30, None)] = 0 if kind.has_classes else 1e6
    changed = dataclasses.replace(data, values=data.values.where(used.unsqueeze(1), 1e6), y=y)
    before, after = make(data), make(data)
    before.fit_scale(data, train)
    after.fit_scale(changed, train)
    for name in ("shift", "scale", "y_shift", "y_scale"):
        assert torch.equal(getattr(before, name), getattr(after, name)), name
        asked = not kind.has_numbers and name.startswith("y")
        assert torch.equal(getattr(before, name), getattr(make(data), name)) == asked, name  # it was fitted


def test_a_constant_feature_becomes_zeros():
    data = ragged(Kind.CLASSIFICATION)
    data.values[:, 1] = 7.0
    network = bare(Kind.CLASSIFICATION)
    network.fit_scale(data, torch.arange(60))
    assert (answer(network, data.batch(torch.arange(60)))[:, 1] == 0).all()


def test_the_horizons_of_a_forecast_share_one_scale():
    data = series(walk(80))
    mean, spread = answer_scale(data, torch.arange(50))
    torch.testing.assert_close(mean, data.y[:50].double().mean().expand(3))
    torch.testing.assert_close(spread, data.y[:50].double().std(correction=0).expand(3))


@pytest.mark.parametrize("kind", NUMBERS)
def test_other_units_of_the_answers_are_other_units_of_the_predictions_and_the_same_loss(kind):
    data, train = example(kind), torch.arange(30)
    batch = data.batch(train)
    other = dataclasses.replace(data, y=data.y * 40 + 300)
    network, rescaled = make(data), make(data)
    network.fit_scale(data, train)
    rescaled.fit_scale(other, train)
    out, rescaled_out = answer(network, batch), answer(rescaled, batch)
    torch.testing.assert_close(rescaled_out, out * 40 + 300, rtol=1e-4, atol=1e-3)
    losses = network.loss(out, batch.y), rescaled.loss(rescaled_out, other.batch(train).y)
    torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_other_units_of_the_features_change_no_prediction(kind):
    data, train = example(kind), torch.arange(30)
    other = dataclasses.replace(data, values=data.values * 40 + 300)
    network, rescaled = make(data), make(data)
    network.fit_scale(data, train)
    rescaled.fit_scale(other, train)
    outs = answer(network, data.batch(train)), answer(rescaled, other.batch(train))
    valid = ~data.batch(train).key_padding_mask if kind.each_step else slice(None)
    torch.testing.assert_close(outs[0][valid], outs[1][valid], rtol=0, atol=1e-3)


def test_padding_may_be_left_out_and_stamps_be_shared():
    x, time, padding = tiny()
    network = TaskNetwork("nac", Kind.CLASSIFICATION, 3, 4, d_model=8, num_heads=2).eval()
    nothing = torch.zeros_like(padding)
    assert torch.equal(network(x, time), network(x, time, nothing))
    assert torch.equal(network(x, time[0], padding), network(x, time[:1].expand(3, -1), padding))


def test_bad_input_is_explained():
    x, time, padding = tiny()
    network = TaskNetwork("nac", Kind.CLASSIFICATION, 3, 4, d_model=8, num_heads=2)
    for args, named, error, message in (
        ((x[0], time), {}, ValueError, r"x.unsqueeze\(0\) for a single sequence"),
        ((x[..., :2], time), {}, ValueError, "x must have 3 numbers in its last dimension"),
        ((x, time.unsqueeze(-1)), {}, ValueError, r"use time.squeeze\(-1\)"),
        ((x, time.tolist()), {}, TypeError, r"use torch.as_tensor\(time\)"),
        ((x, time, padding.float()), {}, TypeError, "key_padding_mask must be a bool tensor"),
        (
            (x, time),
            {"mask": padding},
            TypeError,
            "TaskNetwork has no argument 'mask'; padding is key_padding_mask",
        ),
    ):
        with refused(message, error):
            network(*args, **named)


@pytest.mark.parametrize("model", ["mtan", "phased-lstm", "nac"])
def test_a_shift_of_all_stamps_changes_nothing(model):
    data = ragged(Kind.CLASSIFICATION)
    network = TaskNetwork(model, data.kind, 3, 3, d_model=8, num_heads=2).eval()
    batch = data.batch(torch.arange(6))
    outputs = [network(batch.x, batch.time + shift, batch.key_padding_mask) for shift in (0.0, 1e6)]
    torch.testing.assert_close(*outputs)


@pytest.mark.parametrize("model", ["sdpa", "nac-plus", "cfc-fc"])
def test_questions_change_no_other_answer(model):
    data = ragged(Kind.STEP_REGRESSION)
    network = make(data, model).eval()
    x, time, padding = tiny()
    asks = torch.tensor([[1, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]]).bool() & ~padding
    y = network(x, time, padding, query_only=asks)
    for row in range(3):
        kept = ~(padding | asks)[row]
        alone = network(x[row : row + 1, kept], time[row : row + 1, kept])
        torch.testing.assert_close(y[row, kept], alone[0], rtol=1e-4, atol=1e-5)
    other = network(x + 10 * asks.unsqueeze(-1), time, padding, query_only=asks)
    assert torch.equal(other[~asks], y[~asks])
    assert not torch.equal(other[asks], y[asks])


def test_questions_are_refused_where_they_make_no_sense():
    x, time, _ = tiny()
    asks = torch.zeros(3, 6, dtype=torch.bool)
    with refused("query_only is for kinds with an answer for each step, not for regression", ValueError):
        make(ragged(Kind.REGRESSION))(x, time, query_only=asks)
    with refused("query_only needs a network without conv", ValueError):
        make(ragged(Kind.STEP_REGRESSION), conv=[[4, 3, 1]])(x, time, query_only=asks)


def test_nac_plus_of_before_it_could_inhibit_opens_as_what_it_was():
    sizes = {"kind": "regression", "d_input": 2, "outputs": 1, "d_model": 8, "num_heads": 2}
    then = TaskNetwork("nac-plus", options={"inhibition": False, "backbone_units": 22}, **sizes)
    saved = TaskNetwork("nac-plus", **sizes).to_config() | {"version": 3}
    again = TaskNetwork.from_config(saved)
    again.load_state_dict(then.state_dict())
    x, time = torch.randn(2, 9, 2), torch.rand(2, 9).cumsum(1)
    assert torch.equal(again.eval()(x, time), then.eval()(x, time))
    more = TaskNetwork.from_config(again.to_config())  # saved again, by today's version
    more.load_state_dict(then.state_dict())
