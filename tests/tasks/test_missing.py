"""Values that are missing in a network: filled and flagged as the slow reference says, and no bit of them read."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.data import from_arrays
from nacre.data.dataset import UNSCORED, Kind
from nacre.data.missing import Missing, fill, last_seen
from nacre.tasks.network import TaskNetwork
from nacre.tasks.observed import told_first
from nacre.tasks.scaling import UNKNOWN
from reference import missing as slow
from support.controls import example
from support.hypothesis import examples

NAMES = nacre.list_models()
FEW = ["cfc-ncp", "mtan", "nac-plus", "nac-pw", "ot-transformer", "performer", "phased-lstm", "s4", "sdpa"]
MODELS = [
    pytest.param(FEW, id="few"),
    pytest.param([n for n in NAMES if n not in FEW], id="rest", marks=pytest.mark.slow),
]
BOTH = [Missing.FLAGS, Missing.LAST]


def holes(data, share=0.6, missing=Missing.FLAGS, seed=3):
    """A data set of which a share of the values is missing."""
    random = torch.Generator().manual_seed(seed)
    gone = torch.rand(data.values.shape, generator=random) < share
    return dataclasses.replace(data, values=data.values.masked_fill(gone, math.nan), missing=missing)


def as_events(missing_rows, time, padding):
    """[B, T * F, 2] events of rows, their stamps and padding."""
    columns = torch.arange(missing_rows.shape[2], dtype=missing_rows.dtype).expand(missing_rows.shape)
    x = torch.stack([columns, missing_rows], -1).flatten(1, 2)
    gone = (missing_rows.isnan() | padding.unsqueeze(-1)).flatten(1)
    return told_first(x, time.repeat_interleave(missing_rows.shape[2], 1), gone)


def make(name="sdpa", kind=Kind.CLASSIFICATION, missing="flags", **options):
    torch.manual_seed(1)
    sizes = {"d_model": 8, "num_heads": 2, "time_scale": 2.0}
    return TaskNetwork(name, kind, 3, 2, **{**sizes, **options}, missing=missing).eval()


def batch(steps=6):
    """Three sequences with holes: whole, of 4 steps, and one in which nothing was observed."""
    torch.manual_seed(2)
    padding = torch.arange(steps) >= torch.tensor([[steps], [4], [steps]])
    time = torch.rand(3, steps, dtype=torch.float64).add(0.1).cumsum(1)
    x = torch.randn(3, steps, 3)
    gone = torch.rand(x.shape) < 0.5
    gone[2] = True
    return x.masked_fill(gone, math.nan), time, padding


# --- what was last seen -------------------------------------------------------------------------------------


@examples(40)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_gaps_are_filled_as_the_reference_says(steps, features, seed):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(2, steps, features, generator=random, dtype=torch.float64)
    seen = torch.rand(x.shape, generator=random) < 0.5
    tells = torch.rand(2, steps, generator=random) < 0.8
    time = torch.randint(0, 3, (2, steps), generator=random).cumsum(1).double()  # some stamps are equal
    typical = torch.randn(features, generator=random, dtype=torch.float64)
    found = fill(x.masked_fill(~seen, math.nan), time, seen, tells, typical, 1.5)
    for row in range(2):
        lists = [part.tolist() for part in (x[row], time[row], seen[row], tells[row], typical)]
        values, known, recency = slow.fill(*lists, 1.5)
        torch.testing.assert_close(found.x[row], torch.tensor(values, dtype=torch.float64), rtol=0, atol=1e-12)
        torch.testing.assert_close(found.recency[row], torch.tensor(recency, dtype=torch.float64))
        assert found.known[row].tolist() == known


def test_what_was_last_seen_of_a_table_does_not_come_from_before_the_sequence():
    table = torch.tensor([[1.0, math.nan], [math.nan, 2.0], [3.0, math.nan], [math.nan, math.nan]])
    first, last = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 1, 3, 3])
    wanted = [[1.0, 2.0], [math.nan, 2.0], [3.0, math.nan], [math.nan, math.nan]]
    torch.testing.assert_close(last_seen(table, first, last), torch.tensor(wanted), equal_nan=True)


def test_leak_no_later_value_changes_what_was_last_seen():
    x, time, padding = batch()
    for missing in BOTH:
        network = make(missing=missing)
        before = network.tokens(x, time, padding).x
        for step in range(1, 6):
            later = x.clone()
            later[:, step:] = 7.0
            moved = time.clone()
            moved[:, step:] += 5.0
            assert torch.equal(network.tokens(later, moved, padding).x[:, :step], before[:, :step]), step


# --- every model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", MODELS)
def test_every_model_takes_missing_values_and_learns(names):
    x, time, padding = batch()
    for name in names:
        for missing in (Missing.FLAGS, Missing.LAST, Missing.EVENTS):
            network = make(name, missing=missing)
            inputs = as_events(x, time, padding) if missing is Missing.EVENTS else (x, time, padding)
            out = network(*inputs)
            assert out.isfinite().all(), (name, missing)
            network.loss(out, torch.tensor([0, 1, 1])).backward()
            gradients = {n: p.grad for n, p in network.named_parameters()}
            assert all(g is not None and g.isfinite().all() for g in gradients.values()), (name, missing)
            assert any((g != 0).any() for n, g in gradients.items() if n.startswith("layer")), (name, missing)


@pytest.mark.parametrize("missing", BOTH)
def test_what_stands_in_a_missing_cell_changes_no_bit(missing):
    x, time, padding = batch()
    gone = x.isnan() | padding.unsqueeze(-1)
    rows = make(missing=missing).observed
    usable, tells = torch.ones(3).bool(), ~padding
    clean = rows.fill(x, time, padding, tells, usable)
    found = fill(x.masked_fill(gone, 1e30), time, ~gone, tells, rows.typical, 2.0)
    assert all(torch.equal(a, b) for a, b in zip(clean, found, strict=True))
    scaled = torch.where(clean.seen, clean.x, 5.0)  # whatever a scale makes of what was filled in
    if missing is Missing.FLAGS:
        assert torch.equal(rows(scaled, clean), rows(clean.x, clean))


def test_no_gradient_of_a_missing_value_is_nan():
    x, time, padding = batch()
    x = x.requires_grad_()
    network = make()
    network(x, time, padding).sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[x.isnan()] == 0).all()


def test_a_batch_equals_its_samples():
    x, time, padding = batch()
    for missing in Missing:
        if missing is Missing.ERROR:
            continue
        network = make("nac", missing=missing)
        inputs = as_events(x, time, padding) if missing is Missing.EVENTS else (x, time, padding)
        out = network(*inputs)
        for i in range(3):
            alone = network(*(part[i : i + 1] for part in inputs))
            torch.testing.assert_close(out[i], alone[0], rtol=0, atol=1e-6)


# --- scales and options -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind))
def test_scales_are_those_of_observed_training_values(kind):
    data, train = holes(example(kind)), torch.arange(30)
    network = make(kind=kind, missing=Missing.FLAGS)
    network = TaskNetwork("sdpa", kind, len(data.features), data.outputs, d_model=8, num_heads=2, missing="flags")
    network.fit_scale(data, train)
    column = data.values[data.rows(train), 0]
    seen = column[~column.isnan()].double()
    assert network.shift[0].item() == pytest.approx(seen.mean().item(), abs=1e-5)
    assert network.scale[0].item() == pytest.approx(seen.std(correction=0).item(), abs=1e-5)
    assert network.observed.typical[0].item() == pytest.approx(seen.mean().item(), abs=1e-5)
    out = network(*data.batch(torch.arange(40))[:3])
    assert out.isfinite().all()


def test_a_feature_that_training_never_observed_counts_as_missing():
    data = holes(example(Kind.CLASSIFICATION))
    values = data.values.clone()
    values[data.rows(torch.arange(30)), 1] = math.nan
    data = dataclasses.replace(data, values=values)
    network = TaskNetwork("sdpa", data.kind, 3, 3, d_model=8, num_heads=2, missing="flags").eval()
    network.fit_scale(data, torch.arange(30))
    assert network.scale[1] == torch.tensor(UNKNOWN)
    test = data.batch(torch.arange(30, 60))
    assert not test.x[..., 1].isnan().all()
    without = test.x.clone()
    without[..., 1] = math.nan
    assert torch.equal(network(*test[:3]), network(without, *test[1:3]))


@pytest.mark.parametrize("missing", ["flags", "last", "events"])
def test_saved_networks_take_raw_values_as_before(missing, tmp_path):
    x, time, padding = batch()
    inputs = as_events(x, time, padding) if missing == "events" else (x, time, padding)
    network = make(missing=missing)
    network.shift.fill_(0.5)
    loaded = nacre.load(nacre.save(network, tmp_path)).eval()
    assert torch.equal(loaded(*inputs), network(*inputs))


def test_forecasts_are_relative_to_the_last_observed_value():
    data = holes(example(Kind.FORECASTING), share=0.5, missing=Missing.LAST)
    network = TaskNetwork(
        "sdpa", data.kind, 2, 3, d_model=8, num_heads=2, relative_to=[0], window=(5, 1.0), missing="last"
    ).eval()
    network.fit_scale(data, torch.arange(100))
    index = torch.arange(60)
    base = network.tokens(*data.batch(index)[:3]).base[:, 0]
    last = data.last_values(index, [0])[:, 0]
    window_is_zero = base  # the linear map of the window begins as zeros
    torch.testing.assert_close(window_is_zero, last.where(~last.isnan(), network.observed.typical[0]))


def test_steps_that_only_ask_are_not_remembered():
    x, time, padding = batch()
    asks = torch.zeros_like(padding)
    asks[:, 2] = True
    network = make(kind=Kind.STEP_REGRESSION, missing=Missing.LAST)
    before = network(x, time, padding, query_only=asks)[:, 3:]
    changed = x.clone()
    changed[:, 2] = 9.0
    assert torch.equal(network(changed, time, padding, query_only=asks)[:, 3:], before)


def test_answers_that_are_unknown_stay_unscored():
    assert UNSCORED == -100
    data = holes(example(Kind.FORECASTING))
    y = data.y.clone()
    y[:20, 0], y[20:30] = math.nan, math.nan
    answers = dataclasses.replace(data, y=y).answers(torch.arange(40))
    assert answers.isnan().sum() == 20
    assert len(answers) == 30


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="missing must be one of 'error', 'flags', 'last', 'events', got 'drop'"):
        make(missing="drop")
    with pytest.raises(ValueError, match="missing is for features, not for images"):
        make(missing="flags", image={"size": [8, 8], "conv": [[4, 3, 1]]})


@pytest.mark.parametrize("missing", ["flags", "events"])
def test_leak_test_groups_change_no_scale_and_their_order_no_answer(missing):
    random = torch.Generator().manual_seed(5)
    x = torch.randn(20, 4, 3, generator=random)
    x[torch.rand(x.shape, generator=random) < 0.5] = math.nan
    y, train, test = [0, 1] * 10, torch.arange(12), torch.arange(12, 20)
    poisoned = x.clone()
    poisoned[12:] = 1e6
    order = torch.cat([train, test.flip(0)])
    networks, answers = [], []
    for rows in (x, poisoned, x[order]):
        data = from_arrays(rows, y, missing=missing)
        network = make(missing=missing)
        network.fit_scale(data, train)
        networks.append(network)
        with torch.no_grad():
            answers.append(torch.cat([network(*data.batch(torch.tensor([i]))[:3]) for i in test]))
    for network in networks[1:]:
        assert all(torch.equal(a, b) for a, b in zip(network.buffers(), networks[0].buffers(), strict=True))
    assert torch.equal(answers[2].flip(0), answers[0])
    assert not torch.equal(answers[1], answers[0])
