"""Operators that nacre writes in ONNX itself, run one by one in onnxruntime: equal to PyTorch's, ties too."""

import itertools

import pytest
import torch
from onnxscript import tensor

from nacre.deploy import operators
from nacre.layer.selection.blocks import search_blocks
from nacre.layer.selection.choose import Candidates, _exact_search
from nacre.native.library import switched_off
from support.models import case


def run(function, *arguments):
    """An operator's results as tensors."""
    given = [tensor.Tensor(x.numpy()) if isinstance(x, torch.Tensor) else x for x in arguments]
    found = function(*given)
    return [torch.from_numpy(x.value) for x in (found if isinstance(found, tuple) else (found,))]


def asked(batch, queries, keys, causal, near):
    """Queries and keys of few different numbers, so that most scores are ties, and who may see whom."""
    q, k = (torch.randint(-1, 2, (batch, 2, size, 3)).float() for size in (queries, keys))
    padding = torch.rand(batch, keys) > 0.7
    padding[0] = False
    padding[-1] = True  # a row without any key
    time = torch.randint(0, 9, (batch, keys)).double().sort(1).values
    moments = (time[:, :queries], time)
    shape = (batch, queries, keys)
    candidates = Candidates.of(shape, q.device, key_padding=padding, causal=causal, near=near, moments=moments)
    return q, k, candidates.rank, candidates.seen, candidates.near.first, near


def same(got, wanted, *labels):
    with case(*labels):
        for one, other in zip(got, wanted, strict=True):
            assert torch.equal(one, other)


@pytest.mark.slow  # a session of onnxruntime for each of some hundred operators
@pytest.mark.parametrize("near", [0, 3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("size", "block", "reach"),
    [(30, 4, 9), *(pytest.param(n, None, None, marks=pytest.mark.deep) for n in (1, 70))],
)
def test_the_search_in_blocks_finds_the_same_keys(size, block, reach, causal, near):
    q, k, *rest = asked(3, size, size, causal, near)
    with switched_off():
        wanted = search_blocks(q, k, *rest, 5, causal, block, reach)
    same(run(operators.sqrt_topk, q, k, *rest, 5, causal, block, reach), wanted)


@pytest.mark.parametrize("size", [4, pytest.param(30, marks=pytest.mark.deep)])
def test_the_exact_search_finds_the_same_keys(size):
    q, k, *rest = asked(3, size, size, False, 3)
    same(run(operators.exact_topk, q, k, *rest, 5), _exact_search(q, k, *rest, 5))


def test_sorting_keeps_the_order_of_equal_entries():
    for x, dim, down in itertools.product(
        [torch.randint(0, 3, (4, 9)), torch.randint(0, 3, (4, 9)).float()], (0, -1), (False, True)
    ):
        values, places = torch.sort(x, stable=True, dim=dim, descending=down)
        same(run(operators.sort, x, True, dim, down), [values, places], x.dtype, dim, down)


def test_places_in_ascending_rows():
    table = torch.randint(0, 9, (3, 12)).double().sort(1).values
    table[1, 8:] = torch.inf
    values = torch.arange(-1, 11).double().expand(3, -1).contiguous()
    for right in (False, True):
        wanted = torch.searchsorted(table, values, right=right)
        same(run(operators.searchsorted, table, values, False, right), [wanted], right)


def test_small_numbers_keep_their_digits():
    x = torch.tensor([-90.0, -3.0, -1e-5, 0.0, 1e-30, 1e-5, 0.3, 5.0])
    torch.testing.assert_close(run(operators.expm1, x)[0], torch.expm1(x), rtol=1e-6, atol=0)
