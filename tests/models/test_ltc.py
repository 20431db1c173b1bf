"""LTC against ncps, by the compiled kernels and by PyTorch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.models import _ltc_neurons
from nacre.models._ltc_neurons import positive, raw_of
from nacre.native.ltc import synapse_sums, unfold
from reference import ltc as reference
from support.hypothesis import examples
from support.ltc import NAMES, batch, make, same
from support.models import case

pytestmark = pytest.mark.usefixtures("either_path")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parity_ltc_fc(dtype):
    model, (x, time) = make("ltc-fc", dtype, time_scale=2.0), batch(dtype=dtype)
    same(model(x, time=time), reference.ltc(model, x, time), [x, time, *model.parameters()])


@pytest.mark.parametrize(("dtype", "d_model"), [(torch.float64, 4), (torch.float64, 21), (torch.float32, 21)])
def test_parity_ltc_ncp(dtype, d_model):
    model, (x, time) = make("ltc-ncp", dtype, d_model, sparsity=0.3, seed=5, unfolds=3), batch(dtype=dtype)
    same(model(x, time=time), reference.ltc(model, x, time), [x, time, *model.parameters()])


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_used_where_they_can_be(name, either_path, monkeypatch):
    used = []
    for function in (synapse_sums, unfold):

        def noting(*args, function=function):
            used.append(function.__name__)
            return function(*args)

        monkeypatch.setattr(_ltc_neurons, function.__name__, noting)
    make(name)(batch()[0])
    assert used == (["synapse_sums", "unfold"] if either_path == "kernels" else [])


@examples(25)
@given(
    seed=st.integers(0, 2**31),
    name=st.sampled_from(NAMES),
    spread=st.sampled_from([0.1, 3.0, 30.0]),
    scale=st.sampled_from([0.0, 1e-6, 1.0, 1e6]),
)
def test_states_stay_between_rest_and_reversals(seed, name, spread, scale):
    model = make(name)
    torch.manual_seed(seed)
    with torch.no_grad():
        for p in model.neurons.parameters():
            p.add_(torch.randn_like(p) * spread)
    elapsed = torch.rand(2, 6, 1, dtype=torch.float64) * scale
    v = model.neurons(torch.randn(2, 6, 5, dtype=torch.float64) * spread, elapsed)
    parts = (model.neurons.rest, model.neurons.sensory.reversal, model.neurons.recurrent.reversal, torch.zeros(1))
    low, high = min(p.min() for p in parts), max(p.max() for p in parts)
    slack = 1e-9 * (high - low)
    assert ((v >= low - slack) & (v <= high + slack)).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_time_changes_nothing(name):
    model, (x, time) = make(name, torch.float32), batch(dtype=torch.float32)
    stamps = time.detach().clone()
    stamps[:, 3:6] = stamps[:, 2:3]
    y = model(x, time=stamps)
    assert all(torch.equal(y[:, i], y[:, 2]) for i in (3, 4, 5))
    assert not torch.allclose(y[:, 6], y[:, 2])


@pytest.mark.parametrize("name", NAMES)
def test_no_parameter_can_break_the_solver(name):
    model, (x, time) = make(name, torch.float32), batch(dtype=torch.float32)
    for raw in (-1e4, 1e4):
        model.zero_grad()
        with torch.no_grad():
            for key, p in model.named_parameters():
                if "raw" in key:
                    p.fill_(raw)
        y = model(x, time=torch.stack([time[0] * 0, time[1], time[2] * 1e6]))
        assert y.isfinite().all(), raw
        y.sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters()), raw


def test_positive_numbers_start_where_those_of_ncps_do():
    values = torch.logspace(-3, 1, 50, dtype=torch.float64)
    torch.testing.assert_close(positive(raw_of(values)), values, rtol=1e-12, atol=0)
    neurons = nacre.create("ltc-fc", d_input=20, d_model=64, num_heads=1).neurons
    for part in (neurons.sensory, neurons.recurrent):
        for numbers, low, high in ((positive(part.raw_weight), 1e-3, 1), (part.sigma, 3, 8), (part.mu, 0.3, 0.8)):
            spans(numbers, low, high, 0.03)
        assert set(part.reversal.tolist()) == {-1.0, 1.0}
    spans(positive(neurons.raw_leak), 1e-3, 1, 0.2)
    spans(positive(neurons.raw_capacity), 0.4, 0.6, 0.2)
    spans(neurons.rest, -0.2, 0.2, 0.2)


def spans(numbers, low, high, slack):
    """Between low and high, and reaching both but for a share of the distance."""
    gap = (high - low) * slack
    assert low - 1e-6 <= numbers.min() <= low + gap
    assert high - gap <= numbers.max() <= high + 1e-6
    assert abs(numbers.mean() - (low + high) / 2) < (high - low) * 0.15


@pytest.mark.parametrize("name", NAMES)
def test_parameters_exist_for_existing_synapses_only(name):
    model = make(name, d_model=32)
    wiring = reference.wiring_of(model)
    wiring.build(5)
    assert len(model.neurons.recurrent.mu) == wiring.synapse_count
    assert len(model.neurons.sensory.mu) == wiring.sensory_synapse_count


def test_options_act():
    x, time = batch()
    shared = ({"unfolds": 2}, {"time_scale": 2.0})
    for name, changes in (("ltc-fc", shared), ("ltc-ncp", (*shared, {"sparsity": 0.8}, {"seed": 1}))):
        default = make(name)(x, time=time)
        for options in changes:
            assert not torch.allclose(make(name, **options)(x, time=time), default), (name, options)


def test_bad_options_are_explained():
    for name, options, message in (
        ("ltc-fc", {"unfolds": 0}, "unfolds must be at least 1, got 0"),
        ("ltc-ncp", {"unfolds": 0}, "unfolds must be at least 1, got 0"),
        ("ltc-ncp", {"sparsity": 0.95}, r"sparsity must lie in \[0.1, 0.9\], got 0.95"),
        ("ltc-ncp", {"seed": -1}, "seed must be at least 0, got -1"),
        ("ltc-fc", {"time_scale": 0.0}, "time_scale must lie in"),
    ):
        with case(name, options), pytest.raises(ValueError, match=message):
            make(name, **options)
    with pytest.raises(TypeError, match="ltc-fc has no option 'sparsity'; it takes unfolds, time_scale"):
        make("ltc-fc", sparsity=0.5)
