"""What the tests of LTC models and those of their kernels share."""

import torch

import nacre
from reference.compare import assert_same

NAMES = ["ltc-fc", "ltc-ncp"]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}
GRADIENT_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def make(name, dtype=torch.float64, d_model=10, **options):
    """A model none of whose parameters is at a special value."""
    torch.manual_seed(3)
    model = nacre.create(name, d_input=5, d_model=d_model, num_heads=1, **options).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model


def batch(rows=3, length=7, dtype=torch.float64):
    """Inputs and irregular stamps that can be differentiated by."""
    time = torch.rand(rows, length, dtype=torch.float64).mul(3).add(0.01).cumsum(1)
    return torch.rand(rows, length, 5, dtype=dtype).mul(2).sub(0.5).requires_grad_(), time.requires_grad_()


def same(got, want, leaves):
    assert_same(got, want, leaves, TOLERANCE[want.dtype], grad_near=GRADIENT_TOLERANCE[want.dtype])
