"""NAC written from the paper, one pair at a time: never fast, never imported by the library.

Reads the weights of a `nacre.NAC` layer, and nothing else of its code.
"""

import math

import torch

from reference.select import exact_keys, sqrt_keys

ACTIVATION = {"tanh": torch.tanh, "sigmoid": torch.sigmoid, "softsign": torch.nn.functional.softsign}
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


def logit(phi, omega, t, config):
    if config.mode == "steady":
        return phi / omega
    if config.mode == "exact":
        return phi / omega * (1 - torch.exp(-omega * t))
    steps = max(config.euler_steps, math.ceil(omega.item() * t.item()))
    a = torch.zeros_like(phi)
    for _ in range(steps):
        a = a + t / steps * (-omega * a + phi)
    return a


def match(synapse, q, k, head, elapsed):
    """What the match synapses of a head add to phi: how alike q and k are, and whether the elapsed time fits."""

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


def reference_nac(layer, query, key=None, value=None, *, time=None, key_time=None, padding=None):
    """[B, T, F] -> [B, T, d_model]."""
    self_attention = key is None
    if self_attention:
        key = value = query
        key_time = time
    config, net = layer.config, layer.backbone
    act = ACTIVATION[config.activation]
    motor = [i for i, g in enumerate(net.wiring.groups) if g == "motor"]
    width = config.d_model // config.num_heads
    rows = []
    for b in range(len(query)):
        padded = [False] * key.shape[1] if padding is None else padding[b].tolist()
        zero = torch.zeros(config.d_model, dtype=query.dtype)
        ks = [zero if padded[j] else sensory(layer.key_gate, key[b, j], act) for j in range(key.shape[1])]
        vs = [zero if padded[j] else sensory(layer.value_gate, value[b, j], act) for j in range(key.shape[1])]
        for i in range(query.shape[1]):
            if (self_attention and padded[i]) or all(padded):
                rows.append(zero)
                continue
            q = sensory(layer.query_gate, query[b, i], act)
            heads = []

            def sees(j, b=b, i=i):
                """Whether a key is not in the future of this query."""
                return j <= i if query.shape[1] == key.shape[1] else key_time[b, j] <= time[b, i]

            for h in range(config.num_heads):
                part = slice(h * width, (h + 1) * width)
                matches = None
                if layer.match is not None:
                    since = [
                        1.0 if time is None else (time[b, i] - key_time[b, j]) / config.time_scale
                        for j in range(key.shape[1])
                    ]
                    matches = [match(layer.match, q[part], k[part], h, since[j]) for j, k in enumerate(ks)]
                chosen = _keys(config, q[part], [k[part] for k in ks], matches, padded, sees)
                if not chosen:  # a causal query before the first key
                    break
                logits, times = [], []
                for j in chosen:
                    u = torch.cat([q[part], ks[j][part]])
                    m = backbone(net, u, h, act, motor)
                    phi = PHI[config.phi](m[0])
                    if matches is not None:
                        phi = phi + matches[j]
                    omega = torch.nn.functional.softplus(m[1]) + config.omega_min
                    elapsed = 1.0 if time is None else abs(time[b, i] - key_time[b, j]) / config.time_scale
                    t = torch.ones_like(phi)
                    if layer.time_gate is not None:
                        ab = (
                            u @ layer.time_gate.weight[h]
                            + or_zero(layer.time_gate.bias, u.new_zeros(1, 2))[
                                h if layer.time_gate.bias is not None else 0
                            ]
                        )
                        t = torch.sigmoid(-ab[0] * elapsed + ab[1])
                    logits.append(logit(phi, omega, t, config))
                    times.append(t)
                weights = torch.softmax(torch.stack(logits), 0)
                heads.append(
                    sum(
                        w * (t if config.integrate else 1.0) * vs[j][part]
                        for w, t, j in zip(weights, times, chosen, strict=True)
                    )
                )
            if not heads:
                rows.append(zero)
                continue
            rows.append(torch.cat(heads) @ layer.out_proj.weight.T + or_zero(layer.out_proj.bias, zero))
    return torch.stack(rows).view(*query.shape[:2], config.d_model)


def _keys(config, q, keys, matches, padded, sees):
    q, keys = q.tolist(), [k.tolist() for k in keys]
    if matches is not None:  # a match is linear in what a key offers: the mean of a block matches by the mean
        q, keys = [1.0], [[m.item()] for m in matches]
    valid = [p for p in range(len(keys)) if not padded[p]]
    past = [p for p in valid if sees(p)] if config.causal else None
    if config.top_k is None:
        return valid if past is None else past
    if config.selection == "exact":
        return exact_keys(q, keys, valid if past is None else past, config.top_k)
    return sqrt_keys(q, keys, valid, config.top_k, config.block_size, past, config.reach)
