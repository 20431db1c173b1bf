"""What the tests of lesions have in common."""

from dataclasses import fields

import numpy as np
import torch
from torch import nn

import nacre
from nacre.inspect import lesioned
from nacre.layer.pairs import PHI
from nacre.native.activations import ACTIVATIONS

WIDTH, HEADS, STEPS = 16, 2, 14
EACH = WIDTH // HEADS


def layer_of(seed=0, **options):
    """A layer none of whose numbers is 0 or 1 by accident, in float64 for the sake of comparison."""
    torch.manual_seed(seed)
    layer = nacre.NAC(WIDTH, HEADS, **{"dtype": torch.float64, **options}).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return layer


def inputs(dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, STEPS, WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    return x, torch.rand(2, STEPS, generator=generator).cumsum(1)


def run(layer, **more):
    x, time = inputs(layer.out_proj.weight.dtype)
    with torch.no_grad():
        return layer(x, time=time, return_trace=True, **more)


def state_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same_trace(a, b, heads=slice(None)):
    """Whether two traces are equal bit by bit, in some heads."""
    names = [f.name for f in fields(a) if f.name != "wiring"]
    pairs = [(getattr(a, name), getattr(b, name)) for name in names]
    assert all((x is None) == (y is None) for x, y in pairs)
    return all(torch.equal(x[:, heads], y[:, heads]) for x, y in pairs if x is not None)


def settle_with_silence(layer, head, u, silent):
    """States [..., N] and outputs [..., 2] of a head's circuit, stepped one by one with some neurons held at 0."""
    cell = layer.backbone.cell(head)
    weights = cell.weights
    feed = weights.input_weight.dense()[0].detach().numpy()
    scale = weights.input_scale.dense()[0].detach().numpy()
    recurrent = weights.recurrent()[0].detach().numpy()
    shift = bias = shift_out = 0.0
    if weights.bias is not None:
        shift, bias = (p.dense()[0].detach().numpy() for p in (weights.input_shift, weights.bias))
        shift_out = weights.output_shift[0].detach().numpy()
    act = ACTIVATIONS[layer.config.activation].function
    u, x = u.numpy(), np.zeros((*u.shape[:-1], layer.backbone.wiring.num_neurons))
    for _ in range(layer.backbone.settle_steps):
        x = act(torch.from_numpy((u * scale + shift) @ feed + x @ recurrent + bias)).numpy()
        x[..., list(silent)] = 0.0
    motor = x[..., list(layer.backbone.outputs)]
    return x, motor * weights.output_scale[0].detach().numpy() + shift_out


def clock_of(layer, key_stamps, query_stamps):
    """States [T, K, 2n] of clock neurons: cosines, then sines, at n scales four apart."""
    count = layer.config.clock
    scales = layer.config.time_scale * 4.0 ** (np.arange(count) - count // 2)
    angle = (query_stamps[:, None, None] - key_stamps[..., None]) / scales
    return np.concatenate([np.cos(angle), np.sin(angle)], -1)


def reference(layer, trace, silent_of_head):
    """phi, omega and the output of a layer from the sensory states of a trace, the slow way.

    Silent are neurons of the circuit by their number, and clock neurons by a name such as "clock 3".
    """
    config = layer.config
    stamps = inputs()[1].double().numpy()
    batch, heads, _, columns = trace.index.shape
    phi, omega = torch.zeros_like(trace.phi), torch.zeros_like(trace.omega)
    for b in range(batch):
        for h in range(heads):
            key = trace.key[b, h][trace.index[b, h]]  # [T, K, D]
            query = trace.query[b, h].unsqueeze(1).expand(-1, columns, -1)
            weights = 0 if config.share_backbone else h
            clock = clock_of(layer, stamps[b][trace.index[b, h]], stamps[b])
            clock[..., [int(name.split()[1]) for name in silent_of_head[h] if isinstance(name, str)]] = 0.0
            u = torch.cat([query, key, torch.from_numpy(clock)], -1)
            silent = [neuron for neuron in silent_of_head[h] if not isinstance(neuron, str)]
            _, z = settle_with_silence(layer, weights, u, silent)
            z = torch.from_numpy(z)
            phi[b, h] = PHI[config.phi](z[..., 0])
            omega[b, h] = nn.functional.softplus(z[..., 1]) + config.omega_min
    start = trace.match if config.match == "start" else None
    logits = nacre.functional.solve_logits(phi, omega, trace.t, config.mode, a0=start)
    weights = logits.masked_fill(~trace.valid, -torch.inf).softmax(-1)
    value = torch.stack(
        [torch.stack([trace.value[b, h][trace.index[b, h]] for h in range(heads)]) for b in range(batch)]
    )
    share = weights * trace.t if config.integrate else weights
    mixed = (share.masked_fill(~trace.valid, 0).unsqueeze(-1) * value).sum(3)  # [B, H, T, D]
    with torch.no_grad():
        y = layer.out_proj(mixed.transpose(1, 2).flatten(2))
    return phi.masked_fill(~trace.valid, 0), omega.masked_fill(~trace.valid, 0), y


def ids_of(layer, group, index=None):
    if group == "clock":
        ids = [f"clock {i}" for i in range(2 * layer.config.clock)]
    else:
        ids = layer.backbone.wiring.group(group)
    return ids if index is None else (ids[index],)


LONELY = 2  # speaks to nobody


def odd_wiring():
    """Groups in no order; motor neurons speak back, to each other and to themselves; one is unheard."""
    groups = ("motor", "command", "inter", "inter", "command", "motor", "inter")
    adjacency = np.zeros((7, 7), np.int8)
    heard = "31 34 64 61 10 40 45 14 41 05 50 03 55"  # source and target
    for number, (source, target) in enumerate(heard.split()):
        adjacency[int(source), int(target)] = 1 if number % 3 else -1
    adjacency[4, LONELY] = 1
    feeds = np.zeros((2 * EACH, 7), np.int8)
    feeds[:, [2, 3, 6]] = 1
    feeds[::3, 0] = -1
    return nacre.Wiring(adjacency, feeds, groups)


def assert_like_the_slow_way(layer, lesion):
    before, plain = run(layer)
    y, trace = run(lesioned(layer, [lesion]))
    silent = set(ids_of(layer, lesion.group, lesion.index))
    everywhere = lesion.head is None or layer.config.share_backbone
    heads = [silent if everywhere or h == lesion.head else () for h in range(HEADS)]
    assert torch.equal(plain.index, trace.index)
    phi, omega, out = reference(layer, plain, heads)
    for got, want in ((trace.phi, phi), (trace.omega, omega), (y, out)):
        case = f"{lesion}, {layer.config}"
        torch.testing.assert_close(got, want, atol=1e-9, rtol=0, msg=lambda text, case=case: f"{case}: {text}")
    return before, plain, y, trace
