"""Streaming: step by step equals the causal forward, in bounded time and memory, and bad steps are refused."""

import itertools
import math
import time as clock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import nacre
from nacre.layer.streaming.state import StreamState
from nacre.native import library
from support.cases import PLUS, some
from support.hypothesis import examples

pytestmark = pytest.mark.usefixtures("either_path")

OPTIONS = [
    {},
    {"mode": "euler"},
    {"mode": "steady"},
    {"mode": "steady", "integrate": False},
    {"selection": "exact"},
    {"selection": "exact", "top_k": 3},
    {"top_k": None},
    {"top_k": 1},
    {"top_k": 30},
    {"top_k": 100},
    {"share_backbone": True, "phi": "tanh"},
    {"wiring": "random", "activation": "relu"},
    {"d_input": 3, "bias": False, "time_scale": 7.0},
    {"reach": 15, "top_k": 4},
    {"match": "both"},
    {"match": "both", "reach": 20, "time_scale": 0.3},
    {"match": "content", "selection": "exact", "mode": "steady"},
    {"match": "both", "top_k": None},
    PLUS,
    {"match": "start", "mode": "euler", "clock": 1, "time_scale": 0.3},
    {"clock": 2, "top_k": None},
    {"near": 1, "top_k": 1},
    {"near": 7, "reach": 15},
    {"near": 7, "selection": "exact"},
    {"near": 30, "top_k": 33},
]
IDS = ["-".join(f"{k}={v}" for k, v in o.items()) or "default" for o in OPTIONS]


def causal(dtype=torch.float64, **options):
    layer = nacre.NAC(8, 2, causal=True, **({"backbone_units": 12, "block_size": 5} | options))
    return layer.to(dtype).eval()


def data(layer, batch, length):
    x = torch.randn(batch, length, layer.config.width, dtype=layer.out_proj.weight.dtype)
    gaps = torch.rand(batch, length, dtype=torch.float64) * torch.randint(0, 3, (batch, length))  # some are 0
    return x, gaps.cumsum(1) + 1.7e9


def run(layer, state, x, time=None):
    outputs = []
    for i in range(x.shape[1]):
        y, state = layer.step(x[:, i], state, time=None if time is None else time[:, i])
        outputs.append(y)
    return torch.stack(outputs, 1), state


# Without time only some of the code differs.
UNTIMED = ({}, {"mode": "euler"}, {"match": "both"}, {"match": "both", "top_k": None}, PLUS)
CASES = [
    pytest.param(o, timed, id=f"{name}-{timed}", marks=() if timed or o in UNTIMED else pytest.mark.deep)
    for timed in (True, False)
    for o, name in zip(OPTIONS, IDS, strict=True)
]


@pytest.mark.parametrize(("options", "timed"), CASES)
def test_step_equals_forward(options, timed):
    layer = causal(**options)
    x, time = data(layer, 3, 23)
    time = time if timed else None
    y, state = run(layer, layer.init_state(3, max_len=23), x, time)
    torch.testing.assert_close(y, layer(x, time=time), rtol=0, atol=1e-12)
    assert state.length.tolist() == [23] * 3


@pytest.mark.parametrize("mode", some(["exact", "euler", "steady"], "euler"))
def test_step_equals_forward_in_single_precision(mode):
    layer = causal(torch.float32, mode=mode)
    x, time = data(layer, 4, 40)
    y, _ = run(layer, layer.init_state(4, max_len=64), x, time)
    torch.testing.assert_close(y, layer(x, time=time), rtol=0, atol=1e-5)


@pytest.mark.parametrize("max_len", [140, 1000])
def test_without_a_block_size_step_equals_forward_whatever_the_memory_is(max_len):
    layer = causal(block_size=None)
    x, time = data(layer, 2, 140)  # two blocks of 64 and a bit
    y, _ = run(layer, layer.init_state(2, max_len), x, time)
    torch.testing.assert_close(y, layer(x, time=time), rtol=0, atol=1e-12)
    same = causal(block_size=64)
    same.load_state_dict(layer.state_dict())
    assert torch.equal(same(x, time=time), layer(x, time=time))
    other = causal(block_size=20)
    other.load_state_dict(layer.state_dict())
    assert not torch.equal(other(x, time=time), layer(x, time=time))


@pytest.mark.parametrize("near", [0, 2])
def test_equal_keys_are_told_apart_in_the_same_way(near):
    layer = causal(top_k=4, near=near)
    x, time = data(layer, 1, 30)
    x = x[:, :1].expand(-1, 30, -1)  # a sensor that does not change: every score is a tie
    y, _ = run(layer, layer.init_state(1, max_len=30), x, time)
    torch.testing.assert_close(y, layer(x, time=time), rtol=0, atol=1e-12)
    slid, _ = run(layer, layer.init_state(1, max_len=15, overflow="slide"), x, time)
    torch.testing.assert_close(slid, y, rtol=0, atol=1e-12)  # of equals the latest are taken


@examples(15)
@given(st.lists(st.tuples(st.integers(0, 23), st.integers(0, 2)), max_size=8), st.sampled_from(OPTIONS))
def test_rows_can_be_reset_at_any_time(resets, options):
    layer = causal(**options)
    x, time = data(layer, 3, 24)
    state, outputs = layer.init_state(3, max_len=24), []
    for i in range(24):
        state.reset([row for at, row in resets if at == i])
        y, state = layer.step(x[:, i], state, time=time[:, i])
        outputs.append(y)
    y = torch.stack(outputs, 1)
    for row in range(3):
        edges = sorted({0, 24, *(at for at, r in resets if r == row)})
        for start, end in itertools.pairwise(edges):
            part = layer(x[row : row + 1, start:end], time=time[row : row + 1, start:end])
            torch.testing.assert_close(y[row : row + 1, start:end], part, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, PLUS], ids=str)
def test_reset_takes_masks_and_forgets_poison(options):
    layer = causal(**options)
    x, time = data(layer, 2, 10)
    poisoned = x.clone()
    poisoned[0] = torch.nan
    _, state = run(layer, layer.init_state(2, max_len=20), poisoned, time)
    state.reset(torch.tensor([True, False]))
    assert state.length.tolist() == [0, 10]
    y, state = run(layer, state, x, time + 100)
    torch.testing.assert_close(y[:1], layer(x[:1], time=time[:1] + 100), rtol=0, atol=1e-12)
    assert state.reset().length.tolist() == [0, 0]


NEARER = {"near": 18, "top_k": 22, "clock": 1}  # more of them than a window may hold
WINDOWS = [{}, {"selection": "exact"}, {"top_k": None}, {"top_k": 40}, {"match": "both"}, PLUS, NEARER]
QUICK = [({}, True), ({"top_k": 40}, True), (PLUS, True), (NEARER, False)]


@pytest.mark.parametrize(
    ("options", "timed"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.deep)
        for case in itertools.product(WINDOWS, (True, False))
    ],
    ids=str,
)
def test_a_sliding_window_forgets_whole_blocks(options, timed):
    layer = causal(**options)
    x, time = data(layer, 2, 38)
    time = time if timed else None
    y, _ = run(layer, layer.init_state(2, max_len=16, overflow="slide"), x, time)  # 4 blocks of 5
    for i in (0, 4, 5, 17, 19, 20, 24, 27, 30, 34, 35, 37):
        start = max(0, i // 5 - 3) * 5  # its own block and three before
        whole = layer(x[:, start : i + 1], time=time[:, start : i + 1] if timed else None)
        torch.testing.assert_close(y[:, i], whole[:, -1], rtol=0, atol=1e-12)


def test_the_window_slides_for_good():
    layer = causal()
    state = layer.init_state(1, max_len=10, overflow="slide")
    _, state = run(layer, state, *data(layer, 1, 75))
    assert state.length.item() == 75
    assert state.key.shape == (1, 2, 3, 5, 4)


@pytest.mark.parametrize(("max_len", "block"), [(1, 1), (4, 1), (7, 5), (11, 5), (3, None)])
def test_a_window_never_remembers_fewer_steps_than_asked_for(max_len, block):
    layer = causal(block_size=block, top_k=None)
    x, time = data(layer, 1, 3 * max_len + 80)
    y, _ = run(layer, layer.init_state(1, max_len, overflow="slide"), x, time)
    for i in range(max_len, x.shape[1], 7):
        changed = x.clone()
        changed[:, i - max_len + 1] += 1  # the oldest step that must still count
        z, _ = run(layer, layer.init_state(1, max_len, overflow="slide"), changed[:, : i + 1], time[:, : i + 1])
        assert not torch.equal(z[:, i], y[:, i])


def test_a_state_can_be_saved_and_copied(tmp_path):
    layer = causal()
    x, time = data(layer, 2, 30)
    y, half = run(layer, layer.init_state(2, max_len=30), x[:, :15], time[:, :15])
    save_file(half._asdict(), tmp_path / "state.safetensors")
    for copy in (half.clone(), StreamState(**load_file(tmp_path / "state.safetensors"))):
        some, copy = run(layer, copy, x[:, 15:20], time[:, 15:20])
        run(layer, half, -x[:, 15:], time[:, 15:])  # writes into the tensors of `half`, and of nothing else
        rest, _ = run(layer, copy, x[:, 20:], time[:, 20:])
        torch.testing.assert_close(torch.cat([y, some, rest], 1), layer(x, time=time), rtol=0, atol=1e-12)


def test_a_state_survives_saving_its_layer(tmp_path):
    layer = causal(torch.float32)
    x, _ = data(layer, 1, 4)
    _, state = run(layer, layer.init_state(1), x)
    nacre.save(layer, tmp_path)
    y, _ = nacre.load(tmp_path).eval().step(x[:, 0], state.clone())
    assert torch.equal(y, layer.step(x[:, 0], state)[0])


def test_full_blocks_have_their_mean_key():
    layer = causal()
    x, _ = data(layer, 1, 12)
    _, state = run(layer, layer.init_state(1, max_len=15), x)
    keys = layer.key_gate(x)[0].unflatten(-1, (2, 4)).transpose(0, 1)  # [H, T, D]
    expected = torch.stack([keys[:, :5].mean(1), keys[:, 5:10].mean(1)], 1)
    torch.testing.assert_close(state.centroid[0, :, :2], expected)


def test_steps_keep_no_graph_and_follow_the_dtype():
    layer = nacre.NAC(8, 2, causal=True, dtype=torch.bfloat16)
    y, state = layer.step(torch.randn(2, 8, dtype=torch.bfloat16), layer.init_state(2))
    assert y.dtype == state.key.dtype == torch.bfloat16
    assert not y.requires_grad


def test_dropout_acts_in_training_only():
    layer = causal(dropout=0.5)
    x, _ = data(layer, 1, 12)
    y, _ = run(layer, layer.init_state(1), x)
    assert torch.equal(y, run(layer, layer.init_state(1), x)[0])
    layer.train()
    assert not torch.equal(y, run(layer, layer.init_state(1), x)[0])


def filled(layer, length, batch):
    """Streams that are already `length` steps long."""
    state = layer.init_state(batch, max_len=length + 64)
    for tensor in (state.key, state.value, state.centroid):
        tensor.normal_()
    return state._replace(length=state.length + length)


@pytest.mark.deep
def test_a_step_costs_little_more_after_a_long_history():
    layer = nacre.NAC(64, 4, causal=True).eval()
    # Enough streams to see the work beside the fixed costs: looking at every key would fail.
    x = torch.randn(16, 64)
    states = {length: filled(layer, length, batch=16) for length in (512, 8192)}
    seconds = {512: [], 8192: []}
    for _ in range(30):  # taking turns, so that both meet the same noise
        for length, times in seconds.items():
            state = states[length]
            start = clock.perf_counter()
            for _ in range(3):
                _, state = layer.step(x, state)
            times.append(clock.perf_counter() - start)
    assert min(seconds[8192]) <= 6 * min(seconds[512])


def test_the_work_of_a_step_grows_like_the_root():
    """Counted, not timed: elements that a step computes from a history of n keys in blocks of their root."""
    x = torch.randn(1, 8)
    sizes = {}
    for length in (2**8, 2**12, 2**16):
        layer = causal(torch.float32, block_size=math.isqrt(length))
        state = layer.init_state(1, max_len=length)
        state = state._replace(length=state.length + length - 1)
        counter = Elements()
        with library.switched_off(), counter:  # kernels cannot be counted
            layer.step(x, state)
        sizes[length] = counter.total
    assert sizes[2**16] < 20 * sizes[2**8]  # 256 times the keys
    assert sizes[2**16] - sizes[2**12] < 5 * (sizes[2**12] - sizes[2**8])  # 4 times per factor of 16


class Elements(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts elements of the results of all operators that compute or copy, without views and in-place writes."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor._base is None and not func._schema.is_mutable:
                self.total += tensor.numel() * (not func.is_view)
        return out


class TestBadInput:
    def test_a_layer_that_sees_the_future(self):
        layer = nacre.NAC(8, 2)
        with pytest.raises(ValueError, match="init_state needs a causal layer.*causal=True"):
            layer.init_state(1)
        with pytest.raises(ValueError, match="step needs a causal layer.*causal=True"):
            layer.step(torch.randn(1, 8), causal().init_state(1))

    def test_another_batch_size(self):
        layer = causal()
        with pytest.raises(ValueError, match=r"state is of 3 streams but x has 2 rows.*init_state\(2\)"):
            layer.step(torch.randn(2, 8).double(), layer.init_state(3))

    def test_time_going_backwards(self):
        layer = causal()
        x, _ = data(layer, 2, 2)
        _, state = layer.step(x[:, 0], layer.init_state(2), time=torch.tensor([5.0, 6.0]))
        with pytest.raises(ValueError, match=r"time goes backwards in stream 1: 5.5 after 6.0"):
            layer.step(x[:, 1], state, time=torch.tensor([5.0, 5.5]))
        y, _ = layer.step(x[:, 1], state, time=torch.tensor([5.0, 6.0]))  # at the same time is fine
        assert y.isfinite().all()
        layer.step(x[:, 1], state.reset(1), time=torch.tensor([5.0, 1.0]))  # and so is a new beginning

    def test_overflow(self):
        layer = causal()
        x, _ = data(layer, 2, 8)
        _, state = run(layer, layer.init_state(2, max_len=8), x)
        with pytest.raises(ValueError, match=r"stream 0 already has max_len=8 steps.*overflow='slide'"):
            layer.step(x[:, 0], state)
        layer.step(x[:, 0], state.reset())

    def test_a_state_of_another_layer(self):
        state = causal().init_state(1)
        with pytest.raises(ValueError, match="another layer, or the weights have changed"):
            causal().step(torch.randn(1, 8).double(), state)
        with pytest.raises(ValueError, match="another layer: it holds 2 heads of 4, this layer has 4 of 2"):
            nacre.NAC(8, 4, causal=True).step(torch.randn(1, 8), state)

    def test_time_at_some_steps_only(self):
        layer = causal()
        x, time = data(layer, 1, 2)
        _, state = layer.step(x[:, 0], layer.init_state(1))
        with pytest.raises(ValueError, match="goes on with time after steps without time"):
            layer.step(x[:, 1], state, time=time[:, 1])
        _, state = layer.step(x[:, 0], layer.init_state(1), time=time[:, 0])
        with pytest.raises(ValueError, match="goes on without time after steps with time"):
            layer.step(x[:, 1], state)

    @pytest.mark.parametrize(
        ("x", "time", "message"),
        [
            (torch.randn(1, 3, 8), None, r"one step of each stream, \[batch, 8\].*use forward"),
            (torch.randn(1, 7), None, "x must have 8 numbers"),
            (torch.randn(1, 8), torch.zeros(1, 1), r"time must have shape \(1,\)"),
            (torch.randn(1, 8), torch.tensor([torch.nan]), "time must be finite"),
        ],
    )
    def test_shapes_and_values(self, x, time, message):
        layer = causal(torch.float32)
        with pytest.raises(ValueError, match=message):
            layer.step(x, layer.init_state(1), time=time)

    def test_types(self):
        layer = causal(torch.float32)
        with pytest.raises(TypeError, match="state must be a StreamState from init_state, got dict"):
            layer.step(torch.randn(1, 8), {})
        with pytest.raises(TypeError, match="real time stamps"):
            layer.step(torch.randn(1, 8), layer.init_state(1), time=1.0)
        with pytest.raises(TypeError, match="x has dtype torch.float64"):
            layer.step(torch.randn(1, 8).double(), layer.init_state(1))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"batch_size": 0}, "batch_size must be at least 1"),
            ({"batch_size": 1, "max_len": 0}, "max_len must be at least 1"),
            ({"batch_size": 1, "overflow": "wrap"}, "overflow must be one of 'error', 'slide'"),
        ],
    )
    def test_init_state(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            causal().init_state(**arguments)
