"""torch.compile: one graph for all lengths, and the same numbers."""

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

import nacre
from nacre.layer.selection.choose import Candidates
from support.cases import PLUS, some

LENGTHS = (4, 9, 16, 17, 41, 101)
NETS = {
    "causal": lambda: nacre.NAC(8, 2, causal=True, backbone_units=12),
    "exact selection, Euler": lambda: nacre.NAC(8, 2, selection="exact", mode="euler", backbone_units=12),
    "all pairs, steady": lambda: nacre.NAC(8, 2, top_k=None, mode="steady", backbone_units=12),
    "random wiring": lambda: nacre.NAC(8, 2, wiring="random", backbone_units=12, phi="tanh"),
    "match": lambda: nacre.NAC(8, 2, match="both", reach=20, causal=True, backbone_units=12),
    "plus": lambda: nacre.NAC(8, 2, **PLUS),
    "plus, causal": lambda: nacre.NAC(8, 2, causal=True, **PLUS),
    "two layers": lambda: nacre.NACEncoder(nacre.NACConfig(d_model=8, num_heads=2, backbone_units=12), 2),
}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def inputs(length, batch=3):
    x = torch.randn(batch, length, 8)
    padding = torch.arange(length) >= torch.tensor([[length], [length - 1], [2]])
    return x, torch.rand(batch, length).cumsum(1), padding


# The default backend is torch's compiler; "eager" only traces, which is where graphs are counted.
CASES = [
    *(pytest.param(name, "eager", marks=() if name == "plus" else pytest.mark.deep) for name in NETS),
    pytest.param("causal", "inductor", marks=pytest.mark.deep, id="causal-compiled"),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, on its first compilation
@pytest.mark.parametrize(("name", "backend"), CASES)
def test_all_lengths_need_one_graph(name, backend):
    run_lengths(NETS[name]().eval(), backend, LENGTHS)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.deep
def test_a_first_length_equal_to_the_batch_size_costs_a_second_graph():
    run_lengths(NETS["causal"]().eval(), "eager", (3, *LENGTHS))
    assert counters["stats"]["unique_graphs"] == 2


@torch.no_grad()
def run_lengths(net, backend, lengths):
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend=backend)
    for length in lengths:
        x, time, padding = inputs(length)
        y = compiled(x, time=time, key_padding_mask=padding)
        torch.testing.assert_close(y, net(x, time=time, key_padding_mask=padding), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(["causal", "match", "plus"], "plus"))
def test_training_needs_one_graph_and_has_the_same_gradients(name):
    net = NETS[name]()
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in LENGTHS[1::2]:
        x, time, padding = inputs(length)
        x.requires_grad_()
        pull = torch.randn(3, length, 8)
        results = []
        for call in (compiled, net):
            y = call(x, time=time, key_padding_mask=padding)
            results.append((y, *torch.autograd.grad((y * pull).sum(), [x, *net.parameters()])))
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", some(["causal", "match", "plus, causal"], "plus, causal"))
def test_a_stream_needs_one_graph(name):
    layer = NETS[name]().eval()
    step = torch.compile(layer.step, fullgraph=True, dynamic=True, backend="eager")
    x, time, _ = inputs(20)
    state, twin = layer.init_state(3, max_len=25), layer.init_state(3, max_len=25)
    for i in range(20):
        y, state = step(x[:, i], state, time=time[:, i])
        expected, twin = layer.step(x[:, i], twin, time=time[:, i])
        torch.testing.assert_close(y, expected, rtol=0, atol=1e-6)
    assert torch.equal(state.length, twin.length)
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
def test_the_operators_keep_torchs_rules():
    ours = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("nacre::")]
    assert sorted(ours) == ["nacre::exact_topk", "nacre::sqrt_topk"]
    q = torch.randn(2, 12, 2, 4).transpose(1, 2)  # as a layer gives it: not contiguous
    padding, skip = torch.rand(2, 12) > 0.8, torch.rand(2, 12) > 0.8
    time = torch.rand(2, 12)
    for causal, near in ((False, 0), (True, 2), (False, 2)):
        masks = {"key_padding": padding, "query_padding": skip}
        seen = Candidates.of((2, 12, 12), q.device, causal=causal, near=near, moments=(time, time), **masks)
        candidates = (q, q, seen.rank, seen.seen, seen.near.first, near)
        for block, reach in ((None, None), (5, 8)):
            torch.library.opcheck(torch.ops.nacre.sqrt_topk.default, (*candidates, 3, causal, block, reach))
        torch.library.opcheck(torch.ops.nacre.exact_topk.default, (*candidates, 3))


LENGTH_CHANGES = [
    pytest.param("nac", True, (20, 33)),
    *(
        pytest.param(name, dynamic, (20, 33, 47, 64), marks=pytest.mark.deep)
        for name in ("nac", "nac-plus", "sdpa", "mtan", "linear-attention")
        for dynamic in (True, None)
    ),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's own look at it
@pytest.mark.parametrize(("name", "dynamic", "lengths"), LENGTH_CHANGES)
def test_compiled_training_goes_on_when_the_length_changes(name, dynamic, lengths):
    """With torch's compiler itself: it checks the strides of what it kept for the backward pass."""
    net = nacre.create(name, d_input=8, d_model=8, num_heads=2)
    compiled = torch.compile(net, dynamic=dynamic)
    with fresh_cache():
        for length in lengths:
            x, time, padding = inputs(length)
            results = []
            for call in (compiled, net):
                y = call(x, time=time, key_padding_mask=padding)
                results.append((y, *torch.autograd.grad(y.square().sum(), net.parameters())))
            for ours, theirs in zip(*results, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
