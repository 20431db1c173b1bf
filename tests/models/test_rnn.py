"""CT-RNN, ODE-RNN and GRU-ODE against torchdiffeq and torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import models.test_contract as contract
import models.test_contract_padding as padding
import models.test_contract_time as time_contract
import nacre
from nacre.models._ode_rnn import ODERNN
from nacre.models.ct_rnn import CTRNN
from nacre.models.gru_ode import GRUODE
from reference import rnn, zoo
from reference.compare import assert_same
from support.hypothesis import examples

CASES = {CTRNN: rnn.ct_rnn, ODERNN: rnn.ode_rnn, GRUODE: rnn.gru_ode}


def make(model, **options):
    """A small model of float64 whose every number is drawn, so that none is at a special value."""
    made = model(5, 8, **options).double()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)
    return made


def batch(rows=3, length=7):
    """Irregular time, with two equal stamps in the first row."""
    time = torch.rand(rows, length, dtype=torch.float64).mul(1.5).cumsum(1)
    time[0, 3] = time[0, 2]
    return torch.randn(rows, length, 5, dtype=torch.float64, requires_grad=True), time


def check_parity(model, reference):
    """Outputs and all gradients, in double precision, and outputs in single."""
    x, time = batch()
    y, want = model(x, time=time), reference(model, x, time, model.unfolds)
    assert_same(y, want, [x, *model.parameters()], 1e-9)
    single = model.float()(x.float(), time=time)
    torch.testing.assert_close(single.double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("unfolds", [1, 5])
def test_parity_ct_rnn_is_torchdiffeq_euler(unfolds):
    check_parity(make(CTRNN, unfolds=unfolds), rnn.ct_rnn)


@pytest.mark.parametrize("unfolds", [1, 4])
def test_parity_gru_ode_is_torchdiffeq_euler(unfolds):
    check_parity(make(GRUODE, unfolds=unfolds), rnn.gru_ode)


@pytest.mark.parametrize("unfolds", [1, 5])
def test_parity_ct_rnn_as_ode_rnn_is_gru_cell_and_torchdiffeq_euler(unfolds):
    check_parity(make(ODERNN, unfolds=unfolds), rnn.ode_rnn)


@pytest.mark.parametrize("model", CASES)
def test_many_unfolds_approach_the_exact_flow(model):
    """Errors against an adaptive solver halve when the steps of Euler's method double."""
    x, time = batch()
    coarse = make(model, unfolds=40)
    exact = CASES[model](coarse, x, time, None)
    fine = model(5, 8, unfolds=80).double()
    fine.load_state_dict(coarse.state_dict())
    errors = [(m(x, time=time) - exact).abs().amax().item() for m in (coarse, fine)]
    assert errors[0] < 0.1
    assert 1.8 < errors[0] / errors[1] < 2.2


def test_ode_rnn_without_elapsed_time_is_torch_gru():
    model = make(ODERNN)
    gru = torch.nn.GRU(5, 8, batch_first=True, dtype=torch.float64)
    gru.load_state_dict({f"{name}_l0": value for name, value in rnn.gru_weights(model).items()})
    x, _ = batch()
    torch.testing.assert_close(model(x, time=torch.full((3, 7), 2.5)), gru(x)[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", [CTRNN, GRUODE])
def test_no_time_between_two_inputs_changes_no_bit(model):
    x, time = batch()
    y = make(model)(x, time=time)
    assert torch.equal(y[0, 3], y[0, 2])
    assert not torch.equal(y[0, 4], y[0, 3])


@pytest.mark.parametrize("model", [CTRNN, GRUODE])
@examples(25)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(0.1, 20.0),
    unfolds=st.integers(1, 6),
    longest=st.sampled_from([0.5, 1.0, 3.0, 1e6]),
)
def test_states_stay_within_their_bounds(model, seed, scale, unfolds, longest):
    """Gain for CT-RNN, 1 for GRU-ODE, whatever the weights and inputs are, and however long the gaps."""
    torch.manual_seed(seed)
    made = model(5, 8, unfolds=unfolds).double()
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.randn_like(p) * scale)
    elapsed = torch.rand(4, 12, dtype=torch.float64) * unfolds * longest
    y = made(torch.randn(4, 12, 5, dtype=torch.float64) * scale, time=elapsed.cumsum(1))
    bound = made.gain.abs() if model is CTRNN else torch.ones(8, dtype=torch.float64)
    assert (y.abs() <= bound * (1 + 1e-12)).all()


def test_weights_start_as_documented():
    assert torch.equal(CTRNN(5, 8).gain, torch.ones(8))
    assert torch.equal(GRUODE(5, 8).input_proj.bias, torch.tensor([1.0] * 8 + [0.0] * 16))


@pytest.mark.parametrize(
    ("name", "options"), [("ct-rnn", {"unfolds": 4}), ("ct-rnn", {"cell": "ode-rnn"}), ("gru-ode", {"unfolds": 5})]
)
def test_options_change_the_output(name, options):
    x, time = zoo.batch()
    assert not torch.allclose(zoo.make(name)(x, time=time), zoo.make(name, **options)(x, time=time))


def test_unfolds_change_the_output_of_ode_rnn():
    x, time = zoo.batch()
    few, many = (zoo.make("ct-rnn", cell="ode-rnn", unfolds=n)(x, time=time) for n in (4, 5))
    assert not torch.allclose(few, many)


def test_the_cell_of_ct_rnn_is_chosen_by_name():
    assert type(zoo.make("ct-rnn")) is CTRNN
    assert type(zoo.make("ct-rnn", cell="ode-rnn")) is ODERNN
    with pytest.raises(
        ValueError, match="cell must be one of 'leaky', 'ode-rnn', got 'odernn'; did you mean 'ode-rnn'"
    ):
        zoo.make("ct-rnn", cell="odernn")


@pytest.mark.parametrize("model", CASES)
def test_bad_options_are_refused(model):
    with pytest.raises(ValueError, match="unfolds must be at least 1, got 0"):
        model(5, 8, unfolds=0)
    with pytest.raises(TypeError, match="unfolds must be an integer, got 2.5"):
        model(5, 8, unfolds=2.5)
    with pytest.raises(ValueError, match="time_scale must lie in"):
        model(5, 8, time_scale=0.0)


@pytest.fixture
def as_ode_rnn(monkeypatch):
    """Make the contract, which asks each name as created by default, ask ct-rnn as the other cell."""
    for module in (contract, padding, time_contract):
        monkeypatch.setattr(module, "make", lambda name, **options: zoo.make(name, cell="ode-rnn", **options))


@pytest.mark.usefixtures("as_ode_rnn")
@pytest.mark.parametrize(
    "promise",
    [
        contract.test_shapes_and_dtypes,
        contract.test_every_number_learns,
        contract.test_a_batch_equals_its_samples,
        contract.test_models_can_be_copied_after_training,
        padding.test_rows_of_nothing_but_padding_are_zero,
        time_contract.test_tripling_elapsed_time_acts_where_the_registry_says_so,
        time_contract.test_no_time_stamps_mean_one_unit_a_step,
        time_contract.test_time_scale_is_the_unit_of_time,
        time_contract.test_stamps_of_today_keep_their_differences,
        time_contract.test_the_registry_knows_whether_the_future_matters,
    ],
)
def test_ode_rnn_keeps_the_contract(promise):
    promise("ct-rnn")


@pytest.mark.usefixtures("as_ode_rnn")
@pytest.mark.parametrize("where", ["right", "left", "inside"])
def test_ode_rnn_sees_no_padding(where):
    padding.test_what_is_in_padding_changes_no_bit("ct-rnn", where)
    padding.test_padding_is_as_if_it_were_not_there("ct-rnn", where, True)


@pytest.mark.usefixtures("as_ode_rnn")
def test_the_contract_really_asked_ode_rnn():
    assert {type(module.make("ct-rnn")) for module in (contract, padding, time_contract)} == {ODERNN}


def test_ode_rnn_is_saved_as_itself(tmp_path):
    model = nacre.create("ct-rnn", d_input=5, d_model=8, num_heads=1, cell="ode-rnn", unfolds=3)
    loaded = nacre.load(nacre.save(model, tmp_path))
    x, time = zoo.batch()
    assert isinstance(loaded, ODERNN)
    assert loaded.unfolds == 3
    assert torch.equal(loaded(x, time=time), model(x, time=time))
