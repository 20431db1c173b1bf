"""Steps that are only keys, in a NAC layer: the answers of the others stay what they are."""

import pytest
import torch

import nacre
from support.refused import refused

pytestmark = pytest.mark.usefixtures("either_path")

OPTIONS = {
    "nac": {},
    "causal": {"causal": True},
    "nac-plus": {"clock": 2, "near": 2, "top_k": 4, "match": "content", "phi": "linear", "backbone_units": 12},
}


def layer(**options):
    torch.manual_seed(2)
    return nacre.NAC(8, 2, d_input=5, **options).double()


def drawn(rows=3, length=11):
    torch.manual_seed(0)
    x = torch.randn(rows, length, 5, dtype=torch.float64, requires_grad=True)
    time = torch.rand(rows, length, dtype=torch.float64).cumsum(1)
    padding = torch.arange(length) >= torch.tensor([[length], [8], [2]])
    return x, time, padding, torch.rand(rows, length) < 0.7


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_answers_and_gradients_of_the_others_stay(name, stamped):
    net = layer(**OPTIONS[name])
    x, time, padding, skipped = drawn()
    calls = {"time": time if stamped else None, "key_padding_mask": padding}
    got = net(x, **calls, key_only=skipped)
    want = net(x, **calls).masked_fill(skipped.unsqueeze(-1), 0)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    weight = torch.randn_like(got)
    gradients = [torch.autograd.grad((y * weight).sum(), [x, *net.parameters()]) for y in (got, want)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


def test_with_questions_and_a_trace():
    net = layer(**OPTIONS["nac-plus"])
    x, time, padding, skipped = drawn()
    asks = torch.rand(x.shape[:2]) < 0.3
    y, trace = net(x, time=time, key_padding_mask=padding, query_only=asks, key_only=skipped, return_trace=True)
    want = net(x, time=time, key_padding_mask=padding, query_only=asks)
    torch.testing.assert_close(y, want.masked_fill(skipped.unsqueeze(-1), 0), rtol=1e-9, atol=1e-9)
    assert not trace.valid.transpose(1, 2)[skipped].any()


def test_only_wanted_answers_are_computed(monkeypatch):
    from nacre.layer import attention

    seen = []
    original = attention.attend

    def watched(tokens, *rest):
        seen.append(tokens.index)
        return original(tokens, *rest)

    monkeypatch.setattr(attention, "attend", watched)
    x, time, padding, skipped = drawn()
    layer()(x, time=time, key_padding_mask=padding, key_only=skipped)
    assert seen[0].shape[1] == (~skipped & ~padding).sum()


def test_bad_masks_are_refused():
    x, time, _, skipped = drawn()
    with refused("key_only belongs to self attention", ValueError):
        layer()(x, x, x, time=time, key_time=time, key_only=skipped)
    with refused(r"key_only must have shape \(3, 11\)", ValueError):
        layer()(x, time=time, key_only=skipped[:, :4])
    with refused("key_only must be a bool tensor", TypeError):
        layer()(x, time=time, key_only=skipped.float())
