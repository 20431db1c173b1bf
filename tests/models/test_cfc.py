"""CfC against ncps, by the compiled kernel and by the PyTorch loop."""

import ncps.torch
import ncps.wirings
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from nacre.models._cfc_recurrence import MODES
from support.hypothesis import examples
from support.models import case

pytestmark = pytest.mark.usefixtures("either_path")
ATOL = {torch.float32: 1e-5, torch.float64: 1e-9}


def irregular(rows=3, length=7, width=5, dtype=torch.float64):
    """Inputs, time stamps, and the elapsed time they mean; one stamp repeats."""
    gaps = torch.rand(rows, length, dtype=torch.float64) * 3
    gaps[0, 2] = 0
    gaps[:, 0] = 1
    return torch.randn(rows, length, width, dtype=dtype), gaps.cumsum(1) + 40, gaps.to(dtype)


def samples(oracle, x, elapsed):
    """What ncps gives for each sample alone, for it takes the elapsed time of one sample to be a whole batch's."""
    return torch.cat([oracle(x[i : i + 1], timespans=elapsed[i : i + 1])[0] for i in range(len(x))])


def heads_of(cell, value):
    """Weights [heads * n, inputs] and biases [heads * n] of a cell of ncps, in our order."""
    names = ("ff1",) if cell.mode == "pure" else ("ff1", "ff2", "time_a", "time_b")
    layers = [getattr(cell, name) for name in names]
    return torch.cat([value(layer.weight) for layer in layers]), torch.cat([value(layer.bias) for layer in layers])


def pure_parts(cell, value, prefix):
    if cell.mode != "pure":
        return {}
    return {f"{prefix}decay_rate": value(cell.w_tau)[0], f"{prefix}amplitude": value(cell.A)[0]}


def parts_of_fc(oracle, model, value):
    """Values (or gradients) of the oracle's parameters under the names of ours."""
    cell = oracle.rnn_cell
    parts = pure_parts(cell, value, "recurrence.")
    parts["heads.weight"], parts["heads.bias"] = heads_of(cell, value)
    for i in range(model.backbone_layers):
        parts[f"backbone.{i}.weight"] = value(cell.backbone[2 * i].weight)
        parts[f"backbone.{i}.bias"] = value(cell.backbone[2 * i].bias)
    return parts


def parts_of_ncp(oracle, model, value):
    parts = {"out_proj.weight": value(oracle.fc.weight), "out_proj.bias": value(oracle.fc.bias)}
    for i, layer in enumerate(model.layers):
        cell = oracle.rnn_cell._layers[i]
        parts |= pure_parts(cell, value, f"layers.{i}.recurrence.")
        weight, parts[f"layers.{i}.bias"] = heads_of(cell, value)
        inputs, recurrent = weight.T.split([cell.input_size, cell.hidden_size])
        parts[f"layers.{i}.input_weight.weight"] = inputs.reshape(1, -1)[:, layer.input_weight.index]
        parts[f"layers.{i}.recurrent_weight"] = recurrent
    return parts


def same_as_ncps(model, oracle, parts_of, dtype):
    model, oracle = model.to(dtype), oracle.to(dtype)
    with torch.no_grad():
        for name, value in parts_of(oracle, model, lambda p: p).items():
            model.get_parameter(name).copy_(value)
    x, time, elapsed = irregular(dtype=dtype)
    x.requires_grad_()
    weight = torch.randn(3, 7, model.d_model, dtype=dtype)
    y, want = model(x, time=time), samples(oracle, x, elapsed)
    torch.testing.assert_close(y, want, rtol=0, atol=ATOL[dtype])
    (x_grad,) = torch.autograd.grad((want * weight).sum(), x, retain_graph=True)
    (want * weight).sum().backward(inputs=[p for p in oracle.parameters() if p.requires_grad])
    (y * weight).sum().backward()
    grads = parts_of(oracle, model, lambda p: p.grad)
    assert set(grads) == {name for name, _ in model.named_parameters()}
    for name, p in [*model.named_parameters(), ("x", x)]:
        right = x_grad if name == "x" else grads[name]
        size = max(1.0, right.abs().max().item())
        torch.testing.assert_close(p.grad / size, right / size, rtol=0, atol=ATOL[dtype], msg=name)


@pytest.mark.parametrize("mode", MODES)
def test_parity_cfc_fc_is_that_of_ncps(mode):
    for layers, dtype in ((0, torch.float64), (1, torch.float64), (2, torch.float64), (1, torch.float32)):
        options = {"mode": mode, "backbone_layers": layers, "backbone_units": 11}
        model = nacre.create("cfc-fc", d_input=5, d_model=6, num_heads=1, **options)
        with case(layers, "layers", dtype):
            same_as_ncps(model, ncps.torch.CfC(5, 6, **options), parts_of_fc, dtype)


@pytest.mark.parametrize("mode", MODES)
def test_parity_cfc_ncp_is_that_of_ncps(mode):
    for dtype in (torch.float32, torch.float64):
        options = {"mode": mode, "sparsity": 0.3, "seed": 5}
        model = nacre.create("cfc-ncp", d_input=5, d_model=17, num_heads=1, **options)
        wiring = ncps.wirings.AutoNCP(17, 4, sparsity_level=0.3, seed=5)
        with case(dtype):
            same_as_ncps(model, ncps.torch.CfC(5, wiring, mode=mode, proj_size=17), parts_of_ncp, dtype)


def test_parity_cfc_ncp_defaults_have_no_weight_that_ncps_multiplies_by_zero():
    model = nacre.create("cfc-ncp", d_input=7, d_model=64, num_heads=1)
    oracle = ncps.torch.CfC(7, ncps.wirings.AutoNCP(64, 16), proj_size=64)
    missing = sum(2 * int((p == 0).sum()) for n, p in oracle.named_parameters() if n.endswith("sparsity_mask"))
    assert missing > 0
    stored = sum(p.numel() for p in oracle.parameters() if p.requires_grad) - missing
    assert sum(p.numel() for p in model.parameters()) == stored


@pytest.mark.parametrize("name", ["cfc-fc", "cfc-ncp"])
def test_starts_in_the_range_of_ncps(name):
    """Weights of every head spread as if it were a map of its own."""
    model = nacre.create(name, d_input=20, d_model=64, num_heads=1)
    if name == "cfc-fc":
        heads, fan = model.heads.weight.view(4, -1), 128 + 64
    else:
        units = model.layers[0].recurrent_weight.shape[0]
        heads, fan = model.layers[0].recurrent_weight.view(units, 4, units).transpose(0, 1), 20 + 2 * units
    for head in heads:
        assert 0.95 < head.abs().max().item() / (6 / fan) ** 0.5 <= 1


def test_the_path_is_the_one_under_test(either_path):
    y = nacre.create("cfc-fc", d_input=5, d_model=6, num_heads=1)(irregular(dtype=torch.float32)[0])
    assert ("_Run" in y.grad_fn.name()) == (either_path == "kernels")


@examples(20)
@given(st.integers(1, 4), st.integers(2, 20), st.floats(0.1, 100), st.floats(0, 1e6), st.integers(0, 2**30))
def test_states_are_bounded(rows, units, size, pause, seed):
    """A mean of two numbers below one is below one, whatever comes in, and without gate their sum is below two."""
    torch.manual_seed(seed)
    for mode, bound in (("default", 1.0), ("no_gate", 2.0)):
        model = nacre.create("cfc-fc", d_input=5, d_model=units, num_heads=1, mode=mode, backbone_units=7)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(size)
        y = model(torch.randn(rows, 4, 5) * size, time=torch.arange(4).expand(rows, 4) * pause)
        assert (y.abs() <= bound).all()


@pytest.mark.parametrize("name", ["cfc-fc", "cfc-ncp"])
def test_every_number_learns_in_every_mode(name):
    for mode in MODES:
        model = nacre.create(name, d_input=5, d_model=8, num_heads=1, mode=mode)
        x, time, _ = irregular(8, 24, dtype=torch.float32)
        (model(x, time=time) * torch.randn(8, 24, 8)).sum().backward()
        assert all((p.grad != 0).all() for p in model.parameters()), mode


def test_after_long_or_no_time_the_pure_form_is_known():
    """a (1 - f) while no time has passed, and a after very long."""
    model = nacre.create("cfc-fc", d_input=5, d_model=6, num_heads=1, mode="pure", backbone_layers=0).double()
    with torch.no_grad():
        model.recurrence.amplitude.uniform_(0.5, 2)
        model.recurrence.decay_rate.uniform_(0.5, 2)
    x = torch.randn(2, 2, 5, dtype=torch.float64)
    y = model(x, time=torch.tensor([[0.0, 0.0], [0.0, 1e4]]))
    f = model.heads(torch.cat([x[0, 1], y[0, 0]]))
    torch.testing.assert_close(y[0, 1], model.recurrence.amplitude * (1 - f))
    torch.testing.assert_close(y[1, 1], model.recurrence.amplitude)


@pytest.mark.parametrize("name", ["cfc-fc", "cfc-ncp"])
def test_time_acts_by_the_head_that_multiplies_it_and_no_other(name):
    model = nacre.create(name, d_input=5, d_model=8, num_heads=1).double()
    x, time, _ = irregular()
    assert not torch.allclose(model(x, time=time), model(x))
    with torch.no_grad():
        if name == "cfc-fc":
            model.heads.weight[16:24], model.heads.bias[16:24] = 0, 0
        for layer in model.layers if name == "cfc-ncp" else ():
            n = layer.recurrent_weight.shape[0]
            table = layer.input_weight.dense()[0]
            for part in (table, layer.recurrent_weight, layer.bias):
                part[..., 2 * n : 3 * n] = 0
            layer.input_weight.fill(table)
    torch.testing.assert_close(model(x, time=time), model(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), [("cfc-fc", {"backbone_layers": 0}), ("cfc-ncp", {})])
def test_long_padding_cannot_blow_up_the_pure_form(name, options):
    model = nacre.create(name, d_input=5, d_model=8, num_heads=1, mode="pure", **options)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(4)
    x, padding = torch.randn(2, 200, 5), torch.arange(200).expand(2, 200) > 3
    model(x, key_padding_mask=padding).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", ["cfc-fc", "cfc-ncp"])
def test_time_can_have_gradients(name):
    model = nacre.create(name, d_input=5, d_model=4, num_heads=1).double()
    x, time, _ = irregular(rows=2, length=3)
    time[0] += torch.arange(3)  # apart, so that numerical steps do not swap stamps
    assert torch.autograd.gradcheck(lambda t: model(x, time=t), time.requires_grad_())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cfc-fc", ({"backbone_units": 9}, {"backbone_layers": 2}, {"mode": "no_gate"}, {"mode": "pure"})),
        ("cfc-ncp", ({"sparsity": 0.8}, {"seed": 1}, {"mode": "no_gate"}, {"mode": "pure"})),
    ],
)
def test_every_option_acts(name, options):
    x, time, _ = irregular(dtype=torch.float32)

    def run(options):
        torch.manual_seed(3)
        return nacre.create(name, d_input=5, d_model=16, num_heads=1, **options)(x, time=time)

    default = run({})
    assert [option for option in options if torch.allclose(run(option), default)] == []


def test_bad_options_are_refused():
    for name, options, message in (
        ("cfc-fc", {"mode": "purr"}, "mode must be one of .* did you mean 'pure'"),
        ("cfc-fc", {"backbone_units": 0}, "backbone_units must be at least 1, got 0"),
        ("cfc-fc", {"backbone_layers": -1}, "backbone_layers must be at least 0, got -1"),
        ("cfc-fc", {"time_scale": 0.0}, "time_scale must lie in"),
        ("cfc-ncp", {"mode": "gated"}, "mode must be one of"),
        ("cfc-ncp", {"sparsity": 0.95}, r"sparsity must lie in \[0.1, 0.9\], got 0.95"),
        ("cfc-ncp", {"seed": -1}, "seed must be at least 0, got -1"),
    ):
        with case(name, options), pytest.raises(ValueError, match=message):
            nacre.create(name, d_input=5, d_model=8, num_heads=1, **options)
