"""mmRNN against nn.LSTMCell and torchdiffeq, and what it says about memory and time."""

import itertools

import pytest
import torch

from nacre.models.mmrnn import MMRNN
from reference import rnn
from support.models import ORDERS, batch, check_parity, drawn, irregular, make


@pytest.mark.parametrize("unfolds", [1, 3])
def test_parity_mmrnn_is_lstm_cell_and_torchdiffeq_euler(unfolds):
    check_parity(drawn(MMRNN, unfolds=unfolds), rnn.mmrnn)


@pytest.mark.parametrize("solver", ORDERS)
def test_errors_against_the_exact_flow_fall_by_the_order_of_the_solver(solver):
    x, time = irregular()
    coarse = drawn(MMRNN, solver=solver, unfolds=24)
    exact = rnn.mmrnn(coarse, x, time, None)
    fine = MMRNN(5, 8, solver=solver, unfolds=48).double()
    fine.load_state_dict(coarse.state_dict())
    errors = [(m(x, time=time) - exact).abs().amax().item() for m in (coarse, fine)]
    assert 1.8 ** ORDERS[solver] < errors[0] / errors[1] < 2.2 ** ORDERS[solver]


def test_without_a_field_it_is_torch_lstm():
    model = drawn(MMRNN)
    with torch.no_grad():
        model.field_out.weight.zero_()
        model.field_out.bias.zero_()
    lstm = torch.nn.LSTM(5, 8, batch_first=True, dtype=torch.float64)
    lstm.load_state_dict({f"{name}_l0": value for name, value in rnn.lstm_weights(model.cell).items()})
    x, time = irregular()
    torch.testing.assert_close(model(x, time=time), lstm(x)[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [0.0, 1.0, 20.0])
def test_memory_does_not_flow(scale):
    """Between steps c is the same tensor, and dc_i/dc_{i-1} is the forget gate, whatever time has passed."""
    model = drawn(MMRNN)
    calls = []
    hook = model.cell.register_forward_hook(lambda _, args, out: calls.append((*args, *out)))
    x, time = irregular()
    with torch.no_grad():
        model(x, time=time * scale)
    hook.remove()
    assert len(calls) == 7
    for (*_, left), (_, _, found, *_) in itertools.pairwise(calls):
        assert found is left
    weights = rnn.lstm_weights(model.cell)
    w, u, b = (weights[name].chunk(4)[1] for name in ("weight_ih", "weight_hh", "bias_ih"))
    for i, (inputs, h, c, _, _) in enumerate(calls):
        slope = torch.autograd.functional.jacobian(lambda c, a=inputs, h=h: model.cell(a, h, c)[1].sum(0), c)
        forget = torch.sigmoid(x[:, i] @ w.T + h @ u.T + b)  # [B, d]
        torch.testing.assert_close(slope.transpose(0, 1), torch.diag_embed(forget), rtol=1e-12, atol=1e-12)


def test_weights_start_as_documented():
    bias = MMRNN(5, 8).cell.input_proj.bias
    assert torch.equal(bias, torch.tensor([0.0] * 8 + [1.0] * 8 + [0.0] * 16))


def test_options_change_the_output():
    x, time = batch()
    default = make("mmrnn")(x, time=time)
    for options in ({"unfolds": 4}, {"solver": "heun"}, {"solver": "rk4"}):
        assert not torch.allclose(make("mmrnn", **options)(x, time=time), default, rtol=0, atol=1e-6), options


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="unfolds must be at least 1, got 0"):
        MMRNN(5, 8, unfolds=0)
    with pytest.raises(ValueError, match="solver must be one of 'euler', 'heun', 'rk4', got 'rk'"):
        MMRNN(5, 8, solver="rk")
