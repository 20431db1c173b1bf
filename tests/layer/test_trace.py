"""The trace is what the forward pass did, not a second story."""

from dataclasses import FrozenInstanceError

import pytest
import torch

import nacre
from nacre.layer import pairs
from nacre.native import library
from support.cases import combinations


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
OPTIONS += [{"match": "both"}, {"activation": "gelu"}]


@pytest.mark.parametrize(("options", "chunk", "kernels"), combinations(OPTIONS, [2**21, 2**13], [True, False]))
def test_the_trace_is_bit_by_bit_what_a_plain_forward_computes(options, chunk, kernels, monkeypatch):
    """Of one chunk and of many, with padding, by the kernels and by PyTorch."""
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", chunk)
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    layer = nacre.NAC(18, 2, **options).eval()
    x, time = torch.randn(3, 37, 18), torch.rand(3, 37).cumsum(1)
    padding = torch.zeros(3, 37, dtype=torch.bool)
    padding[1, 20:] = True
    plain = []
    solve = pairs.solve_gates
    monkeypatch.setattr(pairs, "solve_gates", lambda *args: plain.append(solve(*args)) or plain[-1])
    with torch.no_grad():
        y = layer(x, time=time, key_padding_mask=padding)
        monkeypatch.undo()
        monkeypatch.setattr(pairs, "CHUNK_NUMBERS", chunk)
        if not kernels:
            monkeypatch.setattr(library, "runs", lambda *tensors: False)
        seen, trace = layer(x, time=time, key_padding_mask=padding, return_trace=True)
    assert torch.equal(y, seen)
    kept = (~padding).flatten()
    valid = trace.valid.transpose(0, 1).flatten(1, 2)[:, kept]
    assert valid.any()
    assert (len(plain) > 1) == (chunk < 2**20)
    for name in ("phi", "omega", "t", "match", "logits", "weights"):
        if getattr(plain[0], name) is None:
            assert getattr(trace, name) is None
            continue
        want = torch.cat([getattr(gates, name) for gates in plain], 1)
        assert torch.equal(want[valid], getattr(trace, name).transpose(0, 1).flatten(1, 2)[:, kept][valid]), name


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
