"""`TaskNetwork` around every model of the zoo: learning, time, saving; its loss and its options."""

import math

import pytest
import torch
from torch import nn

import nacre
from nacre.data.dataset import UNSCORED, Kind
from nacre.tasks.network import TaskNetwork

KINDS = list(Kind)
NAMES = nacre.list_models()
TIMELESS = [name for name in NAMES if not nacre.model_info(name).uses_time]
CLOCKS = ["mtan", "phased-lstm"]  # they compare the stamps themselves with learned periods or moments


def make(name, kind=Kind.CLASSIFICATION, **options):
    """A small network for 3 features and 2 classes or numbers, always with the same weights."""
    torch.manual_seed(1)
    settings = {"d_model": 16, "num_heads": 2, "conv": [[6, 3, 1]], "dense": [8], **options}
    return TaskNetwork(name, kind, 3, 2, **settings)


def batch(length=6):
    """Four sequences: two whole, one of 4 steps, one of 1."""
    padding = torch.arange(length) >= torch.tensor([[length], [length], [4], [1]])
    time = torch.rand(4, length, dtype=torch.float64).add(0.1).cumsum(1)
    return torch.randn(4, length, 3), time, padding


def answers(kind, length=6):
    """Answers for `batch`, those of padding not scored."""
    shape = (4, length) if kind.each_step else (4,)
    padding = batch(length)[2]
    if kind.has_classes:
        y = torch.arange(math.prod(shape)).view(shape) % 2
        return y.masked_fill(padding, UNSCORED) if kind.each_step else y
    y = torch.randn(*shape, 2)
    return y.masked_fill(padding.unsqueeze(-1), math.nan) if kind.each_step else y


# --- every model --------------------------------------------------------------------------------------------

# One model of each family in `make test`, all others in `make test-deep`.
FEW = ["cfc-ncp", "deepstate", "mtan", "nac", "nac-plus", "nac-pw", "odeformer", "ot-transformer", "performer"]
FEW += ["phased-lstm", "s4", "sdpa"]
REST = [name for name in NAMES if name not in FEW]
MODELS = [pytest.param(FEW, id="few"), pytest.param(REST, id="rest", marks=pytest.mark.deep)]


def assert_close(name, found, wanted):
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize(("names", "kind"), [(NAMES, Kind.STEP_CLASSIFICATION), (FEW, Kind.FORECASTING)])
def test_every_parameter_learns(names, kind):
    for name in names:
        network = make(name, kind)
        out = network(*batch())
        assert out.shape == ((4, 6, 2) if kind.each_step else (4, 2)), name
        network.loss(out, answers(kind)).backward()
        for parameter, gradient in ((n, p.grad) for n, p in network.named_parameters()):
            assert gradient is not None, (name, parameter)
            assert gradient.isfinite().all(), (name, parameter)
            assert (gradient != 0).any(), (name, parameter)


@pytest.mark.parametrize("names", MODELS)
def test_saved_and_loaded_networks_are_the_same(names, tmp_path):
    for name in names:
        network = make(name, Kind.REGRESSION, time_scale=2.5).eval()
        network.y_scale.fill_(3.0)
        network.shift.fill_(0.5)
        loaded = nacre.load(nacre.save(network, tmp_path / name)).eval()
        assert loaded.to_config() == network.to_config(), name
        inputs = batch()
        assert torch.equal(loaded(*inputs), network(*inputs)), name


@pytest.mark.parametrize("names", MODELS)
def test_a_batch_equals_its_samples(names):
    for name in names:
        network = make(name).eval()
        x, time, padding = batch()
        out = network(x, time, padding)
        for row, length in enumerate((6, 6, 4, 1)):
            place = slice(row, row + 1), slice(length)
            assert_close(name, out[row], network(x[place], time[place], padding[place])[0])


@pytest.mark.parametrize("names", MODELS)
def test_time_and_its_unit_can_be_scaled_together_and_time_can_start_anywhere(names):
    for name in names:
        x, time, padding = batch()
        network = make(name, time_scale=1.0).eval()
        out = network(x, time, padding)
        assert_close(name, make(name, time_scale=1024.0).eval()(x, time * 1024, padding), out)
        if name not in CLOCKS:
            assert_close(name, network(x, time + 4096, padding), out)


@pytest.mark.parametrize("names", MODELS)
def test_models_without_a_sense_of_time_know_it_as_a_feature(names):
    for name in {*names} & {*TIMELESS}:
        network = make(name).eval()
        x, time, padding = batch()
        change = (network(x, time, padding) - network(x, time * 1.5, padding)).abs()
        assert (change[:3] > 1e-6).any(1).all(), name
        assert (change[3] == 0).all(), name  # a sequence of one step has no duration


# --- loss ---------------------------------------------------------------------------------------------------


def test_loss_of_classes_is_the_mean_cross_entropy_of_the_scored_ones():
    network = make("sdpa", Kind.STEP_CLASSIFICATION)
    out = torch.randn(4, 6, 2)
    y = answers(Kind.STEP_CLASSIFICATION)
    expected = [
        -out[row, step].log_softmax(0)[y[row, step]].item()
        for row in range(4)
        for step in range(6)
        if y[row, step] != UNSCORED
    ]
    assert len(expected) == 17
    assert network.loss(out, y).item() == pytest.approx(sum(expected) / 17, rel=1e-5)


def test_loss_of_numbers_is_the_mean_squared_error_in_units_of_their_spread():
    network = make("sdpa", Kind.STEP_REGRESSION)
    network.y_scale = torch.tensor([2.0, 5.0])
    out, y = torch.randn(4, 6, 2), answers(Kind.STEP_REGRESSION)
    expected = [
        ((out[row, step, d] - y[row, step, d]) / (2.0, 5.0)[d]).square().item()
        for row in range(4)
        for step in range(6)
        for d in range(2)
        if not y[row, step, d].isnan()
    ]
    assert len(expected) == 34
    assert network.loss(out, y).item() == pytest.approx(sum(expected) / 34, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_scored_acts_on_no_gradient(kind):
    network = make("sdpa", kind)
    y = answers(kind)
    y[1] = UNSCORED if kind.has_classes else math.nan
    out = torch.randn(*((4, 6, 2) if kind.each_step else (4, 2)), requires_grad=True)
    network.loss(out, y).backward()
    scored = y != UNSCORED if kind.has_classes else ~y.isnan().any(-1)
    assert not scored.all()
    assert (out.grad[~scored] == 0).all()
    assert (out.grad[scored] != 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_which_nothing_is_scored_has_loss_0_and_no_gradient(kind):
    network = make("sdpa", kind)
    y = torch.full_like(answers(kind), UNSCORED if kind.has_classes else math.nan)
    loss = network.loss(network(*batch()), y)
    assert loss.item() == 0
    loss.backward()
    assert all((p.grad == 0).all() for p in network.parameters())


# --- options ------------------------------------------------------------------------------------------------


def test_the_unit_of_time_goes_to_the_layer_unless_an_option_says_otherwise():
    def layers(**options):
        network = make("cfc-fc", time_scale=7.0, depth=2, options=options)
        return network, [block.attention.time_scale for block in network.layer.blocks]

    assert layers()[1] == [7.0, 7.0]
    own, scales = layers(time_scale=2.0)
    assert scales == [2.0, 2.0]
    assert own.to_config()["options"] == {"time_scale": 2.0}


def test_options_are_not_changed_by_the_network():
    options = {"top_k": 3}
    network = make("nac", time_scale=7.0, options=options)
    assert options == network.to_config()["options"] == {"top_k": 3}
    assert network.layer.blocks[0].attention.config.top_k == 3


def test_dropout_comes_before_every_dense_layer_and_only_in_training():
    network = make("sdpa", dense=[8, 4], dropout=0.5)
    parts = [type(part) for part in network.head]
    assert parts == [nn.Dropout, nn.Linear, nn.ReLU] * 2 + [nn.Dropout, nn.Linear]
    assert [part.out_features for part in network.head if isinstance(part, nn.Linear)] == [8, 4, 2]
    inputs = batch()
    assert not torch.equal(network(*inputs), network(*inputs))
    network.eval()
    assert torch.equal(network(*inputs), network(*inputs))


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        (
            "cfc-fc",
            {"backbone_unit": 3},
            TypeError,
            "cfc-fc has no option 'backbone_unit'; did you mean 'backbone_units'",
        ),
        ("nac", {"top_kk": 3}, TypeError, "top_kk"),
        ("nca", {}, ValueError, "unknown model 'nca'; did you mean 'nac'"),
    ],
)
def test_unknown_names_are_refused(name, options, error, message):
    with pytest.raises(error, match=message):
        make(name, options=options)


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="'forecast' is not a valid Kind"):
        make("sdpa", "forecast")
