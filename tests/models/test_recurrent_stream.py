"""Streams of recurrent models: step by step equals forward, rows are on their own, and bad steps are refused."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.export import Dim, export

import nacre
from support.models import CELLS, case, each, info, irregular, make

RECURRENT = [name for name in [*nacre.list_models(), *CELLS] if info(name).kind == "CT-RNN"]


def alive(name, **options):
    """A model in whose prior, too, nothing is zero."""
    model = make(name, **options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model


def data():
    x, time = irregular()
    return x.detach(), time


def run(model, state, x, time=None):
    outputs = []
    for i in range(x.shape[1]):
        y, state = model.step(x[:, i], state, time=None if time is None else time[:, i])
        outputs.append(y)
    return torch.stack(outputs, 1), state


def same(got, want):
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_all_recurrent_models_are_here():
    assert len(RECURRENT) == 11


@each(RECURRENT)
def test_step_equals_forward(name):
    x, time = data()
    for options in ({}, {"time_scale": 0.3}):
        model = alive(name, **options)
        for stamps in (time + 1.7e9, None):
            y, state = run(model, model.init_state(3), x, stamps)
            with case(name, options, stamps is not None):
                same(y, model(x, time=stamps))
            assert not y.requires_grad
            assert state.length.tolist() == [7] * 3


@each(RECURRENT)
def test_step_equals_forward_in_single_precision(name):
    x, time = data()
    model = make(name).eval()
    y, _ = run(model, model.init_state(3), x.float(), time)
    torch.testing.assert_close(y, model(x.float(), time=time), rtol=1e-4, atol=1e-5)


@each(RECURRENT)
def test_rows_are_on_their_own_and_begin_anew_after_a_reset(name):
    x, time = data()
    model = alive(name)
    poisoned = x.clone()
    poisoned[1, :4] = torch.nan
    y, state = run(model, model.init_state(3), poisoned[:, :4], time[:, :4])
    rest, _ = run(
        model, state.reset(1), x[:, 4:], torch.where(torch.arange(3)[:, None] == 1, 5.0, 0.0) + time[:, 4:]
    )
    same(torch.cat([y, rest], 1)[[0, 2]], model(x, time=time)[[0, 2]])
    same(rest[1:2], model(x[1:2, 4:], time=time[1:2, 4:] + 5))


@each(RECURRENT)
def test_a_state_can_be_saved_and_gone_on_from_twice(name, tmp_path):
    x, time = data()
    model = make(name).double().eval()
    _, half = run(model, model.init_state(3), x[:, :4], time[:, :4])
    save_file(half._asdict(), tmp_path / "state.safetensors")
    whole = model(x, time=time)
    for state in (half, half.clone(), nacre.RecurrentState(**load_file(tmp_path / "state.safetensors"))):
        same(run(model, state, x[:, 4:], time[:, 4:])[0], whole[:, 4:])


class Step(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, state, time):
        return self.model.step(x, state, time=time)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*_flat_weights")  # of torch's own LSTM
@each([pytest.param(name, marks=() if name in ("ltc-fc", "s4") else pytest.mark.deep) for name in RECURRENT])
def test_a_step_is_exported_for_any_number_of_streams(name):
    x, time = data()
    model = make(name).double().eval()
    rows = {0: Dim("batch", max=1000)}
    axes = rows, nacre.RecurrentState(rows, rows, rows), rows
    program = export(Step(model), (x[:2, 0], model.init_state(2), time[:2, 0]), dynamic_shapes=axes)
    _, state = model.step(x[:, 0], model.init_state(3), time=time[:, 0])
    y, state = program.module()(x[:, 1], state, time[:, 1])
    same(y, model(x, time=time)[:, 1])
    same(model.step(x[:, 2], state, time=time[:, 2])[0], model(x, time=time)[:, 2])


def test_a_step_compiles_to_one_graph():
    x, time = data()
    model = make("cfc-fc").double().eval()
    step = torch.compile(model.step, fullgraph=True, backend="eager")
    y, _ = step(x[:, 0], model.init_state(3), time=time[:, 0])
    same(y, model(x, time=time)[:, 0])


def test_a_stream_adds_nothing_to_the_loss():
    model = make("deepstate").double()
    model.step(torch.randn(2, 5).double(), model.init_state(2))
    assert model.aux_loss is None


class TestBadInput:
    def test_another_batch_size(self):
        model = make("cfc-fc")
        with pytest.raises(ValueError, match=r"state is of 3 streams but x has 2 rows.*init_state\(2\)"):
            model.step(torch.randn(2, 5), model.init_state(3))

    def test_a_state_of_another_model(self):
        with pytest.raises(
            ValueError, match=r"another model: it holds 16 numbers for each stream, this model has 8"
        ):
            make("cfc-fc").step(torch.randn(1, 5), make("mmrnn").init_state(1))

    def test_time_going_backwards(self):
        model = make("cfc-fc")
        x = torch.randn(2, 5)
        _, state = model.step(x, model.init_state(2), time=torch.tensor([5.0, 6.0]))
        with pytest.raises(ValueError, match=r"time goes backwards in stream 1: 5.5 after 6.0.*reset the row"):
            model.step(x, state, time=torch.tensor([5.0, 5.5]))
        model.step(x, state, time=torch.tensor([5.0, 6.0]))  # at the same time is fine
        model.step(x, state.reset(1), time=torch.tensor([5.0, 1.0]))  # and so is a new beginning

    def test_time_at_some_steps_only(self):
        model = make("cfc-fc")
        x, time = torch.randn(1, 5), torch.zeros(1)
        _, state = model.step(x, model.init_state(1))
        with pytest.raises(ValueError, match="goes on with time after steps without time"):
            model.step(x, state, time=time)
        _, state = model.step(x, model.init_state(1), time=time)
        with pytest.raises(ValueError, match="goes on without time after steps with time"):
            model.step(x, state)

    @pytest.mark.parametrize(
        ("x", "time", "message"),
        [
            (torch.randn(1, 3, 5), None, r"one step of each stream, \[batch, 5\].*use forward"),
            (torch.randn(1, 7), None, "x must have 5 numbers"),
            (torch.randn(1, 5), torch.zeros(1, 1), r"time must have shape \(1,\)"),
            (torch.randn(1, 5), torch.tensor([torch.nan]), "time must be finite"),
        ],
    )
    def test_shapes_and_values(self, x, time, message):
        model = make("cfc-fc")
        with pytest.raises(ValueError, match=message):
            model.step(x, model.init_state(1), time=time)

    def test_types(self):
        model = make("cfc-fc")
        with pytest.raises(TypeError, match="state must be a RecurrentState from init_state, got dict"):
            model.step(torch.randn(1, 5), {})
        with pytest.raises(TypeError, match="real time stamps"):
            model.step(torch.randn(1, 5), model.init_state(1), time=1.0)
        with pytest.raises(TypeError, match="x has dtype torch.float64"):
            model.step(torch.randn(1, 5).double(), model.init_state(1))
        with pytest.raises(ValueError, match="batch_size must be at least 1"):
            model.init_state(0)
