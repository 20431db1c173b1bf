"""Per-sample gradients by `torch.func.vmap`, with a padding mask for each sample."""

import pytest
import torch
from torch.func import functional_call, grad, vmap

from nacre.layer import pairs
from nacre.models import _s4_kernel, contiformer
from support.models import batch, each, make, names

NOT_BY_TORCH = "mtan"  # vmap cannot enter PyTorch's GRU
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # in kernels of PyTorch


def per_sample(model, padded, with_time=True):
    """Gradients of all parameters for each of four samples, by vmap and by a loop."""
    x, time = batch(4, 12)
    padding = torch.zeros(4, 12, dtype=torch.bool)
    padding[1, 7:] = padding[2, :3] = padding[3, 2] = padding[3, 5:7] = True
    weight = torch.randn(4, 12, 8)

    def loss(parameters, x, time, padding, weight):
        masks = {"key_padding_mask": padding[None]} if padded else {}
        stamps = {"time": time[None]} if with_time else {}
        return (functional_call(model, parameters, (x[None],), {**stamps, **masks}) * weight).sum()

    parameters, samples = dict(model.named_parameters()), (x, time, padding, weight)
    by_vmap = vmap(grad(loss), in_dims=(None, 0, 0, 0, 0))(parameters, *samples)
    losses = [loss(parameters, *sample) for sample in zip(*samples, strict=True)]
    by_loop = [torch.autograd.grad(one, list(parameters.values())) for one in losses]
    return by_vmap, dict(zip(parameters, map(torch.stack, zip(*by_loop, strict=True)), strict=True))


def check(model, **case):
    got, want = per_sample(model, **case)
    for key in want:
        torch.testing.assert_close(got[key], want[key], rtol=1e-4, atol=1e-5)


@each([n for n in names("nac-pw", "nac-euler", "nac-steady") if n != NOT_BY_TORCH])
def test_per_sample_gradients_are_those_of_a_loop(name):
    model = make(name).eval()
    for padded, with_time in ((True, True), (True, False), (False, True)):
        check(model, padded=padded, with_time=with_time)


@each(["nac", "nac-plus", "s4", "contiformer"])
def test_nothing_is_recomputed_where_torch_does_not_allow_it(name, monkeypatch):
    """Long sequences are worked on in parts, which are recomputed in the backward pass."""
    for module, limit in ((pairs, "CHUNK_NUMBERS"), (_s4_kernel, "_STATES_AT_ONCE"), (contiformer, "_BLOCK")):
        monkeypatch.setattr(module, limit, 1000)
    check(make(name).eval(), padded=True)
