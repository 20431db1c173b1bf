"""The Kalman filter of independently decaying states, of which one number is observed at each step.

Shapes: B rows, T steps, c channels, each with a filter of its own, and l states of each filter.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Filtered:
    """What the filter knows after each step."""

    known: Tensor  # [B, T, c, l, 1 + l] mean m and covariance S of the states given all up to this step, [m | S]
    error: Tensor  # [B, T, c] observation minus prediction, in standard deviations of the prediction
    variance: Tensor  # [B, T, c] of the prediction

    @property
    def mean(self) -> Tensor:
        """[B, T, c, l]."""
        return self.known[..., 0]

    @property
    def covariance(self) -> Tensor:
        """[B, T, c, l, l]."""
        return self.known[..., 1:]

    def log_density(self) -> Tensor:
        """Log density of each observation given those before it: [B, T, c]."""
        return -0.5 * (torch.log(2 * math.pi * self.variance) + self.error.square())


def transition(rate: Tensor, drive: Tensor, elapsed: Tensor) -> tuple[Tensor, Tensor]:
    """Solve dl = -rate l dt + drive dw, with one Brownian motion w for all l states, over the elapsed time.

    From rate [..., l] > 0, drive [..., l] and elapsed [..., 1] >= 0: the factors [..., l] of the states, and the
    covariance [..., l, l] of what is added to them. Two transitions in a row are one over the sum of their times.
    """
    rates = rate.unsqueeze(-1) + rate.unsqueeze(-2)
    spread = -torch.expm1(-rates * elapsed.unsqueeze(-1)) / rates
    return torch.exp(-rate * elapsed), drive.unsqueeze(-1) * drive.unsqueeze(-2) * spread


def kalman_filter(
    z: Tensor,  # [B, T, c]
    loading: Tensor,  # [B, T, c, l]
    noise: Tensor,  # [B, T, c] variances, positive
    factor: Tensor,  # [B, T, c, l] of the transition that ends at a step
    innovation: Tensor,  # [B, T, c, l, l] covariance of the same transition
    prior: Tensor,  # [B, c, l, 1 + l] mean and covariance [m | S] before the first transition
) -> Filtered:
    """Filter observations z_i = loading_i' l_i + noise of the states l_i = factor_i l_{i-1} + innovation.

    Everything in float64, which costs nothing for such small matrices: where an observation is much more exact
    than the prior, float32 would lose the covariance, and all that follows, in rounding. float64 bears predictions
    a' l whose variance is 1e12 times the noise.
    """
    rows, _, channels, latent = loading.shape
    # [m | S] is one matrix: prediction and update treat both alike.
    factors = torch.cat([torch.ones_like(factor[..., :1]), factor], -1).unsqueeze(-2) * factor.unsqueeze(-1)
    added = pad(innovation, (1, 0))
    observed = pad(z.unsqueeze(-1), (0, latent)).unsqueeze(-2)  # [z | 0]
    tensors = (factors, added, loading.unsqueeze(-2), observed, noise[..., None, None])
    inputs = [tensor.transpose(0, 1).flatten(1, 2).contiguous().unbind(0) for tensor in tensors]  # T of [B c, ...]
    state = prior.flatten(0, 1)  # [B c, l, 1 + l]
    states, seens, variances = [], [], []
    for f, q, a, y, r in zip(*inputs, strict=True):
        state = torch.addcmul(q, f, state)
        seen = torch.baddbmm(y, a, state, beta=-1)  # [a' m - z | a' S], [B c, 1, 1 + l]
        variance = torch.baddbmm(r, seen[..., 1:], a.mT)  # r + a' S a, [B c, 1, 1]
        seen = seen * variance.rsqrt()
        # S stays exactly symmetric, as entries (j, k) and (k, j) lose the product of the same two numbers.
        state = torch.baddbmm(state, seen[..., 1:].mT, seen, alpha=-1)
        states.append(state)
        seens.append(seen)
        variances.append(variance)
    known, seen, variance = (
        torch.stack(parts).unflatten(1, (rows, channels)).transpose(0, 1) for parts in (states, seens, variances)
    )
    return Filtered(known, -seen[..., 0, 0], variance[..., 0, 0])
