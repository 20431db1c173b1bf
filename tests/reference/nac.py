"""NAC written from the paper, one pair at a time: never fast, never imported by the library.

Reads the weights of a `nacre.NAC` layer, and nothing else of its code.
"""

import math

import torch

from reference.select import chosen_keys

ACTIVATION = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softsign": torch.nn.functional.softsign,
    "identity": lambda x: x,
}
PHI = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "linear": lambda x: x}


def table(masked, head):
    """A masked parameter as a dense table."""
    flat = [torch.zeros((), dtype=masked.weight.dtype)] * math.prod(masked.shape)
    for n, where in enumerate(masked.index.tolist()):
        flat[where] = masked.weight[head, n]
    return torch.stack(flat).view(masked.shape)


def algorithm_1(u, w_in, b_in, weight_in, weight_rec, b, act, steps):
    """x <- act(x W_rec + (u * w_in + b_in) W_in + b), from rest."""
    x = torch.zeros(weight_in.shape[1], dtype=u.dtype)
    for _ in range(steps):
        x = act(x @ weight_rec + (u * w_in + b_in) @ weight_in + b)
    return x


def or_zero(parameter, like):
    return torch.zeros_like(like) if parameter is None else parameter


def circuit(weights, u, head, act, steps, outputs):
    """One settled circuit with its input and output maps."""
    scale, weight = table(weights.input_scale, head), table(weights.input_weight, head)
    n = weight.shape[1]
    shift = torch.zeros_like(scale) if weights.input_shift is None else table(weights.input_shift, head)
    bias = u.new_zeros(n) if weights.bias is None else table(weights.bias, head)
    rec = u.new_zeros(n, n) if weights.recurrent_weight is None else table(weights.recurrent_weight, head)
    x = algorithm_1(u, scale, shift, weight, rec, bias, act, steps)
    y = torch.stack([x[i] for i in outputs]) * weights.output_scale[head]
    return y if weights.output_shift is None else y + weights.output_shift[head]


def sensory(gate, u, act):
    return circuit(gate.weights, u, 0, act, 1, [i for i, g in enumerate(gate.wiring.groups) if g == "sensory"])


def backbone(net, u, head, act, motor):
    head = 0 if net.weights.output_scale.shape[0] == 1 else head
    return circuit(net.weights, u, head, act, net.settle_steps, motor)


def logit(phi, omega, t, start, config):
    """Solution of da/dt = -omega a + phi at time t."""
    if config.mode == "steady":
        return phi / omega
    if config.mode == "exact":
        return phi / omega * (1 - torch.exp(-omega * t)) + start * torch.exp(-omega * t)
    steps = max(config.euler_steps, math.ceil(omega.item() * t.item()))
    a = start
    for _ in range(steps):
        a = a + t / steps * (-omega * a + phi)
    return a


def clock(elapsed, count):
    """States of the clock neurons: cosines, then sines, at scales four apart, the middle one a unit of time."""
    angles = [float(elapsed) / 4.0 ** (i - count // 2) for i in range(count)]
    return torch.tensor([*map(math.cos, angles), *map(math.sin, angles)], dtype=torch.float64)


def match(synapse, q, k, head, elapsed):
    """Match of a head: how alike q and k are, and whether the elapsed time fits."""

    def unit(x):
        return x / torch.sqrt((x * x).sum() + 1e-6)

    gain = torch.exp(synapse.log_gain[:, head])
    total = gain[0] * (unit(q) * unit(k)).sum()
    if synapse.rhythm_weight is None:
        return total
    periods = [8.0 * 2**i for i in range(6)]
    near = torch.tensor([1.0] * 6 + [0.0] * 6, dtype=q.dtype)
    wanted = near + q @ synapse.rhythm_weight[head]
    if synapse.rhythm_bias is not None:
        wanted = wanted + synapse.rhythm_bias[head, 0]
    phases = [2 * math.pi * float(elapsed) / p for p in periods]
    shown = torch.tensor([*map(math.cos, phases), *map(math.sin, phases)], dtype=q.dtype) / math.sqrt(6)
    return total + gain[1] * (unit(wanted) * shown).sum()


def attended(layer, q, k, head, units, since, likeness):
    """Logit, internal time and effect of one pair of a head.

    `units` is the time between them that the time gate reads, `since` that which the clock reads.
    """
    config, net = layer.config, layer.backbone
    motor = [i for i, g in enumerate(net.wiring.groups) if g == "motor"]
    u = torch.cat([q, k])
    m = backbone(net, torch.cat([u, clock(since, config.clock)]), head, ACTIVATION[config.activation], motor)
    phi = PHI[config.phi](m[0])
    start = torch.zeros_like(phi)
    if config.match == "start":
        start = likeness
    elif config.match != "none":
        phi = phi + likeness
    omega = torch.nn.functional.softplus(m[1]) + config.omega_min
    t = torch.ones_like(phi)
    if layer.time_gate is not None:
        bias = layer.time_gate.bias
        ab = u @ layer.time_gate.weight[head] + (0 if bias is None else bias[head])
        t = torch.sigmoid(-ab[0] * units + ab[1])
    effect = 1 + m[2] if config.inhibition else torch.ones_like(phi)
    return logit(phi, omega, t, start, config), t, effect


def reference_nac(layer, query, key=None, value=None, *, time=None, key_time=None, padding=None):
    """[B, T, F] -> [B, T, d_model]."""
    self_attention = key is None
    if self_attention:
        key = value = query
        key_time = time
    config = layer.config
    act = ACTIVATION[config.sensory_activation or config.activation]
    width = config.d_model // config.num_heads
    zero = torch.zeros(config.d_model, dtype=query.dtype)
    rows = []
    for b in range(len(query)):
        padded = [False] * key.shape[1] if padding is None else padding[b].tolist()
        valid = [j for j in range(key.shape[1]) if not padded[j]]
        ks = [zero if padded[j] else sensory(layer.key_gate, key[b, j], act) for j in range(key.shape[1])]
        vs = [zero if padded[j] else sensory(layer.value_gate, value[b, j], act) for j in range(key.shape[1])]
        # Without stamps, a step's moment is the number of valid ones before it.
        key_moments = ranks(padded) if key_time is None else key_time[b].tolist()
        rank = ranks(padded if self_attention else [False] * query.shape[1])
        moments = rank if time is None else time[b].tolist()
        for i in range(query.shape[1]):
            past = None
            if config.causal:  # by place, or by time where there are more or fewer keys than queries
                by_place = query.shape[1] == key.shape[1]
                past = [j for j in valid if (j <= i if by_place else key_moments[j] <= moments[i])]
            if (self_attention and padded[i]) or not valid or past == []:
                rows.append(zero)
                continue
            q = sensory(layer.query_gate, query[b, i], act)
            between = [moments[i] - moment for moment in key_moments]
            since = between if time is None else [x / config.time_scale for x in between]
            units = [1.0 if time is None else x for x in since]
            heads = []
            for h in range(config.num_heads):
                part = slice(h * width, (h + 1) * width)
                compared = q[part].tolist(), [k[part].tolist() for k in ks]
                likeness = [None] * len(ks)
                if layer.match is not None:
                    likeness = [match(layer.match, q[part], k[part], h, x) for k, x in zip(ks, units, strict=True)]
                    # A match is linear in what a key offers: the mean of a block matches by the mean.
                    compared = [1.0], [[x.item()] for x in likeness]
                chosen = chosen_keys(config, *compared, valid, past, moments[i], key_moments)
                logits, times, effects = zip(
                    *(
                        attended(layer, q[part], ks[j][part], h, abs(units[j]), since[j], likeness[j])
                        for j in chosen
                    ),
                    strict=True,
                )
                weights = torch.softmax(torch.stack(logits), 0)
                shares = [w * t if config.integrate else w for w, t in zip(weights, times, strict=True)]
                shares = [share * effect for share, effect in zip(shares, effects, strict=True)]
                heads.append(sum(s * vs[j][part] for s, j in zip(shares, chosen, strict=True)))
            rows.append(torch.cat(heads) @ layer.out_proj.weight.T + or_zero(layer.out_proj.bias, zero))
    return torch.stack(rows).view(*query.shape[:2], config.d_model)


def ranks(padded):
    """How many valid steps come before each."""
    return [sum(not p for p in padded[:i]) for i in range(len(padded))]
