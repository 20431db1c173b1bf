"""Certificates: the numbers are those of the trace, and what is wrong is named, and nothing else."""

import json
import math

import pytest
import torch

import nacre
from nacre.certificates import bounds as module
from nacre.certificates.bounds import certify
from nacre.native import library
from reference.killing import batch, deafen, named
from support.hypothesis import DEEP

# --- numbers of the heads ---------------------------------------------------------------------------------------


OPTIONS = [
    {},
    {"mode": "euler"},
    {"mode": "steady"},
    {"mode": "steady", "integrate": False},
    {"phi": "tanh"},
    {"phi": "linear", "mode": "euler"},
    {"phi": "linear", "mode": "steady"},
    {"causal": True},
    {"share_backbone": True},
    {"top_k": None, "causal": True},
    {"top_k": 3, "selection": "exact"},
    {"wiring": "dense", "bias": False},
    {"omega_min": 10.0},  # some logits arrive within t < 1
    {"match": "both"},
    {"match": "start", "omega_min": 10.0},
    {"match": "start", "mode": "euler", "phi": "linear", "clock": 2, "sensory_activation": "identity"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_head_agrees_with_its_trace(options):
    padded = OPTIONS.index(options) % 3 > 0
    layer = nacre.NAC(16, 2, dtype=torch.float64, **options)
    x, time = batch(dtype=torch.float64)
    padding = torch.zeros(6, 14, dtype=torch.bool)
    if padded:
        padding[1, 4:] = padding[2, :3] = padding[5] = True
    found = certify(layer, x, time, padding if padded else None, delta=0.02)
    with torch.no_grad():
        _, trace = layer(x, time=time, key_padding_mask=padding, return_trace=True)
    assert found.ok
    assert found.delta == 0.02
    assert found.sequences == (5 if padded else 6)
    pairs = 0
    for h, head in enumerate(found.heads):
        rows = [
            (b, i, trace.valid[b, h, i])
            for b in range(6)
            for i in range(14)
            if not padding[b, i] and trace.valid[b, h, i].any()
        ]
        phi, omega, logits = (
            torch.cat([getattr(trace, n)[b, h, i][on] for b, i, on in rows]) for n in ("phi", "omega", "logits")
        )
        rest, start = phi / omega, torch.zeros_like(phi)
        if trace.match is not None:
            match = torch.cat([trace.match[b, h, i][on] for b, i, on in rows])
            assert head.match == (match.min(), match.max())
            start = match if options["match"] == "start" else start
        assert head.pairs == len(phi)
        assert head.phi == (phi.min(), phi.max())
        assert head.omega == (omega.min(), omega.max())
        assert head.logits == (logits.min(), logits.max())
        assert head.bounds == (min(rest.min(), start.min()), max(rest.max(), start.max()))
        assert head.violations == 0
        assert head.bounds_hold
        needed = torch.log(((rest - start).abs() / 0.02).clamp(min=1)) / omega
        assert head.time_to_delta == pytest.approx(needed.max().item(), rel=1e-12)
        if trace.t is None:
            assert head.t is None
        else:
            t = torch.cat([trace.t[b, h, i][on] for b, i, on in rows])
            assert head.t == (t.min(), t.max())
        if options.get("mode") == "steady":
            assert head.arrived == 1.0
        else:
            assert head.arrived == pytest.approx((t >= needed).double().mean().item(), abs=1e-12)
            assert options.get("omega_min") != 10.0 or 0 < head.arrived < 1
        keys = [math.exp(-sum(w * math.log(w) for w in trace.weights[b, h, i][on].tolist())) for b, i, on in rows]
        assert head.keys_mean == pytest.approx(sum(keys) / len(keys), rel=1e-12)
        assert head.keys_min == pytest.approx(min(keys), rel=1e-12)
        pairs += head.pairs
    assert found.pairs == pairs


def test_padding_changes_nothing_whatever_it_holds():
    layer = nacre.NAC(16, 2)
    x, time = batch()
    padding = torch.zeros(6, 14, dtype=torch.bool)
    padding[:, 9:] = True
    clean = certify(layer, x, time, padding)
    x[:, 9:], time[:, 9:] = math.nan, math.inf
    assert certify(layer, x, time, padding) == clean
    assert clean.ok
    assert clean.inputs == ()


@pytest.mark.parametrize("options", [{}, {"causal": True, "top_k": None}, {"mode": "steady", "integrate": False}])
def test_chunks_change_nothing(monkeypatch, options):
    layer = nacre.NAC(16, 2, dtype=torch.float64, **options)
    deafen(layer.backbone.weights, layer.backbone.wiring.group("command")[1], 1)
    with torch.no_grad():
        wide = layer.query_gate.weights.bias.weight
        wide[0, 3] = 40.0
    x, time = batch(7, dtype=torch.float64)
    x[3, 2, 1] = math.nan
    padding = torch.zeros(7, 14, dtype=torch.bool)
    padding[4] = True  # a chunk of its own, without any pair
    whole = certify(layer, x, time, padding).to_dict()
    assert whole["dead"]
    assert whole["saturated"]
    calls = []
    layer.register_forward_pre_hook(lambda _, args: calls.append(len(args[0])))
    for budget, rows in ((1, [1] * 7), (3 * states_of_a_row(layer), [3, 3, 1])):
        calls.clear()
        monkeypatch.setattr(module, "_CHUNK_ELEMENTS", budget)
        parts = certify(layer, x, time, padding).to_dict()
        assert calls == rows
        heads, wanted = parts.pop("heads"), whole["heads"]
        assert parts == {k: v for k, v in whole.items() if k != "heads"}
        for head, want in zip(heads, wanted, strict=True):
            assert flat(head) == pytest.approx(flat(want), rel=1e-12)


def states_of_a_row(layer):
    _, trace = layer(torch.randn(1, 14, 16, dtype=torch.float64), return_trace=True)
    return trace.valid.numel() * layer.backbone.wiring.num_neurons


def flat(head):
    values = [v if isinstance(v, list) else [v] for v in head.values()]
    return [x for v in values for x in v if x is not None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_bounds_hold_in_every_precision_even_where_logits_touch_them(dtype):
    layer = nacre.NAC(16, 2, phi="linear", omega_min=50.0).to(dtype)  # omega t is large: logits are at the limit
    x, time = batch(40, dtype=dtype)
    assert all(h.violations == 0 for h in certify(layer, x, time).heads)


@pytest.fixture
def in_torch(monkeypatch):
    """Without kernels, so that a test can put other equations in the place of the layer's."""
    monkeypatch.setattr(library, "library", lambda: None)


@pytest.mark.parametrize(("dtype", "step"), [(torch.float32, 2**-23), (torch.float64, 2.5e-13)])
def test_rounding_is_allowed_and_more_is_not(in_torch, monkeypatch, dtype, step):
    layer = nacre.NAC(16, 2, mode="steady", phi="linear").to(dtype)
    x, time = batch(dtype=dtype)
    for factor, holds in ((1 + 3 * step, True), (1 + 6 * step, False)):
        monkeypatch.setattr(
            nacre.layer.pairs, "solve_logits", lambda phi, omega, *_, f=factor, **__: phi / omega * f
        )
        assert certify(layer, x, time).ok is holds


def test_broken_bounds_are_found_and_counted(in_torch, monkeypatch):
    layer = nacre.NAC(16, 2)

    def overshoot(phi, omega, t, mode, *, a0, euler_steps):
        logits = nacre.functional.solve_logits(phi, omega, t, mode)
        logits[1, 5] = 1.001 * phi[1, 5] / omega[1, 5]  # [H, B * T, K]
        logits[1, 6] = -1e-4
        logits[1, 7] = 0.999 * phi[1, 7] / omega[1, 7]
        return logits

    monkeypatch.setattr(nacre.layer.pairs, "solve_logits", overshoot)
    found = certify(layer, *batch())
    assert [h.violations for h in found.heads] == [0, 16]
    assert [h.bounds_hold for h in found.heads] == [True, False]
    assert not found.ok
    assert "NO: 16 of 672 outside" in str(found)


def test_each_logit_is_held_against_its_own_pair(in_torch, monkeypatch):
    layer = nacre.NAC(16, 2)

    def shuffled(phi, omega, t, mode, *, a0, euler_steps):
        return (phi / omega).flip(-1)  # every value is inside the bounds of some pair

    monkeypatch.setattr(nacre.layer.pairs, "solve_logits", shuffled)
    found = certify(layer, *batch())
    assert all(h.bounds[0] <= h.logits[0] and h.logits[1] <= h.bounds[1] for h in found.heads)
    assert all(h.violations > 0 for h in found.heads)


def test_infinite_logits_do_not_pass_for_inside_infinite_bounds():
    layer = nacre.NAC(16, 2, phi="linear", mode="steady")
    with torch.no_grad():
        layer.backbone.weights.output_scale[0, 0] = 3e38
        layer.backbone.weights.output_shift[0, 1] = -5.0  # small omega
    found = certify(layer, *batch())
    assert math.inf in (found.heads[0].bounds[1], -found.heads[0].bounds[0])
    assert [h.bounds_hold for h in found.heads] == [False, True]


# --- inputs and parameters --------------------------------------------------------------------------------------


def test_nan_and_infinity_are_found_and_the_rest_is_certified():
    layer = nacre.NAC(16, 2)
    x, time = batch()
    x[1, 3, 5] = math.nan
    x[1, 3, 6] = math.inf
    x[4, 0] = -math.inf
    time[2, 7] = math.nan
    time[4, 0] = math.inf
    padding = torch.zeros(6, 14, dtype=torch.bool)
    padding[5, 10:] = True
    x[5, 11] = math.nan  # padding may hold anything
    found = certify(layer, x, time, padding)
    by = {f.argument: f for f in found.inputs}
    assert (by["x"].numbers, by["x"].steps, by["x"].positions) == (18, 2, ((1, 3), (4, 0)))
    assert (by["time"].numbers, by["time"].steps, by["time"].positions) == (2, 2, ((2, 7), (4, 0)))
    assert found.steps_left_out == 3
    assert not found.ok
    assert "input: x holds 18 x NaN or infinity; (row, step): (1, 3), (4, 0)" in str(found).splitlines()
    assert "input: treated as padding because of that: 3 steps" in str(found).splitlines()
    rest = padding.clone()
    rest[1, 3] = rest[4, 0] = rest[2, 7] = True
    clean = certify(layer, x, time, rest)
    assert clean.ok
    assert (found.heads, found.pairs, found.dead) == (clean.heads, clean.pairs, ())


def test_only_the_first_positions_are_kept():
    x, _ = batch()
    x[:, 2:4] = math.nan
    (finding,) = certify(nacre.NAC(16, 2), x).inputs
    assert finding.steps == 12
    assert finding.positions == ((0, 2), (0, 3), (1, 2), (1, 3), (2, 2))
    assert str(finding).endswith("(2, 2), ...")


def test_stamps_of_all_rows_are_given_once(monkeypatch):
    layer = nacre.NAC(16, 2)
    x, time = batch()
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 1)  # row by row
    assert certify(layer, x, time[0]) == certify(layer, x, time[:1].expand(len(x), -1))


def test_nothing_valid_is_an_error():
    layer = nacre.NAC(16, 2)
    x, _ = batch()
    with pytest.raises(ValueError, match="nothing is left to certify: x is NaN or infinite in every step"):
        certify(layer, x * math.nan)
    with pytest.raises(ValueError, match="nothing is left to certify: key_padding_mask covers every step"):
        certify(layer, x[:1], key_padding_mask=torch.ones(1, 14, dtype=torch.bool))


@pytest.mark.parametrize("name", ["out_proj.weight", "value_gate.weights.bias.weight", "time_gate.bias"])
def test_broken_parameters_do_not_pass(name):
    layer = nacre.NAC(16, 2)
    with torch.no_grad():
        layer.get_parameter(name).view(-1)[1] = math.nan
    found = certify(layer, *batch())
    assert not found.ok
    assert found.bad_parameters == (name,)
    assert f"parameter: {name} holds NaN or infinity" in str(found)
    if name.startswith("value"):
        assert [f.reason for f in found.dead] == ["its state is NaN or infinite"]
    if name.startswith("time"):
        assert found.heads[0].violations == found.heads[0].pairs
        assert math.isnan(found.heads[0].logits[0])
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["heads"][0]["logits"] == ["nan", "nan"]


def test_the_layer_checks_the_inputs():
    layer = nacre.NAC(16, 2)
    x, time = batch()
    for args, error, message in (
        ((x[0],), ValueError, "x must have shape"),
        ((x[..., :3],), ValueError, "x must have 16 numbers"),
        ((x.double(),), TypeError, "x has dtype"),
        (("x",), TypeError, "x must be a torch.Tensor"),
        ((x, time[:, 1:]), ValueError, "time must have shape"),
        ((x, time, time), TypeError, "key_padding_mask must be a bool tensor"),
    ):
        with pytest.raises(error, match=message):
            certify(layer, *args)
    for delta in (0, -1.0, math.nan):
        with pytest.raises(ValueError, match="delta must lie in"):
            certify(layer, x, delta=delta)


def test_other_modules_are_refused_and_their_layers_named():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.ModuleDict({"attention": nacre.NAC(8, 2)}) for _ in "ab"])

    message = r"layer must be a nacre.NAC, but it is a Net; certify its layers one by one: "
    with pytest.raises(TypeError, match=message + r"layers\.0\.attention, layers\.1\.attention$"):
        certify(Net(), torch.randn(1, 3, 8))
    with pytest.raises(TypeError, match="is a Linear and holds no NAC layer"):
        certify(torch.nn.Linear(3, 3), torch.randn(1, 3, 3))
    with pytest.raises(TypeError, match="is a str and holds no NAC layer"):
        certify("nac", torch.randn(1, 3, 8))


# --- what it leaves behind, and how it looks --------------------------------------------------------------------


def test_the_layer_is_left_as_it_was(monkeypatch, capsys):
    layer = nacre.NAC(16, 2, dropout=0.5)
    layer.key_gate.eval()
    flags = [m.training for m in layer.modules()]
    x, time = batch()
    x.requires_grad_()
    first, state = certify(layer, x, time), {k: v.clone() for k, v in layer.state_dict().items()}
    assert first == certify(layer, x, time)
    assert [m.training for m in layer.modules()] == flags
    assert all(torch.equal(v, state[k]) for k, v in layer.state_dict().items())
    assert all(p.grad is None for p in layer.parameters())

    seen = []

    def fail(*_args):
        seen.append((layer.training, torch.is_grad_enabled()))
        raise RuntimeError("stop")

    monkeypatch.setattr(module, "measure_neurons", fail)
    with pytest.raises(RuntimeError, match="stop"):
        certify(layer, x, time)
    assert seen == [(False, False)]
    assert [m.training for m in layer.modules()] == flags
    assert torch.is_grad_enabled()
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_a_trained_layer_is_certified_over_many_inputs_and_a_killed_neuron_is_named():
    layer, head = nacre.NAC(16, 2), torch.nn.Linear(16, 1)
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=1e-2)
    losses = []
    for _ in range(60):
        x, time = batch(32, 12)
        loss = (head(layer(x, time=time)) - x[..., :1].cumsum(1) / 3).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])

    many = 10_000 if DEEP else 1000
    x, time = torch.randn(many, 12, 16), torch.rand(many, 12).cumsum(1)
    found = certify(layer, x, time)
    assert found.ok, str(found)
    assert found.sequences == many
    assert found.pairs == sum(h.pairs for h in found.heads) > 100 * many

    neuron = layer.backbone.wiring.group("command")[4]
    deafen(layer.backbone.weights, neuron, 1)
    found = certify(layer, x, time)
    assert not found.ok
    assert named(found.dead) == {(1, "command", 4)}
    assert f"dead: head 1 command neuron 4 (wiring index {neuron}): its state never changes" in str(found)
    assert all(h.bounds_hold for h in found.heads)
