"""The compiled kernels give what the PyTorch code gives, in values and gradients."""

import copy
import pickle
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ncps.wirings import AutoNCP

import nacre
from layer.test_circuit import WIRINGS, noisy
from nacre import Backbone, NACConfig, Wiring
from nacre.functional import sqrt_topk
from nacre.layer.pair_stage import kernel_inputs
from nacre.layer.pairs import Tokens, attend_in_torch
from nacre.native import library
from nacre.native.activations import ACTIVATIONS
from nacre.native.pairs import (
    MODE_CODES,
    PHI_CODES,
    LearnedInputs,
    attend_seen,
    attend_selected,
    can_attend,
)
from nacre.native.program import Base
from support.cases import combinations
from support.hypothesis import examples

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11}


@pytest.fixture
def slow(monkeypatch):
    """Call to run something without kernels."""

    def run(action):
        with monkeypatch.context() as patch:
            patch.setattr(library, "runs", lambda *tensors: False)
            return action()

    return run


def random_tokens(backbone, dtype, config, rows, keys, columns):
    """Tokens of random pairs for two heads, some columns without a key."""

    def leaf(*shape):
        return torch.randn(shape, dtype=dtype, requires_grad=True)

    timed, matched = config.uses_time_gate, config.match != "none"
    valid = torch.rand(2, rows, columns) < 0.8
    valid[..., 0] = True
    stamps = [torch.rand(n, dtype=torch.float64) * 3 for n in (rows, keys)]
    width = len(backbone.projected)
    return Tokens(
        query_drive=leaf(2, rows, width),
        key_drive=leaf(2, keys, width),
        value=leaf(keys, 2, 3),
        query_gate=leaf(2, 2, rows) if timed else None,
        key_gate=leaf(2, 2, keys) if timed else None,
        query_stamp=stamps[0],
        key_stamp=stamps[1],
        query_moment=stamps[0] if config.clock else None,
        key_moment=stamps[1] if config.clock else None,
        asked=leaf(rows, 2, 5) if matched else None,
        offered=leaf(keys, 2, 5) if matched else None,
        index=torch.randint(keys, (2, rows, columns)),
        valid=valid,
    )


def both_ways(backbone, dtype, rows=13, keys=7, columns=5, **options):
    """Attended values of random pairs by the kernel and in PyTorch, and the leaves they depend on."""
    backbone.to(dtype)
    config = NACConfig(d_model=6, num_heads=2, top_k=columns, clock=backbone.clock // 2, **options)
    tokens = random_tokens(backbone, dtype, config, rows, keys, columns)
    learned, stage = kernel_inputs(tokens, backbone.wire(), config, 0.0)
    fast = attend_selected(learned, stage) if can_attend(learned, stage) else None
    want = attend_in_torch(tokens, backbone.wire(), config, 0.0)
    leaves = [x for x in vars(tokens).values() if x is not None and x.requires_grad]
    return fast, want, [*leaves, *backbone.parameters()]


def check_both_ways(backbone, dtype, **sizes_and_options):
    """The kernel equals PyTorch in values and gradients."""
    fast, want, leaves = both_ways(backbone, dtype, **sizes_and_options)
    size = max(1.0, want.abs().max().item())
    torch.testing.assert_close(fast / size, want / size, rtol=0, atol=TOLERANCE[dtype])
    grad = torch.randn_like(want)
    made = [torch.autograd.grad(y, leaves, grad, retain_graph=True, materialize_grads=True) for y in (fast, want)]
    for leaf, a, b in zip(leaves, *made, strict=True):
        size = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a / size, b / size, rtol=0, atol=TOLERANCE[leaf.dtype])


@pytest.mark.parametrize(
    ("name", "extra", "clock", "dtype"),
    combinations(list(WIRINGS), [0, 3], [0, 2], [torch.float32, torch.float64]),
)
def test_parity_of_wirings(name, extra, clock, dtype):
    wiring = WIRINGS[name]
    steps = wiring.steps_to(wiring.group("motor")) + extra
    backbone = noisy(Backbone(wiring, heads=2, clock=clock, settle_steps=steps, bias=extra == 0))
    check_both_ways(backbone, dtype)


@pytest.mark.parametrize(
    ("mode", "phi", "match", "integrate", "dtype"),
    combinations(
        ["exact", "euler", "steady"],
        ["sigmoid", "tanh", "linear"],
        ["none", "start", "content"],
        [True, False],
        [torch.float32, torch.float64],
    ),
)
def test_parity_of_gates(mode, phi, match, integrate, dtype):
    if mode == "steady" and match == "start":
        match = "content"
    options = {"mode": mode, "phi": phi, "match": match, "integrate": integrate, "time_scale": 0.7}
    check_both_ways(noisy(Backbone(WIRINGS["ncp"], heads=2)), dtype, **options)


@pytest.mark.parametrize(
    ("mode", "integrate", "dtype"),
    combinations(["exact", "euler", "steady"], [True, False], [torch.float32, torch.float64]),
)
def test_parity_of_inhibition(mode, integrate, dtype):
    wiring = Wiring.from_ncps(AutoNCP(12, 3), WIRINGS["ncp"].num_inputs)
    options = {"mode": mode, "integrate": integrate, "inhibition": True, "phi": "linear"}
    check_both_ways(noisy(Backbone(wiring, heads=2)), dtype, **options)


@pytest.mark.parametrize("activation", [name for name, one in ACTIVATIONS.items() if one.code is not None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parity_activations(activation, dtype):
    check_both_ways(noisy(Backbone(WIRINGS["ncp"], heads=2, activation=activation)), dtype)


def test_other_activations_are_left_to_torch():
    for activation in ("gelu", "silu", "elu"):
        fast, _, _ = both_ways(Backbone(WIRINGS["ncp"], heads=2, activation=activation), torch.float32)
        assert fast is None, activation


def test_one_circuit_for_all_heads():
    check_both_ways(noisy(Backbone(WIRINGS["ncp"], heads=1, clock=2)), torch.float64)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (9, 7), (8, 8), (13, 5), (1, 130), (700, 8)])
def test_tiles_and_chunks_that_are_not_full(rows, columns):
    check_both_ways(noisy(Backbone(WIRINGS["ncp"], heads=2)), torch.float64, rows=rows, columns=columns)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0])
def test_gates_of_any_size_keep_their_digits(scale):
    """From flat gates to saturated ones, with tiny and huge products of rate and time."""
    backbone = noisy(Backbone(WIRINGS["ncp"], heads=2))
    with torch.no_grad():
        backbone.weights.output_scale.mul_(scale)
    for mode in ("exact", "euler"):
        check_both_ways(backbone, torch.float32, mode=mode, phi="linear")


def test_tanh_is_exact_to_rounding_and_bounded():
    x = torch.cat(
        [torch.linspace(-12, 12, 200_001), torch.logspace(-20, 0, 1000), torch.tensor([0.0, 1e30, -1e30])]
    )
    y = activated(x)
    want = x.double().tanh()
    assert (y - want).abs().max() < 5e-7
    assert ((y - want).abs() <= 5e-7 * want.abs()).all()  # small numbers keep their digits
    assert y.abs().max() == 1
    assert torch.equal(activated(-x), -y)
    edges = activated(torch.tensor([torch.inf, -torch.inf, torch.nan]))
    assert edges[:2].tolist() == [1, -1]
    assert edges[2].isnan()


def activated(x):
    """The kernel's tanh of each number of x [R]: the state of a motor neuron in pairs with a key of 0."""
    wiring = Wiring(np.zeros((2, 2)), np.ones((2, 2)), ("motor", "motor"))
    backbone = Backbone(wiring, settle_steps=1)
    config = NACConfig(d_model=2, num_heads=1, top_k=1, mode="steady", integrate=False)
    index = torch.zeros(1, len(x), 1, dtype=torch.int64)
    drive = x.view(1, -1, 1).expand(1, -1, 2)
    nothing = [None] * 8
    tokens = Tokens(drive, torch.zeros(1, 1, 2), torch.ones(1, 1, 1), *nothing, index, index == 0)
    return attend_seen(*kernel_inputs(tokens, backbone.wire(), config, 0.0))[1].states[-1].flatten()


def test_gradcheck_of_the_kernel():
    backbone = noisy(Backbone(WIRINGS["motor listens to motor"], heads=2, clock=2)).double()
    config = NACConfig(d_model=6, num_heads=2, top_k=2, clock=1, match="start", phi="linear")
    tokens = random_tokens(backbone, torch.float64, config, rows=4, keys=3, columns=2)
    learned, stage = kernel_inputs(tokens, backbone.wire(), config, 0.3)
    names = [f.name for f in fields(learned)]
    inputs = [getattr(learned, name).detach().requires_grad_() for name in names]

    def run(*x):
        return attend_selected(LearnedInputs(*x), stage)

    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_gradients_of_gradients_survive_other_strides():
    backbone = noisy(Backbone(WIRINGS["ncp"], heads=2)).double()
    config = NACConfig(d_model=6, num_heads=2, top_k=2)
    tokens = random_tokens(backbone, torch.float64, config, rows=4, keys=3, columns=2)
    turned = {n: getattr(tokens, n).detach().mT.contiguous() for n in ("query_drive", "key_drive", "value")}
    leaves = [x.requires_grad_() for x in turned.values()]
    tokens = replace(tokens, **{name: x.mT for name, x in turned.items()})
    y = attend_selected(*kernel_inputs(tokens, backbone.wire(), config, 0.0))
    grads = torch.autograd.grad(y.square().sum(), leaves, create_graph=True)
    assert all(g.requires_grad for g in grads)
    assert all((g != 0).any() for g in torch.autograd.grad(sum(g.square().sum() for g in grads), leaves))


@examples(60)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 90),
    width=st.integers(1, 9),
    top_k=st.integers(1, 20) | st.sampled_from([64, 65]),
    causal=st.booleans(),
    block_size=st.none() | st.integers(1, 100),
    reach=st.none() | st.integers(1, 60) | st.just(90),
    padded=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    double=st.booleans(),
)
def test_parity_selection(seed, length, width, top_k, causal, block_size, reach, padded, double):
    torch.manual_seed(seed)
    q, k = (torch.randn(2, 3, length, width, dtype=torch.float64 if double else torch.float32) for _ in range(2))
    options = {
        "key_padding_mask": torch.rand(2, length) < padded,
        "query_padding_mask": torch.rand(2, length) < 0.2,
        "causal": causal,
        "block_size": block_size,
        "reach": reach,
    }
    fast = sqrt_topk(q, k, top_k, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "runs", lambda *tensors: False)
        want = sqrt_topk(q, k, top_k, **options)
    assert torch.equal(fast[1], want[1])
    assert torch.equal(fast[0], want[0])


def layer_run(layer, x, time, padding):
    y = layer(x, time=time, key_padding_mask=padding)
    return y, torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])


ROWS = [(name, causal) for causal in (False, True) for name in nacre.list_models("nac*")]


@pytest.mark.parametrize(
    ("name", "causal"),
    [pytest.param(*row, marks=() if i % 2 else pytest.mark.deep) for i, row in enumerate(ROWS)],
)
def test_parity_layers(name, causal, slow):
    layer = nacre.create(name, d_input=5, d_model=16, num_heads=2, causal=causal).double()
    x = torch.randn(3, 70, 5, dtype=torch.float64, requires_grad=True)
    time, padding = torch.rand(3, 70).cumsum(1), torch.rand(3, 70) < 0.3
    y, grads = layer_run(layer, x, time, padding)
    want, want_grads = slow(lambda: layer_run(layer, x, time, padding))
    torch.testing.assert_close(y, want, rtol=1e-10, atol=1e-12)
    for a, b in zip(grads, want_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_a_gradient_of_a_gradient_of_the_layer():
    layer = nacre.NAC(4, 2, top_k=3).double()
    x = torch.randn(1, 6, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: layer(x).sum(1), (x,), fast_mode=True)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torch_func_and_forward_mode_go_by_torch():
    layer = nacre.NAC(8, 2).double()
    x, along = torch.randn(1, 6, 8).double(), torch.randn(1, 6, 8).double()
    step = 1e-6
    want = (layer(x + step * along) - layer(x - step * along)) / (2 * step)
    torch.testing.assert_close(torch.func.jvp(layer, (x,), (along,))[1], want, rtol=1e-6, atol=1e-7)
    loss = layer(x.requires_grad_()).square().sum()
    by_func = torch.func.grad(lambda x: layer(x).square().sum())(x.detach())
    torch.testing.assert_close(by_func, torch.autograd.grad(loss, x)[0], rtol=1e-9, atol=1e-10)
    with torch.autograd.forward_ad.dual_level():
        y = layer(torch.autograd.forward_ad.make_dual(x.detach(), along))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(y).tangent, want, rtol=1e-6, atol=1e-7)


def test_the_number_of_threads_changes_no_bit_of_outputs_and_token_gradients():
    backbone = noisy(Backbone(WIRINGS["ncp"], heads=2, clock=2))
    config = NACConfig(d_model=6, num_heads=2, top_k=8, clock=1, match="start")
    tokens = random_tokens(
        backbone.float(), torch.float32, config, rows=2000, keys=50, columns=8
    )  # several chunks
    leaves = [x for x in vars(tokens).values() if x is not None and x.requires_grad]
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        y = attend_selected(*kernel_inputs(tokens, backbone.wire(), config, 0.0))
        results.append((y, *torch.autograd.grad(y.sin().sum(), [*leaves, *backbone.parameters()])))
    for other in results[1:]:
        for i, (a, b) in enumerate(zip(other, results[0], strict=True)):
            if i > len(leaves):  # of weights: sums over all pairs, a part in each thread
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * b.abs().max().item())
            else:
                assert torch.equal(a, b), i


def test_layers_can_be_copied_and_pickled():
    layer = nacre.NAC(16, 2)
    x = torch.randn(1, 20, 16)
    y = layer(x)
    assert torch.equal(copy.deepcopy(layer)(x), y)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), y)


def test_codes_are_the_kernels_own():
    folder = Path(library.__file__).parent / "include"
    circuit, gates = ((folder / name).read_text() for name in ("circuit.h", "gates.h"))
    for base in Base:
        assert f"k{base.name.capitalize()} = {int(base)}" in circuit
    for name, one in ACTIVATIONS.items():
        assert one.code is None or f"k{name.capitalize()} = {one.code}" in circuit
    for name, code in PHI_CODES.items():
        assert f"kPhi{name.capitalize()} = {code}" in gates
    for name, code in MODE_CODES.items():
        assert f"k{name.capitalize()} = {code}" in gates
