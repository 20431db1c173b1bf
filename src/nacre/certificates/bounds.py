"""`certify`: whether the theorems hold for a NAC layer on given inputs, and all of its neurons take part."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from nacre._util.checks import real
from nacre.certificates.certificate import Certificate, HeadCertificate, InputFinding
from nacre.certificates.neurons import Measures, computed_neurons, judge_neurons, measure_neurons
from nacre.layer.attention import NAC
from nacre.layer.config import Match, NACConfig, Phi
from nacre.layer.dynamics import Mode, convergence_time
from nacre.layer.inputs import prepare, sequence, time_stamps
from nacre.layer.trace import Trace
from nacre.native.activations import ACTIVATIONS

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
    row = config.num_heads * length * columns * (layer.backbone.wiring.num_neurons + 2 * config.clock)
    size = max(1, _CHUNK_ELEMENTS // row)
    return (slice(i, i + size) for i in range(0, len(x), size))


def _measure_heads(layer: NAC, trace: Trace, valid: Tensor, delta: float) -> Measures:
    """[H] numbers of a chunk."""
    over = (0, 2, 3)
    phi, logits = trace.phi, trace.logits
    omega = trace.omega.masked_fill(~valid, 1)  # columns without a key hold 0
    start = torch.zeros_like(phi)
    if layer.config.match == Match.START and trace.match is not None:
        start = trace.match
    low, high = logit_bounds(phi, omega, start)
    slack = rounding(layer.config, logits.dtype) * torch.maximum(low.abs(), high.abs())
    slack = slack + torch.finfo(logits.dtype).tiny
    inside = (logits >= low - slack) & (logits <= high + slack) & logits.isfinite()
    needed = convergence_time(phi, omega, delta, start)  # by Euler's steps no later, for there r <= e^(-omega t)
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
    for name in ("phi", "omega", "t", "match", "effect", "logits"):
        if (values := getattr(trace, name)) is not None:
            found[name, "min"] = values.masked_fill(~valid, math.inf).amin(over)
            found[name, "max"] = values.masked_fill(~valid, -math.inf).amax(over)
    return found


def logit_bounds(phi: Tensor, omega: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Interval in which a logit is at all times, in every mode.

    Exact and Euler logits are a = r start + (1 - r) phi / omega with r = e^(-omega t), or r = (1 - omega t / n)^n
    where n >= omega t: r lies in [0, 1], so a lies between start and phi / omega. It cannot be narrower: r is 1 at
    t = 0, and tends to 0. Steady logits are phi / omega.

    Example:
        >>> logit_bounds(torch.tensor([2.0, 2.0]), torch.tensor([4.0, 1.0]), torch.tensor([1.5, -3.0]))
        (tensor([ 0.5000, -3.0000]), tensor([1.5000, 2.0000]))
    """
    rest = phi / omega
    return torch.minimum(start, rest), torch.maximum(start, rest)


def rounding(config: NACConfig, dtype: torch.dtype) -> float:
    """Share of its larger bound by which rounding may carry a logit out of its bounds."""
    if dtype == torch.float64:
        return 1e-12
    # The power of Euler's r multiplies the rounding of its base by n. Only for omega t below 0.5, where n is
    # euler_steps, is 1 - r not computed from that same r.
    steps = config.euler_steps if config.match == Match.START and config.mode == Mode.EULER else 0
    return (4 + steps) * torch.finfo(torch.float32).eps


def _limit(layer: NAC, head: int) -> float:
    """Largest size of a logit of a head, whatever the inputs.

    From 0, |a| <= |phi| min(t, 1 / omega), where t < 1 and omega >= omega_min.

    From elsewhere |a| <= r |start| + (1 - r) |phi| / omega, with r as in `logit_bounds`. That falls with omega: r
    does, and so does (1 - r) / omega, for 1 - r is concave in omega and 0 at 0. (Where omega t > n = euler_steps,
    Euler takes more steps and r may rise again. But then the mean is at most |start|, or at most |phi| / omega,
    which is less than its value where omega t = n.) So omega_min is worst. With t it goes from |start| towards
    |phi| / omega_min, so it is largest at t = 0 or t = 1.
    """
    config = layer.config
    content = _motor_limit(layer, head, 0) if config.phi == Phi.LINEAR else 1.0
    match = 0.0 if layer.match is None else layer.match.gain[:, head].sum().item()
    if config.match == Match.START:
        slowest, steps = config.omega_min, config.euler_steps
        left = math.exp(-slowest) if config.mode == Mode.EXACT else max(0.0, 1 - slowest / steps) ** steps
        return max(match, left * match + (1 - left) * content / slowest)
    longest = math.inf if config.mode == Mode.STEADY else 1.0
    return (content + match) * min(longest, 1 / config.omega_min)


def _motor_limit(layer: NAC, head: int, motor: int) -> float:
    """Largest size of what a motor neuron of a head gives, whatever the inputs."""
    weights, own = layer.backbone.weights, 0 if layer.config.share_backbone else head
    shift = 0.0 if weights.output_shift is None else weights.output_shift[own, motor].abs().item()
    return ACTIVATIONS[layer.config.activation].limit * weights.output_scale[own, motor].abs().item() + shift


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
        effect=span("effect") if layer.config.inhibition else None,
        logits=span("logits"),
        bounds=span("bounds"),
        limit=_limit(layer, head),
        effect_limit=1 + _motor_limit(layer, head, 2) if layer.config.inhibition else 1.0,
        violations=int(number("violations")),
        time_to_delta=number("needed", "max"),
        arrived=number("arrived") / pairs,
        keys_mean=number("keys") / number("queries"),
        keys_min=number("keys", "min"),
    )
