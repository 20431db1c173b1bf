"""The layer is alive: everything learns, every gate hears the content, every option acts."""

import copy

import pytest
import torch

import nacre
from support.cases import KINDS, kind

NAC_ROWS = nacre.list_models("nac*")


def test_there_are_the_thirteen_nac_rows_of_the_paper_and_ours():
    assert len(NAC_ROWS) == 13 + 1


def test_every_number_of_every_parameter_gets_a_gradient_and_gates_vary_with_content():
    x, time, others = torch.randn(4, 40, 5), torch.rand(4, 40).cumsum(1), torch.randn(1, 30, 5)
    for name in NAC_ROWS:
        torch.manual_seed(0)
        model = nacre.create(name, d_input=5, d_model=16, num_heads=2)
        model(x, time=time).square().mean().backward()
        for key, p in model.named_parameters():
            assert p.grad is not None, f"{name}: {key}"
            assert p.grad.isfinite().all(), f"{name}: {key}"
            # tanh may saturate on single neurons, masked-out synapses are not stored: no entry may be idle
            idle = int((p.grad == 0).sum())
            assert not idle, f"{name}: {key}: {idle} of {p.numel()} entries get no gradient"
        _, trace = model(x[:1, :30], return_trace=True)
        _, other = model(others, return_trace=True)
        for gate in ("phi", "omega", "t"):
            values = getattr(trace, gate)[trace.valid]
            assert values.std() > 1e-3, f"{name}: {gate}"
            assert not torch.allclose(values[:50], getattr(other, gate)[other.valid][:50]), f"{name}: {gate}"
        # each head has its own circuit
        assert not torch.allclose(trace.phi[:, 0].mean(), trace.phi[:, 1].mean()), name


OPTIONS = {
    "top_k": [2, 20, None],
    "mode": ["euler", "steady"],
    "sparsity": [0.0, 0.05, 0.2, 0.9, 0.95],
    "wiring": ["random", "dense", "mlp", nacre.wiring.builders.backbone_wiring("random", 16, 30, 0.3, 7)],
    "causal": [True],
    "dropout": [0.5],
    "phi": ["tanh", "linear"],
    "selection": ["exact"],
    "block_size": [2, 13],
    "reach": [15, 100],
    "near": [1, 4, 8],
    "match": ["start", "content", "both"],
    "clock": [1, 4],
    "settle_steps": [3, 5, 9],
    "activation": ["sigmoid", "relu", "elu", "gelu", "silu", "softsign", "identity"],
    "sensory_activation": ["identity", "relu"],
    "omega_min": [0.5],
    "integrate": [False],
    "inhibition": [True],
    "share_backbone": [True],
    "backbone_units": [20],
    "time_scale": [10.0],
    "seed": [1],
    "bias": [False],
}


def test_every_option_changes_the_output():
    usual = output()
    assert output() == usual
    for option, values in OPTIONS.items():
        for value in values:
            assert output(**{option: value}) != usual, f"{option}={value}"
    assert output(mode="euler", euler_steps=1) != output(mode="euler", euler_steps=6)
    assert output(match="content", gain=2.0) != output(match="content")
    fields = set(nacre.NACConfig.__dataclass_fields__) - {"d_model", "num_heads", "d_input", "euler_steps", "gain"}
    assert fields == set(OPTIONS)


def output(**options):
    torch.manual_seed(3)
    layer = nacre.NAC(16, 2, **options)
    torch.manual_seed(4)
    x, time = torch.randn(2, 30, 16), torch.rand(2, 30).cumsum(1)
    return layer(x, time=time).detach().numpy().tobytes()


every_kind = pytest.mark.parametrize("name", KINDS)


@every_kind
@pytest.mark.parametrize("mode", ["exact", "euler", "steady"])
def test_time_changes_the_output_and_a_shift_of_all_stamps_does_not(mode, name):
    layer = nacre.NAC(16, 2, dtype=torch.float64, **kind(name, mode=mode))
    x = torch.randn(2, 30, 16, dtype=torch.float64)
    time = torch.rand(2, 30, dtype=torch.float64).cumsum(1).mul(1024).round().div(1024)
    y = layer(x, time=time)
    assert not torch.allclose(y, layer(x))
    assert not torch.allclose(y, layer(x, time=time * 3))
    assert torch.equal(y, layer(x, time=time + 4096))


@every_kind
def test_large_stamps_keep_their_differences(name):
    layer = nacre.NAC(16, 2, **kind(name))
    x = torch.randn(1, 20, 16)
    time = torch.arange(20)[None] * 3
    assert torch.equal(layer(x, time=time.float()), layer(x, time=time + 1_700_000_000))


@every_kind
def test_time_is_used_at_float64_even_where_the_layer_is_bfloat16(name):
    layer = nacre.NAC(16, 2, **kind(name)).to(torch.bfloat16)
    x = torch.randn(1, 20, 16, dtype=torch.bfloat16)
    time = torch.arange(20, dtype=torch.float64)[None] / 100
    assert torch.equal(layer(x, time=time), layer(x, time=time + 2.0**30))


@pytest.mark.slow
def test_a_layer_learns_to_find_a_marked_step():
    # The target is a value beside the one marked step: only content-based attention finds it.
    torch.manual_seed(1)
    layer, head = nacre.NAC(16, 2, d_input=2, phi="linear", mode="steady"), torch.nn.Linear(16, 1)
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=1e-2)
    losses = []
    for _ in range(100):
        value, mark = torch.randn(32, 12), torch.nn.functional.one_hot(torch.randint(12, (32,)), 12).float()
        target = (value * mark).sum(1)
        y = head(layer(torch.stack([value, mark * 3], -1)).mean(1))[:, 0]
        loss = (y - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


def test_deepcopy_is_independent():
    layer = nacre.NAC(8, 2)
    twin = copy.deepcopy(layer)
    x = torch.randn(1, 5, 8)
    assert torch.equal(layer(x), twin(x))
    with torch.no_grad():
        twin.out_proj.weight.add_(1)
    assert not torch.equal(layer(x), twin(x))


def test_reset_parameters_draws_anew_and_is_seeded():
    layer = nacre.NAC(8, 2)
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    torch.manual_seed(5)
    layer.reset_parameters()
    first = {k: v.clone() for k, v in layer.state_dict().items()}
    torch.manual_seed(5)
    layer.reset_parameters()
    assert all(torch.equal(first[k], v) for k, v in layer.state_dict().items())
    assert any(not torch.equal(before[k], v) for k, v in first.items())
