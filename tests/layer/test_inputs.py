"""Padding left out: the same results as computing it and throwing it away."""

import pytest
import torch

import nacre
from nacre.layer import attention
from nacre.layer.inputs import Packing
from support.cases import PLUS


def test_pack_unpack_and_number():
    x = torch.arange(12.0).view(2, 3, 2)
    padding = torch.tensor([[False, True, False], [True, False, False]])
    packing = Packing.of(x, padding)
    packed = packing.pack(x)
    assert packed.tolist() == [[0, 1], [4, 5], [8, 9], [10, 11]]
    assert torch.equal(packing.unpack(packed), x.masked_fill(padding.unsqueeze(-1), 0))
    assert packing.number(torch.tensor([0, 2, 4, 5])).tolist() == [0, 1, 2, 3]


def test_without_padding_or_without_anything_else_all_is_kept():
    x = torch.randn(2, 3, 2)
    for padding in (None, torch.zeros(2, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)):
        packing = Packing.of(x, padding)
        assert packing.rows is None
        assert torch.equal(packing.unpack(packing.pack(x)), x)
        assert torch.equal(packing.number(torch.arange(6)), torch.arange(6))


@pytest.mark.parametrize(
    ("options", "cross"),
    [
        ({}, False),
        ({"causal": True}, True),
        ({"selection": "exact"}, False),
        ({"top_k": None}, True),
        (PLUS, False),
        (PLUS, True),
    ],
    ids=str,
)
def test_leaving_padding_out_changes_nothing(options, cross, monkeypatch):
    layer = nacre.NAC(16, 2, **options).double()
    x = torch.randn(3, 30, 16, dtype=torch.float64, requires_grad=True)
    time, padding = torch.rand(3, 30).cumsum(1), torch.rand(3, 30) < 0.5
    padding[1] = True  # a sequence of nothing but padding
    key, value = torch.randn(2, 3, 30, 16, dtype=torch.float64)
    others = {"key": key, "value": value, "key_time": time + 1} if cross else {}

    def run():
        y = layer(x, **others, time=time, key_padding_mask=padding)
        return y, torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])

    y, grads = run()
    keep = Packing.of
    monkeypatch.setattr(attention.Packing, "of", lambda x, padding=None: keep(x))
    want, want_grads = run()
    torch.testing.assert_close(y, want, rtol=1e-11, atol=1e-12)
    for a, b in zip(grads, want_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    assert (y.flatten(0, 1)[padding.flatten()] == 0).all() or cross


def test_work_follows_what_is_not_padding(monkeypatch):
    seen = []
    gate = nacre.SensoryGate.forward
    monkeypatch.setattr(nacre.SensoryGate, "forward", lambda self, u: seen.append(len(u)) or gate(self, u))
    padding = torch.ones(4, 50, dtype=torch.bool)
    padding[:, :7] = False
    nacre.NAC(16, 2)(torch.randn(4, 50, 16), key_padding_mask=padding)
    assert seen == [28, 28, 28]
