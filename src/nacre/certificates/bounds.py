"""`certify`: whether the theorems hold for a NAC layer on given inputs, and all of its neurons take part."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nacre._util.checks import real
from nacre.certificates.certificate import Certificate, HeadCertificate, InputFinding
from nacre.certificates.neurons import Measures, computed_neurons, judge_neurons, measure_neurons
from nacre.layer.attention import NAC
from nacre.layer.config import Phi
from nacre.layer.dynamics import Mode, convergence_time, state_bounds
from nacre.layer.inputs import prepare, sequence, time_stamps
from nacre.layer.trace import Trace

_CHUNK_ELEMENTS = 2**22  # neuron states traced at a time
_POSITIONS = 5  # of NaN that are reported
_MERGE = {"min": torch.minimum, "max": torch.maximum, "sum": torch.add}


@torch.no_grad()
def certify(
    layer: NAC,
    x: Tensor,
    time: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    *,
    delta: float = 0.01,
) -> Certificate:
    """Run a layer on inputs and check its theorems, its neurons and the inputs.

    The layer runs in evaluation mode and is left as it was. A neuron counts as dead if its state does not
    change over these inputs, so give inputs that vary as real ones do.

    Args:
        layer: A NAC layer.
        x: [B, T, d_input] sequences for self attention.
        time: [B, T] time stamps, or [T] for all sequences.
        key_padding_mask: [B, T] bool, True = padding.
        delta: Distance to their limit for which the settling times of the logits are given, > 0.

    Example:
        >>> certificate = certify(NAC(16, 2), torch.randn(4, 20, 16))
        >>> certificate.ok, certificate.heads[0].bounds_hold, certificate.dead
        (True, True, ())
    """
    if not isinstance(layer, NAC):
        raise TypeError(_no_nac(layer))
    delta = real("delta", delta, 0.0, math.inf, open_low=True)
    padding, inputs, left_out = _clean(layer, x, time, key_padding_mask)
    training = [(m, m.training) for m in layer.modules()]
    layer.eval()
    try:
        seen: Measures = {}
        for rows in _chunks(layer, x):
            stamps = None if time is None else time_stamps("time", time, (x.shape[0], x.shape[1]))[rows]
            _, trace = layer(x[rows], time=stamps, key_padding_mask=padding[rows], return_trace=True)
            steps = ~padding[rows]
            valid = trace.valid & steps[:, None, :, None]  # the trace also holds pairs of padded queries
            found = _measure_heads(layer, trace, valid, delta) | measure_neurons(layer, trace, valid, steps)
            seen = {k: _MERGE[k[1]](seen[k], v) for k, v in found.items()} if seen else found
    finally:
        for module, flag in training:
            module.training = flag
    seen = {k: v.cpu() for k, v in seen.items()}
    heads = tuple(_head(layer, seen, h) for h in range(layer.config.num_heads))
    dead, saturated = judge_neurons(layer, seen)
    return Certificate(
        heads=heads,
        dead=dead,
        saturated=saturated,
        left_out=layer.backbone.wiring.num_neurons - len(computed_neurons(layer)),
        inputs=inputs,
        steps_left_out=left_out,
        bad_parameters=tuple(name for name, p in layer.named_parameters() if not p.isfinite().all()),
        delta=delta,
        sequences=int((~padding).any(1).sum()),
        pairs=sum(h.pairs for h in heads),
    )


def _no_nac(layer: object) -> str:
    modules = layer.named_modules() if isinstance(layer, torch.nn.Module) else ()
    inside = [name for name, module in modules if isinstance(module, NAC)]
    hint = f"; certify its layers one by one: {', '.join(inside)}" if inside else " and holds no NAC layer"
    return f"layer must be a nacre.NAC, but it is a {type(layer).__name__}{hint}"


def _clean(
    layer: NAC, x: Tensor, time: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, tuple[InputFinding, ...], int]:
    """Steps to leave out [B, T], what is not finite, and the number of steps that are not finite."""
    weight = layer.out_proj.weight
    sequence("x", x, layer.config.width, weight)
    inputs = prepare(layer.config, weight, x, None, None, time, None, mask)  # padding now holds zeros
    bad = {"x": ~inputs.query.isfinite()}
    if inputs.stamps is not None:
        bad["time"] = ~inputs.stamps[0].isfinite().unsqueeze(-1)
    findings = []
    wrong = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    for name, where in bad.items():
        steps = where.any(-1)
        wrong |= steps
        if count := int(where.sum()):
            positions = tuple((int(row), int(step)) for row, step in steps.nonzero()[:_POSITIONS])
            findings.append(InputFinding(name, count, int(steps.sum()), positions))
    padding = wrong if mask is None else wrong | mask
    if padding.all():
        causes = ["key_padding_mask covers"] if mask is not None else []
        causes += [f"{f.argument} is NaN or infinite in" for f in findings]
        raise ValueError(f"nothing is left to certify: {' or '.join(causes)} every step of every sequence")
    return padding, tuple(findings), int(wrong.sum())


def _chunks(layer: NAC, x: Tensor) -> Iterator[slice]:
    """Slices of the batch whose traces are small enough."""
    config, length = layer.config, x.shape[1]
    columns = length if config.top_k is None else config.top_k
    row = config.num_heads * length * columns * layer.backbone.wiring.num_neurons
    size = max(1, _CHUNK_ELEMENTS // row)
    return (slice(i, i + size) for i in range(0, len(x), size))


def _measure_heads(layer: NAC, trace: Trace, valid: Tensor, delta: float) -> Measures:
    """[H] numbers of a chunk."""
    over = (0, 2, 3)
    phi, logits = trace.phi, trace.logits
    omega = trace.omega.masked_fill(~valid, 1)  # columns without a key hold 0
    low, high = state_bounds(phi.unsqueeze(-1), omega.unsqueeze(-1))
    slack = 1e-12 if logits.dtype == torch.float64 else 4 * torch.finfo(torch.float32).eps
    slack = slack * torch.maximum(-low, high) + torch.finfo(logits.dtype).tiny
    inside = (logits >= low - slack) & (logits <= high + slack) & logits.isfinite()
    needed = convergence_time(phi, omega, delta)
    arrived = valid
    if trace.t is not None and layer.config.mode != Mode.STEADY:
        arrived = valid & (trace.t >= needed)
    asked = valid.any(-1)  # [B, H, T] queries with a key
    keys = torch.special.entr(trace.weights.double()).sum(-1).exp()
    found = {
        ("pairs", "sum"): valid.sum(over),
        ("violations", "sum"): (valid & ~inside).sum(over),
        ("arrived", "sum"): arrived.sum(over),
        ("needed", "max"): needed.masked_fill(~valid, 0).amax(over),
        ("queries", "sum"): asked.sum((0, 2)),
        ("keys", "sum"): keys.where(asked, 0).sum((0, 2)),
        ("keys", "min"): keys.masked_fill(~asked, math.inf).amin((0, 2)),
        ("bounds", "min"): low.masked_fill(~valid, math.inf).amin(over),
        ("bounds", "max"): high.masked_fill(~valid, -math.inf).amax(over),
    }
    for name in ("phi", "omega", "t", "match", "logits"):
        if (values := getattr(trace, name)) is not None:
            found[name, "min"] = values.masked_fill(~valid, math.inf).amin(over)
            found[name, "max"] = values.masked_fill(~valid, -math.inf).amax(over)
    return found


def _limit(layer: NAC, head: int) -> float:
    """Largest size of a logit of a head: |a| <= |phi| min(t, 1 / omega), t < 1 and omega >= omega_min."""
    config, weights = layer.config, layer.backbone.weights
    content = 1.0
    if config.phi == Phi.LINEAR:
        neuron = 1.0 if config.activation in ("tanh", "sigmoid", "softsign") else math.inf
        own = 0 if config.share_backbone else head
        shift = 0.0 if weights.output_shift is None else weights.output_shift[own, 0].abs().item()
        content = neuron * weights.output_scale[own, 0].abs().item() + shift
    if layer.match is not None:
        content += layer.match.gain[:, head].sum().item()
    longest = math.inf if config.mode == Mode.STEADY else 1.0
    return content * min(longest, 1 / config.omega_min)


def _head(layer: NAC, seen: Measures, head: int) -> HeadCertificate:
    def number(what: str, how: str = "sum") -> float:
        return seen[what, how][head].item()

    def span(what: str) -> tuple[float, float]:
        return number(what, "min"), number(what, "max")

    pairs = int(number("pairs"))
    return HeadCertificate(
        pairs=pairs,
        phi=span("phi"),
        omega=span("omega"),
        t=None if layer.time_gate is None else span("t"),
        match=None if layer.match is None else span("match"),
        logits=span("logits"),
        bounds=span("bounds"),
        limit=_limit(layer, head),
        violations=int(number("violations")),
        time_to_delta=number("needed", "max"),
        arrived=number("arrived") / pairs,
        keys_mean=number("keys") / number("queries"),
        keys_min=number("keys", "min"),
    )
