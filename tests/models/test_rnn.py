"""CT-RNN, ODE-RNN and GRU-ODE against torchdiffeq and torch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.models.ct_rnn import CTRNN, ODERNN
from nacre.models.gru_ode import GRUODE
from reference import rnn
from support.hypothesis import examples
from support.models import batch, case, check_parity, drawn, irregular, make

CASES = {CTRNN: rnn.ct_rnn, ODERNN: rnn.ode_rnn, GRUODE: rnn.gru_ode}


@pytest.mark.parametrize("unfolds", [1, 5])
def test_parity_ct_rnn_is_torchdiffeq_euler(unfolds):
    check_parity(drawn(CTRNN, unfolds=unfolds), rnn.ct_rnn)


@pytest.mark.parametrize("unfolds", [1, 4])
def test_parity_gru_ode_is_torchdiffeq_euler(unfolds):
    check_parity(drawn(GRUODE, unfolds=unfolds), rnn.gru_ode)


@pytest.mark.parametrize("unfolds", [1, 5])
def test_parity_ct_rnn_as_ode_rnn_is_gru_cell_and_torchdiffeq_euler(unfolds):
    check_parity(drawn(ODERNN, unfolds=unfolds), rnn.ode_rnn)


@pytest.mark.parametrize("model", CASES)
def test_many_unfolds_approach_the_exact_flow(model):
    """Errors against an adaptive solver halve when the steps of Euler's method double."""
    x, time = irregular()
    coarse = drawn(model, unfolds=40)
    exact = CASES[model](coarse, x, time, None)
    fine = model(5, 8, unfolds=80).double()
    fine.load_state_dict(coarse.state_dict())
    errors = [(m(x, time=time) - exact).abs().amax().item() for m in (coarse, fine)]
    assert errors[0] < 0.1
    assert 1.8 < errors[0] / errors[1] < 2.2


def test_ode_rnn_without_elapsed_time_is_torch_gru():
    model = drawn(ODERNN)
    gru = torch.nn.GRU(5, 8, batch_first=True, dtype=torch.float64)
    gru.load_state_dict({f"{name}_l0": value for name, value in rnn.gru_weights(model).items()})
    x, _ = irregular()
    torch.testing.assert_close(model(x, time=torch.full((3, 7), 2.5)), gru(x)[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", [CTRNN, GRUODE])
def test_no_time_between_two_inputs_changes_no_bit(model):
    x, time = irregular()
    y = drawn(model)(x, time=time)
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


def test_options_change_the_output():
    x, time = batch()
    for name, options in (
        ("ct-rnn", {"unfolds": 4}),
        ("ct-rnn", {"cell": "ode-rnn"}),
        ("gru-ode", {"unfolds": 5}),
        ("ode-rnn", {"unfolds": 4}),
    ):
        assert not torch.allclose(make(name)(x, time=time), make(name, **options)(x, time=time)), (name, options)


def test_the_cell_of_ct_rnn_is_chosen_by_name():
    assert type(make("ct-rnn")) is CTRNN
    assert type(make("ct-rnn", cell="ode-rnn")) is type(make("ode-rnn")) is ODERNN
    with pytest.raises(
        ValueError, match="cell must be one of 'leaky', 'ode-rnn', got 'odernn'; did you mean 'ode-rnn'"
    ):
        make("ct-rnn", cell="odernn")


def test_bad_options_are_refused():
    for model in CASES:
        with case(model.__name__):
            with pytest.raises(ValueError, match="unfolds must be at least 1, got 0"):
                model(5, 8, unfolds=0)
            with pytest.raises(TypeError, match="unfolds must be an integer, got 2.5"):
                model(5, 8, unfolds=2.5)
            with pytest.raises(ValueError, match="time_scale must lie in"):
                model(5, 8, time_scale=0.0)


def test_ode_rnn_is_saved_as_itself(tmp_path):
    model = nacre.create("ct-rnn", d_input=5, d_model=8, num_heads=1, cell="ode-rnn", unfolds=3)
    loaded = nacre.load(nacre.save(model, tmp_path))
    x, time = batch()
    assert isinstance(loaded, ODERNN)
    assert loaded.unfolds == 3
    assert torch.equal(loaded(x, time=time), model(x, time=time))
