"""`WindowMap`: interpolation against numpy, and the linear map."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.tasks.window_map import WindowMap, interpolate
from support.hypothesis import examples


@examples(60)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(0, 4), st.integers(1, 12))
def test_parity_interpolation_is_that_of_numpy(seed, steps, padded, points):
    g = torch.Generator().manual_seed(seed)
    time = torch.rand(1, steps, generator=g, dtype=torch.float64).cumsum(1)
    x = torch.randn(1, steps, 2, generator=g, dtype=torch.float64)
    at = torch.rand(1, points, generator=g, dtype=torch.float64) * (time[0, -1] + 1) - 0.5
    at[0, 0] = time[0, seed % steps]  # exactly at a step
    want = np.stack([np.interp(at[0], time[0], x[0, :, i]) for i in range(2)], -1)
    padding = torch.arange(steps + padded)[None] >= steps
    far = [torch.full_like(part[:, :1], torch.nan).repeat_interleave(padded, 1) for part in (x, time)]
    x, time = (torch.cat(part, 1) for part in zip((x, time), far, strict=True))
    got = interpolate(x, time, padding, at)
    torch.testing.assert_close(got[0], torch.from_numpy(want), rtol=0, atol=1e-12)


def test_equal_stamps_are_no_division_by_zero():
    time = torch.tensor([[0.0, 1.0, 1.0, 2.0]], dtype=torch.float64)
    x = torch.tensor([[[0.0], [1.0], [5.0], [6.0]]], requires_grad=True)
    got = interpolate(x, time, torch.zeros(1, 4, dtype=torch.bool), torch.tensor([[0.5, 1.0, 1.5]]).double())
    assert got[0, :, 0].tolist() == [0.5, 1.0, 5.5]
    assert torch.autograd.grad(got.sum(), x)[0].isfinite().all()


def test_a_regular_window_is_mapped_as_it_is():
    window = WindowMap(points=5, step=0.25, d_input=3, outputs=2)
    x, padding = torch.randn(4, 5, 3), torch.zeros(4, 5, dtype=torch.bool)
    time = torch.arange(5, dtype=torch.float64).expand(4, 5) * 0.25 + 1e4
    assert (window(x, time, padding) == 0).all()  # adds nothing at first
    torch.nn.init.normal_(window.linear.weight)
    torch.testing.assert_close(window(x, time, padding), window.linear(x.flatten(1)))
