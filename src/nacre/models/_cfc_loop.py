"""The recurrence of closed-form continuous-time layers (CfC) in PyTorch: step by step, on any device."""

from collections.abc import Callable

import torch
from torch import Tensor

from nacre.models._base import unbind_time

Update = Callable[[Tensor, Tensor], Tensor]


def run_steps(drive: Tensor, elapsed: Tensor, recurrent: Tensor, *later: Tensor | None, update: Update) -> Tensor:
    """States after each step, from a first state of zeros.

    Args:
        drive: [B, T, k] what inputs add to the first layer, with its bias.
        elapsed: [B, T, 1].
        recurrent: [n, k] what the state adds to the first layer.
        *later: Weight [k, k'] and bias [k'] of each layer after the first; a tanh goes before each. None for none.
        update: The next state [B, n] from the last layer's values [B, k'] and elapsed [B, 1].

    Returns:
        [B, T, n].
    """
    tensors = [tensor for tensor in later if tensor is not None]
    layers = list(zip(tensors[::2], tensors[1::2], strict=True))
    state = drive.new_zeros(drive.shape[0], recurrent.shape[0])
    states = []
    for now, dt in zip(*unbind_time([drive, elapsed]), strict=True):
        values = torch.addmm(now, state, recurrent)
        for weight, bias in layers:
            values = torch.addmm(bias, values.tanh(), weight)
        state = update(values, dt)
        states.append(state)
    return torch.stack(states, 1)


def gated(heads: Tensor, elapsed: Tensor) -> Tensor:
    """(1 - s) tanh(f) + s tanh(g) with s = sigmoid(a elapsed + b), from heads [f, g, a, b]: [B, 4n] -> [B, n]."""
    first, second, share = _contents_and_share(heads, elapsed)
    return first.lerp(second, share)


def without_gate(heads: Tensor, elapsed: Tensor) -> Tensor:
    """tanh(f) + s tanh(g), as in `gated`."""
    first, second, share = _contents_and_share(heads, elapsed)
    return torch.addcmul(first, second, share)


def decaying(heads: Tensor, elapsed: Tensor, rate: Tensor, amplitude: Tensor) -> Tensor:
    """A - A f exp(-elapsed (rate + |f|)): [B, n] -> [B, n], with rate >= 0 and amplitude A of each unit [n]."""
    decay = torch.exp(-elapsed * (rate + heads.abs()))
    return amplitude * (1 - heads * decay)


def _contents_and_share(heads: Tensor, elapsed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    units = heads.shape[1] // 4
    contents, rate, shift = heads.split((2 * units, units, units), 1)
    first, second = contents.tanh().chunk(2, 1)
    return first, second, torch.addcmul(shift, rate, elapsed).sigmoid()
