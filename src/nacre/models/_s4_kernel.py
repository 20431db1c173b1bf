"""The ways in which `S4` computes its state-space model: a convolution, and a kernel or parallel scan.

All take rates z = Lambda * step [d, n] per unit of time and weights w = C / Lambda [d, n], complex, one of each
conjugate pair, and give y_i = 2 Re sum_n w_n x_n,i of the states

    x_i = exp(z e_i) x_{i-1} + (exp(z e_i) - 1) u_i

with elapsed times e_i, of which the first is 1, for inputs u [B, T, d].
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from nacre._util.tracing import inside_torch_func
from nacre.native import library
from nacre.native.s4 import run_states

# Numbers in a tensor of states. What is larger is computed in groups of channels, and again in the backward pass.
_STATES_AT_ONCE = 2**19
# Stamps this close to a grid, in units of its interval, are taken to lie on it, so that outputs of a row hardly
# depend on whether those of other rows do, too.
_GRID_TOLERANCE, _GRID_TOLERANCE_DOUBLE = 1e-6, 1e-10
# Time constants of the slowest state after which e^-40 of it is left, less than rounding shows.
_SETTLED = 40.0


def legs_spectrum(d_state: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues of the normal part of the HiPPO-LegS matrix, and how much input each of them gets.

    The matrix A + P P' = -1/2 I + S with a skew-symmetric S is normal: its eigenvalues are -1/2 + i omega in
    conjugate pairs. Returns the positive omega, and |V* B| with unit eigenvectors V: float64 [d_state / 2] each.
    """
    odd = 2 * torch.arange(d_state, dtype=torch.float64) + 1  # 2n + 1
    outer = (odd[:, None] * odd).sqrt()
    # A is -outer below its diagonal, and P P' is outer / 2 everywhere.
    skew = outer.triu(1) / 2 - outer.tril(-1) / 2
    frequency, vectors = torch.linalg.eigh(-1j * skew)
    half = d_state // 2
    gain = (vectors.mH @ odd.sqrt().to(vectors.dtype)).abs()
    return frequency[half:], gain[half:]


def common_interval(time: Tensor, valid: Tensor, dtype: torch.dtype) -> float | None:
    """The interval of the grid on which the valid steps of every row lie as far as `dtype` can tell, or None.

    From time [B, T] float64 and valid [B, T] bool, True ... True False ... False in each row.
    """
    tolerance = _GRID_TOLERANCE_DOUBLE if dtype == torch.float64 else _GRID_TOLERANCE
    counts = valid.sum(1)
    row = counts.argmax()
    last = (counts[row] - 1).clamp(min=0)
    interval = (time[row, last] - time[row, 0]) / last.clamp(min=1)
    grid = time[:, :1] + interval * torch.arange(time.shape[1], device=time.device)
    off = ((time - grid).abs() > tolerance * interval) & valid
    return None if off.any() else interval.item()


def convolve(u: Tensor, rates: Tensor, weights: Tensor, interval: float) -> Tensor:
    """Outputs of steps that are `interval` apart, as a convolution by FFT.

    The first step is held for 1, not for `interval`, so it has a kernel of its own.
    """
    length = u.shape[1]
    first, later = _kernels(rates, weights, interval, length).to(u.dtype)  # [d, T] each
    u = u.transpose(1, 2)  # [B, d, T]
    start, rest = u[..., :1], torch.nn.functional.pad(u[..., 1:], (1, 0))
    # Padded to 2 T: the convolution is not circular.
    spectrum = torch.fft.rfft(rest, 2 * length) * torch.fft.rfft(later, 2 * length)
    return (torch.fft.irfft(spectrum, 2 * length)[..., :length] + first * start).transpose(1, 2)


def _kernels(rates: Tensor, weights: Tensor, interval: float, length: int) -> Tensor:
    """Answers 2 Re sum_n w_n (exp(z_n e) - 1) exp(z_n interval l) to a first and to a later step: [2, d, length].

    With l = block * i + j a power is a product of one of few for i and one of few for j, and the sum over n a
    product of small matrices, so that no tensor [d, n, length] is made. float64: phases grow with the length.
    """
    block = math.ceil(math.sqrt(length))
    rates, weights = rates.to(torch.complex128), weights.to(torch.complex128)
    steps = torch.arange(block, device=rates.device, dtype=torch.float64) * interval
    coarse = torch.exp(rates[:, None] * (steps[:, None] * block))  # [d, block, n]
    fine = torch.exp(rates[:, None] * steps[:, None])  # [d, block, n]
    gains = torch.stack([torch.expm1(rates), torch.expm1(rates * interval)]) * (2 * weights)  # [2, d, n]
    left = torch.view_as_real((gains[:, :, None] * coarse).conj().resolve_conj())  # [2, d, block, n, 2]
    right = torch.view_as_real(fine)  # [d, block, n, 2]
    return (left.flatten(3) @ right.flatten(2).mT).flatten(2)[..., :length]


def recur(u: Tensor, rates: Tensor, weights: Tensor, elapsed: Tensor, asks: Tensor | None = None) -> Tensor:
    """Outputs of steps at any distance `elapsed` [B, T, 1], by a kernel or by a scan.

    Steps that only ask, `asks` [B, T] bool, leave the states as they were.
    """
    # By then all states have settled. Later still, the rounding of exp(z e) = 0, times e, would be their gradient.
    elapsed = elapsed.clamp(max=_SETTLED / rates.real.detach().abs().min())
    parts = torch.view_as_real(rates), torch.view_as_real(weights)
    if not elapsed.requires_grad and library.runs(u, elapsed, *parts):

        def same(u: Tensor, elapsed: Tensor, rates: Tensor, weights: Tensor) -> Tensor:
            return _recur(u, torch.view_as_complex(rates), torch.view_as_complex(weights), elapsed, asks)

        return run_states(u, elapsed, *parts, asks, same)
    rows, length, width = u.shape
    group = max(1, _STATES_AT_ONCE // (rows * length * rates.shape[1]))
    if group >= width or inside_torch_func():
        return _recur(u, rates, weights, elapsed, asks)
    parts = [
        checkpoint(_recur, *part, elapsed, asks, use_reentrant=False, preserve_rng_state=False)
        for part in zip(u.split(group, 2), rates.split(group), weights.split(group), strict=True)
    ]
    return torch.cat(parts, 2)


def _recur(u: Tensor, rates: Tensor, weights: Tensor, elapsed: Tensor, asks: Tensor | None) -> Tensor:
    factor, added = _terms(u, rates, weights, elapsed)
    if asks is None:
        return 2 * linear_scan(factor, added).sum(-1).real
    hold = asks[..., None, None]
    states = linear_scan(factor.masked_fill(hold, 1), added.masked_fill(hold, 0))
    return 2 * torch.where(hold, torch.addcmul(added, factor, states), states).sum(-1).real


def _terms(u: Tensor, rates: Tensor, weights: Tensor, elapsed: Tensor) -> tuple[Tensor, Tensor]:
    """Factors, and what is added, in the recurrence of the products w x of weights and states: [B, T, d, n] each.

    Weighting the input instead of the states is the same, and leaves only a sum at the end.
    """
    # exp - 1 in one function: their difference would lose the digits of slow states.
    change = _expm1(rates * elapsed.unsqueeze(-1))
    return change + 1, change * (weights * u.unsqueeze(-1))


def _expm1(z: Tensor) -> Tensor:
    """exp(z) - 1 of complex z; of its parts where torch writes ONNX, which has no complex numbers."""
    if not torch.onnx.is_in_onnx_export():
        return torch.expm1(z)
    real, imag = torch.view_as_real(z).unbind(-1)
    return torch.complex(
        torch.expm1(real) * imag.cos() - 2 * (imag / 2).sin().square(), torch.exp(real) * imag.sin()
    )


def weighted_states(u: Tensor, rates: Tensor, weights: Tensor, elapsed: Tensor, before: Tensor) -> Tensor:
    """Products w x of weights and states after each step [B, T, d, n].

    From real and imaginary parts of those before the first, [B, d, n, 2].
    """
    factor, added = _terms(u, rates, weights, elapsed)
    if u.shape[1] == 1:  # a step of a stream
        return added + factor * torch.view_as_complex(before.unsqueeze(1))
    states, before = [], torch.view_as_complex(before)
    for step in range(u.shape[1]):
        before = torch.addcmul(added[:, step], factor[:, step], before)
        states.append(before)
    return torch.stack(states, 1)


def linear_scan(a: Tensor, b: Tensor) -> Tensor:
    """Solve y_i = a_i y_{i-1} + b_i along dimension 1, with zeros before the first step, all steps at once.

    Takes real or complex a and b [B, T, ...]. Neighbouring steps are merged into one, which leaves half as many,
    and so on: log2 T rounds of few large operations, about 3 T products in all. Factors are only ever multiplied
    with each other, so nothing grows where |a| <= 1. For the gradient only `a` and the result are kept.

    Example:
        >>> linear_scan(torch.full((1, 4), 0.5), torch.ones(1, 4))
        tensor([[1.0000, 1.5000, 1.7500, 1.8750]])
    """
    y: Any = _LinearScan.apply(a, b)
    return y


def _scan(a: Tensor, b: Tensor) -> Tensor:
    length = a.shape[1]
    if length == 1:
        return b.clone()
    pairs = length - length % 2
    first, second = slice(0, pairs, 2), slice(1, pairs, 2)
    odd = _scan(a[:, second] * a[:, first], torch.addcmul(b[:, second], a[:, second], b[:, first]))
    y = torch.empty_like(b)
    y[:, 0] = b[:, 0]
    y[:, 1::2] = odd
    y[:, 2::2] = torch.addcmul(b[:, 2::2], a[:, 2::2], odd[:, : (length - 1) // 2])
    return y


class _LinearScan(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return _scan(a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ANN401
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        a, y = ctx.saved_tensors
        # The same recurrence from the end: step i gets the gradient of step i + 1 times a_{i+1}.
        b_grad = linear_scan(a.conj().roll(-1, 1).flip(1), grads[0].flip(1)).flip(1)
        before = torch.cat([torch.zeros_like(y[:, :1]), y[:, :-1]], 1)
        return b_grad * before.conj(), b_grad
