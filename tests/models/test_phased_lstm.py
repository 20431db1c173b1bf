"""PhasedLSTM against the formulas of the paper, one scalar after the other, and against torch."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.models.phased_lstm import PhasedLSTM
from reference import rnn
from reference.compare import assert_same
from support import models
from support.hypothesis import examples


def make(open_logit=0.0, **options):
    """A small model of float64 whose gates are open at about half of all steps, so that all branches are taken."""
    model = PhasedLSTM(5, 8, **options).double()
    with torch.no_grad():
        for p in model.cell.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)
        model.open_logit.copy_(open_logit + torch.randn(8))
    return model


def batch(rows=3, length=9):
    time = torch.rand(rows, length, dtype=torch.float64).mul(3).cumsum(1)
    time[0, 3] = time[0, 2]
    return torch.randn(rows, length, 5, dtype=torch.float64, requires_grad=True), time


def set_gates(model, period, shift, open_logit):
    with torch.no_grad():
        model.log_period.fill_(math.log(period))
        model.shift.fill_(shift)
        model.open_logit.fill_(open_logit)


@pytest.mark.parametrize("leak", [1e-3, 0.3])
@pytest.mark.parametrize("training", [True, False])
def test_parity_phased_lstm_is_lstm_cell_with_the_gate_of_the_paper(training, leak):
    model = make(leak=leak).train(training)
    x, time = batch()
    y, want = model(x, time=time), rnn.phased_lstm(model, x, time, leak if training else 0.0)
    assert_same(y, want, [x, *model.parameters()], 1e-9)
    single = model.float()(x.float(), time=time)
    torch.testing.assert_close(single.double(), want, rtol=1e-5, atol=1e-5)


@examples(20)
@given(
    seed=st.integers(0, 10**6),
    open_logit=st.floats(-4, 4),
    origin=st.sampled_from([-50.0, 0.0, 1e4]),
    training=st.booleans(),
)
def test_openness_is_the_formula_of_the_paper(seed, open_logit, origin, training):
    torch.manual_seed(seed)
    model = make(open_logit, leak=0.01).train(training)
    time = origin + torch.rand(2, 9, dtype=torch.float64) * 100
    k = model.openness(time)
    want = rnn.openness_of_units(model, time, 0.01 if training else 0.0)
    torch.testing.assert_close(k, want, rtol=1e-9, atol=1e-9)
    assert ((k >= 0) & (k <= 1)).all()


def test_openness_by_hand():
    """Period 10 and r_on 0.4: gates open at 1, are widest at 3 and shut at 5."""
    model = PhasedLSTM(5, 8, leak=0.5).double()
    set_gates(model, period=10.0, shift=1.0, open_logit=math.log(0.4 / 0.6))
    time = torch.tensor([[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.5, 12.0]])
    want = torch.tensor([0.0, 0.5, 1.0, 0.5, 0.25, 0.35, 0.25, 0.5], dtype=torch.float64)
    torch.testing.assert_close(model.openness(time)[0], want[:, None].expand(8, 8), rtol=0, atol=1e-12)
    want[4:6] = 0.0
    torch.testing.assert_close(model.eval().openness(time)[0], want[:, None].expand(8, 8), rtol=0, atol=1e-12)


def test_open_gates_make_it_torch_lstm_and_closed_ones_hold():
    """Gates with period 2 that are widest at even stamps and shut at odd ones."""
    model = make().eval()
    set_gates(model, period=2.0, shift=-1.0, open_logit=40.0)
    lstm = torch.nn.LSTM(5, 8, batch_first=True, dtype=torch.float64)
    lstm.load_state_dict({f"{name}_l0": value for name, value in rnn.lstm_weights(model.cell).items()})
    x, _ = batch(3, 12)
    torch.testing.assert_close(
        model(x, time=torch.arange(0, 24, 2).expand(3, 12)), lstm(x)[0], rtol=1e-9, atol=1e-9
    )
    y = model(x)  # stamps 0, 1, 2, ...
    torch.testing.assert_close(y[:, ::2], lstm(x[:, ::2])[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(y[:, 1::2], y[:, ::2], rtol=1e-9, atol=1e-9)


def test_closed_gates_change_no_bit_in_evaluation_and_leak_in_training():
    model = make().float()
    set_gates(model, period=100.0, shift=0.0, open_logit=math.log(0.1 / 0.9))
    x, time = torch.randn(2, 6, 5), torch.tensor([3.0, 6.0, 10.5, 50.0, 99.0, 104.0]).expand(2, 6)
    y = model.eval()(x, time=time)
    assert torch.equal(y[:, 2:5], y[:, 1:2].expand(2, 3, 8))
    assert ((y[:, 1] != y[:, 0]) & (y[:, 5] != y[:, 4])).all()
    leaking = model.train()(x, time=time)
    assert (leaking[:, 3] != leaking[:, 2]).any()
    torch.testing.assert_close(leaking, y, rtol=0, atol=0.01)


@examples(20)
@given(seed=st.integers(0, 10**6), cycles=st.integers(-1000, 1000))
def test_openness_repeats_every_period(seed, cycles):
    torch.manual_seed(seed)
    model = make()
    unit = seed % 8
    time = torch.rand(2, 9, dtype=torch.float64) * 20
    later = time + cycles * model.log_period[unit].exp().item()
    # Away from the jump at the end of a period, where rounding decides on which side a stamp is.
    phase = ((time - model.shift[unit]) / model.log_period[unit].exp()) % 1
    inside = (phase > 1e-6) & (phase < 1 - 1e-6)
    got, want = model.openness(later)[..., unit], model.openness(time)[..., unit]
    torch.testing.assert_close(got[inside], want[inside], rtol=0, atol=1e-8)


def test_stamps_of_today_are_as_good_in_single_precision():
    model = make()
    x, time = batch()
    model.float()  # rounds the weights, so that both precisions have the same
    single = model(x.float(), time=time + 1.7e9)
    torch.testing.assert_close(single.double(), model.double()(x, time=time + 1.7e9), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("longest", [20.0, 1000.0])
def test_gates_start_as_documented(longest):
    models = [PhasedLSTM(2, 64, max_period=longest) for _ in range(40)]
    log_period = torch.cat([m.log_period for m in models])
    assert ((log_period >= 0) & (log_period <= math.log(longest))).all()
    share = log_period / math.log(longest)
    assert share.mean().item() == pytest.approx(0.5, abs=0.03)
    assert share.std().item() == pytest.approx(math.sqrt(1 / 12), abs=0.03)
    shift = torch.cat([m.shift for m in models]) / log_period.exp()
    assert ((shift >= 0) & (shift <= 1 + 1e-6)).all()
    assert shift.mean().item() == pytest.approx(0.5, abs=0.03)
    torch.testing.assert_close(models[0].open_logit.sigmoid(), torch.full((64,), 0.05))
    assert torch.equal(models[0].cell.input_proj.bias.view(4, 64).sum(1), torch.tensor([0.0, 64.0, 0.0, 0.0]))


def test_options_change_the_output():
    x, time = models.batch()

    def run(training, **options):
        return models.make("phased-lstm", **options).train(training)(x, time=time)

    assert not torch.allclose(run(True), run(True, leak=0.1), rtol=0, atol=1e-6)
    assert torch.equal(run(False), run(False, leak=0.1))
    assert not torch.allclose(run(False), run(False, max_period=3.0), rtol=0, atol=1e-6)


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="leak must lie in"):
        PhasedLSTM(5, 8, leak=-1e-3)
    with pytest.raises(ValueError, match="max_period must lie in"):
        PhasedLSTM(5, 8, max_period=0.5)
