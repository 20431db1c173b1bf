"""The compiled kernels give what the PyTorch code gives, in values and gradients."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nacre
from layer.test_circuit import WIRINGS, noisy
from nacre import Backbone
from nacre.functional import sqrt_topk
from nacre.layer.pairs import Tokens, settle_rows
from nacre.native import library
from nacre.native.activations import ACTIVATION_CODES
from nacre.native.circuit import Circuit, settle_selected
from nacre.native.program import Base, Program
from nacre.native.selected import dot_selected, mix_selected
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


def one_row(activation):
    """A circuit of one neuron that hears one input."""
    row, none = np.zeros(1, np.int32), np.zeros(0, np.int32)
    return Circuit(Program(row, row, row + 1, none, none, none, row), 1, 1, 0, activation)


def activate(x, activation="tanh"):
    """The kernel's activation of each number of x [R], in pairs with a key of 0."""
    index = torch.zeros(1, len(x), 1, dtype=torch.int64)
    nothing = x.new_zeros(1, 0)
    return settle_selected(x.view(1, -1, 1), x.new_zeros(1, 1, 1), nothing, nothing, index, one_row(activation))


def settled(backbone, dtype, rows=13, keys=7, columns=5):
    """Motor outputs [2, H, R, K] of random pairs by the kernel, and the leaves they depend on."""
    heads = 2
    backbone.to(dtype)
    width = len(backbone.projected)
    query, key = (torch.randn(heads, n, width, dtype=dtype, requires_grad=True) for n in (rows, keys))
    index = torch.randint(keys, (heads, rows, columns))
    wired = backbone.wire()
    fast = wired.settle_selected(query, key, index)
    tokens = Tokens(query, key, key, None, None, None, None, None, None, index, index >= 0)
    return fast, settle_rows(tokens, wired, slice(None))[0], [query, key, *backbone.parameters()]


def same_gradients(fast, want, leaves):
    """Gradients of the same random function of both."""
    grad = torch.randn_like(want)
    made = [torch.autograd.grad(y, leaves, grad, retain_graph=True, materialize_grads=True) for y in (fast, want)]
    for leaf, a, b in zip(leaves, *made, strict=True):
        size = max(1.0, b.abs().max().item())
        torch.testing.assert_close(a / size, b / size, rtol=0, atol=TOLERANCE[leaf.dtype])


@pytest.mark.parametrize(
    ("name", "extra", "dtype"), combinations(list(WIRINGS), [0, 3], [torch.float32, torch.float64])
)
def test_parity_settling(name, extra, dtype):
    wiring = WIRINGS[name]
    steps = wiring.steps_to(wiring.group("motor")) + extra
    backbone = noisy(Backbone(wiring, heads=2, settle_steps=steps, bias=extra == 0))
    fast, want, leaves = settled(backbone, dtype)
    torch.testing.assert_close(fast, want, rtol=0, atol=TOLERANCE[dtype])
    same_gradients(fast, want, leaves)


@pytest.mark.parametrize("activation", ACTIVATION_CODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parity_activations(activation, dtype):
    fast, want, leaves = settled(noisy(Backbone(WIRINGS["ncp"], heads=2, activation=activation)), dtype)
    size = max(1.0, want.abs().max().item())
    torch.testing.assert_close(fast / size, want / size, rtol=0, atol=TOLERANCE[dtype])
    same_gradients(fast, want, leaves)


def test_other_activations_are_left_to_torch():
    for activation in ("gelu", "silu", "elu"):
        fast, _, _ = settled(Backbone(WIRINGS["ncp"], heads=2, activation=activation), torch.float32)
        assert fast is None, activation


def test_one_circuit_for_all_heads():
    fast, want, leaves = settled(noisy(Backbone(WIRINGS["ncp"], heads=1)), torch.float64)
    torch.testing.assert_close(fast, want, rtol=0, atol=1e-12)
    same_gradients(fast, want, leaves)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (9, 7), (8, 8), (13, 5), (1, 130), (700, 8)])
def test_tiles_and_chunks_that_are_not_full(rows, columns):
    backbone = noisy(Backbone(WIRINGS["ncp"], heads=2))
    fast, want, leaves = settled(backbone, torch.float64, rows=rows, columns=columns)
    torch.testing.assert_close(fast, want, rtol=0, atol=1e-12)
    same_gradients(fast, want, leaves)


def test_tanh_is_exact_to_rounding_and_bounded():
    x = torch.cat(
        [torch.linspace(-12, 12, 200_001), torch.logspace(-20, 0, 1000), torch.tensor([0.0, 1e30, -1e30])]
    )
    y = activate(x).flatten()
    want = x.double().tanh()
    assert (y - want).abs().max() < 5e-7
    assert ((y - want).abs() <= 5e-7 * want.abs()).all()  # small numbers keep their digits
    assert y.abs().max() == 1
    assert torch.equal(activate(-x).flatten(), -y)
    edges = activate(torch.tensor([torch.inf, -torch.inf, torch.nan])).flatten()
    assert edges[:2].tolist() == [1, -1]
    assert edges[2].isnan()


def test_gradcheck_of_the_kernels():
    backbone = noisy(Backbone(WIRINGS["motor listens to motor"], heads=2))
    circuit = backbone.circuit
    index = torch.randint(3, (2, 4, 2))
    shapes = [(2, 4, circuit.columns), (2, 3, circuit.columns), (2, len(circuit.program.source)), (2, 4)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def settle(*x):
        return settle_selected(*x, index, circuit)

    assert torch.autograd.gradcheck(settle, inputs)
    assert torch.autograd.gradgradcheck(settle, inputs, fast_mode=True)
    mixed = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 4, 2), (3, 2, 5))]
    assert torch.autograd.gradcheck(lambda a, b: mix_selected(a, b, index), mixed)
    assert torch.autograd.gradgradcheck(lambda a, b: mix_selected(a, b, index), mixed, fast_mode=True)
    rows = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((4, 2, 5), (3, 2, 5))]
    assert torch.autograd.gradcheck(lambda a, b: dot_selected(a, b, index), rows)
    assert torch.autograd.gradgradcheck(lambda a, b: dot_selected(a, b, index), rows, fast_mode=True)


def test_parity_products_of_selected_rows():
    index, head = torch.randint(6, (3, 9, 4)), torch.arange(3)[:, None, None]
    query, key = torch.randn(9, 3, 7, requires_grad=True), torch.randn(6, 3, 7, requires_grad=True)
    want = (query.transpose(0, 1).unsqueeze(2) * key[index, head]).sum(-1)
    got = dot_selected(query, key, index)
    torch.testing.assert_close(got, want)
    same_gradients(got, want, [query, key])


def test_gradients_of_gradients_survive_other_strides():
    circuit = noisy(Backbone(WIRINGS["ncp"], heads=2)).circuit
    index = torch.randint(3, (2, 4, 2))
    shapes = [(circuit.columns, 2, 4), (circuit.columns, 2, 3), (len(circuit.program.source), 2), (30, 2)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    outer = [x.movedim(0, -1) for x in inputs[:2]] + [x.T for x in inputs[2:]]
    value = torch.randn(5, 3, 2, dtype=torch.float64, requires_grad=True).movedim(0, -1).transpose(1, 2)
    motor = settle_selected(*outer, index, circuit)
    mixed = mix_selected(motor[0], value.transpose(1, 2), index)
    grads = torch.autograd.grad(mixed.square().sum(), outer, create_graph=True)
    assert all(g.requires_grad for g in grads)
    assert all((g != 0).any() for g in torch.autograd.grad(sum(g.square().sum() for g in grads), inputs))


@examples(60)
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(1, 90),
    width=st.integers(1, 9),
    top_k=st.integers(1, 20),
    causal=st.booleans(),
    block_size=st.none() | st.integers(1, 100),
    reach=st.none() | st.integers(1, 60),
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
    circuit = noisy(Backbone(WIRINGS["ncp"], heads=2)).circuit
    index = torch.randint(50, (2, 1000, 8))  # several chunks of tiles
    shapes = [(2, 1000, circuit.columns), (2, 50, circuit.columns), (2, len(circuit.program.source)), (2, 30)]
    inputs = [torch.randn(shape, requires_grad=True) for shape in (*shapes, (50, 2, 7))]
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        motor = settle_selected(*inputs[:4], index, circuit)
        out = mix_selected(motor[0], inputs[4], index)
        dot = dot_selected(out, inputs[4], index)
        results.append((motor, out, dot, *torch.autograd.grad((dot.sin().sum(), motor[1].sum()), inputs)))
    for other in results[1:]:
        for i, (a, b) in enumerate(zip(other, results[0], strict=True)):
            if i in (5, 6):  # by weights and constants: sums over all pairs, a part in each thread
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
    text = (Path(library.__file__).parent / "circuit.cpp").read_text()
    for base in Base:
        assert f"k{base.name.capitalize()} = {int(base)}" in text
    for name, code in ACTIVATION_CODES.items():
        assert f"k{name.capitalize()} = {code}" in text
