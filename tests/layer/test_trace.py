"""The trace is what the forward pass did, not a second story."""

from dataclasses import FrozenInstanceError

import pytest
import torch

import nacre
from nacre.layer import pair_stage, pairs
from nacre.layer import trace as trace_module
from nacre.native import library
from support.cases import PLUS, combinations


@pytest.fixture
def seen():
    layer = nacre.NAC(16, 2, dtype=torch.float64, causal=True)
    x = torch.randn(3, 12, 16, dtype=torch.float64)
    time = torch.rand(3, 12).cumsum(1)
    padding = torch.zeros(3, 12, dtype=torch.bool)
    padding[1, 5:] = True
    y, trace = layer(x, time=time, key_padding_mask=padding, return_trace=True)
    return layer, x, time, padding, y, trace


def test_tracing_changes_no_bit(seen):
    layer, x, time, padding, y, _ = seen
    assert torch.equal(y, layer(x, time=time, key_padding_mask=padding))


def test_shapes_and_zeros(seen):
    layer, *_, trace = seen
    shape = (3, 2, 12, 8)
    for name in ("phi", "omega", "t", "logits", "weights", "index", "valid"):
        values = getattr(trace, name)
        assert values.shape == shape, name
        assert (values[~trace.valid] == 0).all(), name
    for group in ("inter", "command", "motor"):
        states = getattr(trace, group)
        assert states.shape == (*shape, len(layer.backbone.wiring.group(group)))
        assert (states[~trace.valid] == 0).all()
        assert (states[trace.valid] != 0).all()
    for name in ("query", "key", "value"):
        assert getattr(trace, name).shape == (3, 2, 12, 8)
    with pytest.raises(FrozenInstanceError):
        trace.phi = None


def test_the_output_follows_from_the_trace(seen):
    layer, *_, padding, y, trace = seen
    value = trace.value.gather(2, trace.index.flatten(2)[..., None].expand(-1, -1, -1, 8)).unflatten(2, (12, 8))
    heads = ((trace.weights * trace.t)[..., None] * value).sum(3)
    out = layer.out_proj(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(y, out.masked_fill(padding[..., None], 0))


def test_gates_follow_from_the_neurons(seen):
    layer, _, _time, _, _, trace = seen
    net, wiring, valid = layer.backbone.weights, layer.backbone.wiring, trace.valid
    for h in range(2):
        rec, bias = net.recurrent_weight.dense()[h], net.bias.dense()[h]
        motor, command, inter = (list(wiring.group(g)) for g in ("motor", "command", "inter"))
        on = valid[:, h]
        want = torch.tanh(trace.command[:, h] @ rec[command][:, motor] + bias[motor])
        torch.testing.assert_close(trace.motor[:, h][on], want[on])
        z = trace.motor[:, h] * net.output_scale[h] + net.output_shift[h]
        torch.testing.assert_close(trace.phi[:, h][on], torch.sigmoid(z[..., 0])[on])
        omega = torch.nn.functional.softplus(z[..., 1]) + 1e-3
        torch.testing.assert_close(trace.omega[:, h][on], omega[on])
        keys = trace.key[:, h].gather(1, trace.index[:, h].flatten(1)[..., None].expand(-1, -1, 8))
        queries = trace.query[:, h].unsqueeze(2).expand(-1, -1, 8, -1)
        u = torch.cat([queries, keys.unflatten(1, (12, 8))], -1)
        feed = net.input_weight.dense()[h][:, inter]
        want = torch.tanh((u * net.input_scale.dense()[h] + net.input_shift.dense()[h]) @ feed + bias[inter])
        torch.testing.assert_close(trace.inter[:, h][on], want[on])
    torch.testing.assert_close(
        trace.logits[valid],
        nacre.functional.solve_logits(trace.phi, trace.omega, trace.t, "exact")[valid],
    )
    assert ((trace.t[valid] > 0) & (trace.t[valid] < 1)).all()


@pytest.mark.parametrize("kernels", [True, False])
def test_clock_neurons_and_the_start_of_logits_are_in_the_trace(kernels, monkeypatch):
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    layer = nacre.NAC(8, 2, dtype=torch.float64, time_scale=0.5, **PLUS | {"mode": "euler"})
    x, time = torch.randn(2, 9, 8, dtype=torch.float64), torch.rand(2, 9, dtype=torch.float64).cumsum(1)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[1, 4:] = True  # fewer keys than columns
    y, trace = layer(x, time=time, key_padding_mask=padding, return_trace=True)
    assert torch.equal(y, layer(x, time=time, key_padding_mask=padding))
    assert trace.clock.shape == (2, 2, 9, 6, 6)
    assert (trace.clock[~trace.valid] == 0).all()
    elapsed = (time[:, None, :, None] - time[:, None, None].expand(2, 2, 9, 9).gather(3, trace.index)) / 0.5
    angle = elapsed[..., None] / torch.tensor([0.25, 1, 4])
    want = torch.cat([angle.cos(), angle.sin()], -1)
    torch.testing.assert_close(trace.clock[trace.valid], want[trace.valid])
    torch.testing.assert_close(
        trace.logits[trace.valid],
        nacre.functional.solve_logits(trace.phi, trace.omega, trace.t, "euler", a0=trace.match)[trace.valid],
    )
    assert nacre.NAC(8, 2)(x.float(), return_trace=True)[1].clock is None


def test_a_layer_without_time_gate_has_no_t():
    layer = nacre.NAC(8, 2, mode="steady", integrate=False)
    assert layer.time_gate is None
    _, trace = layer(torch.randn(1, 4, 8), return_trace=True)
    assert trace.t is None


def test_lesions_show_in_the_trace(seen):
    """Silence a command neuron's synapses onto a motor neuron: the motor neuron changes, inter neurons do not."""
    layer, x, time, padding, _, before = seen
    with torch.no_grad():
        rec = layer.backbone.weights.recurrent_weight
        target = rec.index % rec.shape[1]
        rec.weight[:, target == layer.backbone.wiring.group("motor")[0]] = 0
    _, after = layer(x, time=time, key_padding_mask=padding, return_trace=True)
    assert torch.equal(before.inter, after.inter)
    assert not torch.allclose(before.motor[..., 0], after.motor[..., 0])
    assert torch.equal(before.motor[..., 1], after.motor[..., 1])


OPTIONS = [{}, {"causal": True}, {"top_k": None}, {"mode": "steady", "integrate": False}, {"share_backbone": True}]
OPTIONS += [{"match": "both"}, {"activation": "gelu"}, PLUS]


GATES = ("phi", "omega", "t", "match", "effect", "clock", "logits", "weights")


@pytest.fixture
def gates_of(monkeypatch):
    """A function that runs something and returns its result and all gates it computed, in chunks of queries."""

    def run(action):
        made = []
        with monkeypatch.context() as patch:
            # In PyTorch all gates come from one function. The kernel shows them when asked; ask for all at once.
            solve, attend = pairs.solve_gates, pair_stage.attend_selected

            def attend_and_ask(learned, stage):
                y, (same, seen) = attend(learned, stage), pair_stage.attend_seen(learned, stage)
                assert torch.equal(y, same)
                made.append(seen)
                return y

            patch.setattr(pair_stage, "attend_selected", attend_and_ask)
            patch.setattr(pairs, "solve_gates", lambda *args: made.append(solve(*args)) or made[-1])
            return action(), made

    return run


@pytest.mark.parametrize(("options", "chunk", "kernels"), combinations(OPTIONS, [2**21, 2**12], [True, False]))
def test_the_trace_is_bit_by_bit_what_a_plain_forward_computes(options, chunk, kernels, monkeypatch, gates_of):
    """Of one chunk and of many, with padding, by the kernels and by PyTorch."""
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", chunk)
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    layer = nacre.NAC(18, 2, **options).eval()
    x, time = torch.randn(3, 37, 18), torch.rand(3, 37).cumsum(1)
    padding = torch.zeros(3, 37, dtype=torch.bool)
    padding[1, 20:] = True
    shown = []
    watch = trace_module.TraceBuilder.see
    monkeypatch.setattr(trace_module.TraceBuilder, "see", lambda *args: shown.append(args[1]) or watch(*args))
    with torch.no_grad():
        y, plain = gates_of(lambda: layer(x, time=time, key_padding_mask=padding))
        seen, trace = layer(x, time=time, key_padding_mask=padding, return_trace=True)
    assert torch.equal(y, seen)
    kept = (~padding).flatten()
    valid = trace.valid.transpose(0, 1).flatten(1, 2)[:, kept]
    assert valid.any()
    assert (len(shown) > 1) == (chunk < 2**20)
    for name in GATES:
        if getattr(trace, name) is None:
            assert getattr(plain[0], name) is None or not _exists(layer, name), name
            continue
        want = torch.cat([getattr(gates, name) for gates in plain], 1)
        assert torch.equal(want[valid], getattr(trace, name).transpose(0, 1).flatten(1, 2)[:, kept][valid]), name


def _exists(layer, gate):
    """Whether a layer has a gate; of those it has not, the kernel shows zeros."""
    config = layer.config
    there = {"t": layer.time_gate, "match": layer.match, "clock": config.clock or None}
    return (there | {"effect": config.inhibition or None})[gate] is not None


def test_neurons_of_the_kernel_are_those_of_pytorch(monkeypatch):
    layer = nacre.NAC(16, 2, dtype=torch.float64)
    x = torch.randn(2, 30, 16, dtype=torch.float64)
    _, fast = layer(x, return_trace=True)
    monkeypatch.setattr(library, "runs", lambda *tensors: False)
    _, slow = layer(x, return_trace=True)
    for group in ("inter", "command", "motor"):
        torch.testing.assert_close(getattr(fast, group), getattr(slow, group))


def test_gradients_flow_through_the_trace(monkeypatch):
    """A loss on neurons and gates has the gradients that PyTorch's own path gives."""
    layer = nacre.NAC(16, 2, dtype=torch.float64)
    x = torch.randn(2, 30, 16, dtype=torch.float64)

    def grads():
        layer.zero_grad()
        y, trace = layer(x, return_trace=True)
        (y.square().sum() + trace.omega.mean() + trace.inter.square().mean() + trace.command.sum()).backward()
        return [p.grad.clone() for p in layer.parameters()]

    fast = grads()
    monkeypatch.setattr(library, "runs", lambda *tensors: False)
    for a, b in zip(fast, grads(), strict=True):
        torch.testing.assert_close(a, b)


def test_padded_queries_are_zero_in_the_trace():
    layer = nacre.NAC(16, 2, selection="exact")
    padding = torch.zeros(2, 12, dtype=torch.bool)
    padding[0, 7:] = True
    _, trace = layer(torch.randn(2, 12, 16), key_padding_mask=padding, return_trace=True)
    assert not trace.valid[0, :, 7:].any()
    assert trace.valid[0, :, :7].any()
    assert trace.valid[1].any(-1).all()
    assert (trace.inter[0, :, 7:] == 0).all()
    assert (trace.phi[0, :, 7:] == 0).all()
