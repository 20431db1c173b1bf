"""The models of the zoo by name, small, and what to feed them."""

import torch

import nacre

NAMES = nacre.list_models()
BASELINES = [n for n in NAMES if nacre.model_info(n).kind != "NAC"]


def make(name, **options):
    torch.manual_seed(1)
    return nacre.create(name, d_input=5, d_model=8, num_heads=2, **options)


def batch(rows=3, length=9, dtype=torch.float32):
    time = torch.rand(rows, length, dtype=torch.float64).add(0.1).cumsum(1)
    return torch.randn(rows, length, 5, dtype=dtype), time


def padding_of(rows, length, where):
    """Row 0 whole, row 1 padded at one side or inside, row 2 with one valid step, others whole."""
    padding = torch.zeros(rows, length, dtype=torch.bool)
    padding[1, {"right": slice(5, None), "left": slice(0, 4), "inside": slice(2, 5)}[where]] = True
    padding[2] = True
    padding[2, {"right": 0, "left": -1, "inside": 3}[where]] = False
    return padding


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
