"""A streamed step by one kernel: the same as in PyTorch, as long as the layer is what was laid out."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

import nacre
from nacre.layer.streaming import plan as step_plan
from nacre.native import library
from support.cases import PLUS

KERNEL = {
    "default": {},
    "plus": PLUS,
    "start": {"match": "start", "mode": "euler", "clock": 1, "time_scale": 0.3},
    "steady": {"mode": "steady", "integrate": False, "bias": False},
    "shared": {"share_backbone": True, "phi": "tanh", "d_input": 3},
    "random": {"wiring": "random", "sensory_activation": "relu"},
    "near only": {"near": 4, "top_k": 4},
    "reach": {"near": 1, "top_k": 7, "reach": 15, "match": "content"},
}
TORCH = {
    "exact": {"selection": "exact"},
    "all pairs": {"top_k": None},
    "rhythm": {"match": "both"},
    "gelu": {"activation": "gelu"},
    "sensory gelu": {"sensory_activation": "gelu"},
}


def causal(dtype=torch.float64, **options):
    torch.manual_seed(0)
    layer = nacre.NAC(8, 2, causal=True, **({"backbone_units": 12, "block_size": 5} | options)).to(dtype).eval()
    for x in layer.parameters():  # shifts and biases count
        x.data += 0.1 * torch.randn_like(x)
    return layer


def data(layer, batch=3, length=17):
    x = torch.randn(batch, length, layer.config.width, dtype=layer.out_proj.weight.dtype)
    return x, torch.rand(batch, length, dtype=torch.float64).cumsum(1)


def run(layer, state, x, time=None):
    outputs = []
    for i in range(x.shape[1]):
        y, state = layer.step(x[:, i], state, time=None if time is None else time[:, i])
        outputs.append(y)
    return torch.stack(outputs, 1), state


def plan(layer):
    return step_plan._KEPT[layer].plan


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", KERNEL)
def test_outputs_and_memory_are_those_of_pytorch(name, dtype, timed):
    layer = causal(dtype, **KERNEL[name])
    x, time = data(layer)
    time = time if timed else None
    start = layer.init_state(3, max_len=9, overflow="slide")
    y, state = run(layer, start.clone(), x, time)
    assert plan(layer) is not None
    with library.switched_off():
        expected, wanted = run(layer, start, x, time)
    near = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 1e-5}
    torch.testing.assert_close(y, expected, **near)
    for part, other in zip(state, wanted, strict=True):
        torch.testing.assert_close(part, other, equal_nan=True, **near)


@pytest.mark.parametrize("name", TORCH)
def test_what_the_kernel_does_not_know_goes_by_pytorch(name):
    layer = causal(**TORCH[name])
    x, _ = data(layer, length=3)
    y, _ = run(layer, layer.init_state(3), x)
    assert plan(layer) is None
    torch.testing.assert_close(y, layer(x), rtol=0, atol=1e-12)


def test_a_stream_gives_the_same_bits_alone_and_on_any_number_of_threads():
    layer = causal(torch.float32, **PLUS)
    x, time = data(layer, batch=70)
    y, _ = run(layer, layer.init_state(70), x, time)
    torch.set_num_threads(2)
    assert torch.equal(y, run(layer, layer.init_state(70), x, time)[0])
    for row in (0, 33, 69):
        some = slice(row, row + 1)
        assert torch.equal(y[some], run(layer, layer.init_state(1), x[some], time[some])[0])


def scaled(layer):
    with torch.no_grad():
        layer.out_proj.weight *= 2


def unseen(layer):
    for x in layer.parameters():
        x.data *= 1.5  # which counts as no change


def swapped(layer):
    layer.time_gate.bias = nn.Parameter(torch.randn_like(layer.time_gate.bias))


def exchanged(layer):
    layer.query_gate = copy.deepcopy(layer.key_gate)


def hooked(layer):
    layer.value_gate.register_forward_hook(lambda module, args, output: -output)


def parametrized(layer):
    nn.utils.parametrizations.weight_norm(layer.out_proj)
    with torch.no_grad():
        layer.out_proj.parametrizations.weight.original0 *= 3


@pytest.mark.parametrize("change", [scaled, unseen, swapped, exchanged, hooked, parametrized])
def test_a_changed_layer_is_laid_out_anew(change):
    layer = causal()
    x, time = data(layer)
    before, _ = run(layer, layer.init_state(3), x, time)
    change(layer)
    after, _ = run(layer, layer.init_state(3), x, time)
    assert (after - before).abs().max() > 1e-3
    torch.testing.assert_close(after, layer(x, time=time), rtol=0, atol=1e-12)
    again = copy.deepcopy(layer) if change is not parametrized else layer
    torch.testing.assert_close(run(again, again.init_state(3), x, time)[0], after, rtol=0, atol=1e-12)


def test_a_refused_step_writes_nothing():
    layer = causal()
    x, time = data(layer, length=6)
    _, state = run(layer, layer.init_state(3, max_len=6), x[:, :5], time[:, :5])
    kept = state.clone()
    late = time[:, 5].clone()
    late[1] = time[1, 4] - 1
    late_messages = {
        "time goes backwards in stream 1": late,
        "time must be finite": late.clone().fill_(float("nan")),
        "goes on without time after steps with time": None,
    }
    for message, stamps in late_messages.items():
        with pytest.raises(ValueError, match=message):
            layer.step(x[:, 5], state, time=stamps)
    _, full = layer.step(x[:, 5], state.clone(), time=time[:, 5])
    with pytest.raises(ValueError, match="stream 0 already has max_len=6 steps"):
        layer.step(x[:, 5], full, time=time[:, 5])
    unseen(layer)
    with pytest.raises(ValueError, match="the weights have changed since init_state"):
        layer.step(x[:, 5], state, time=time[:, 5])
    for part, other in zip(state, kept, strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=0, equal_nan=True)


def test_a_subclass_may_do_more_so_it_goes_by_pytorch():
    class Louder(type(causal().query_gate)):
        def forward(self, u):
            return 2 * super().forward(u)

    layer = causal()
    layer.query_gate.__class__ = Louder
    x, time = data(layer)
    y, _ = run(layer, layer.init_state(3), x, time)
    assert plan(layer) is None
    torch.testing.assert_close(y, layer(x, time=time), rtol=0, atol=1e-12)


def test_a_memory_with_gaps_goes_by_pytorch():
    layer = causal()
    x, _ = data(layer, length=3)
    _, state = run(layer, layer.init_state(3), x[:, :2])
    gaps = state.clone()._replace(stamp=state.stamp.transpose(1, 2).contiguous().transpose(1, 2))
    y, _ = layer.step(x[:, 2], gaps)
    torch.testing.assert_close(y, layer.step(x[:, 2], state)[0])


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: {"value": s.value[:, :, :1].contiguous()},
        lambda s: {"centroid": s.centroid[:, :, :1].contiguous()},
        lambda s: {"offered": s.offered[..., :1].contiguous()},
        lambda s: {"origin": s.origin[:1]},
        lambda s: {"owner": s.owner[:3]},
        lambda s: {"stamp": s.stamp.float()},
        lambda s: {"length": s.length.int()},
        lambda s: {"stamp": s.stamp[:, :0].contiguous()},
    ],
)
def test_a_damaged_memory_never_reaches_the_kernel(damage, monkeypatch):
    layer = causal(match="content")
    x, time = data(layer, length=3)
    _, state = run(layer, layer.init_state(3, max_len=20), x[:, :2], time[:, :2])
    monkeypatch.setattr(step_plan, "run_step", lambda *_: pytest.fail("the kernel was called"))
    assert step_plan.step_by_kernel(layer, x[:, 2], state._replace(**damage(state)), time[:, 2]) is None


def test_a_negative_length_is_refused_before_anything_is_written():
    layer = causal()
    x, _ = data(layer, length=1)
    state = layer.init_state(3)
    state.length[1] = -7
    kept = state.clone()
    assert step_plan.step_by_kernel(layer, x[:, 0], state, None) is None
    for part, other in zip(state, kept, strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=0, equal_nan=True)


def test_plans_end_with_their_layers():
    layer = causal()
    run(layer, layer.init_state(1), data(layer, 1, 1)[0])
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None
