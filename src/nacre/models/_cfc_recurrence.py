"""The recurrence of closed-form continuous-time networks (CfC), compiled or step by step in PyTorch."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.models._base import Steps, unbind_time
from nacre.native import library
from nacre.native.cfc import run_layer

MODES = ("default", "no_gate", "pure")
Update = Callable[[Tensor, Tensor], Tensor]


class ClosedForm(nn.Module):
    """The states of a layer of `units` neurons, from what drives its heads.

    The modes "default" and "no_gate" have four heads; "pure" has one, and two parameters for each unit.
    """

    def __init__(self, units: int, mode: str) -> None:
        super().__init__()
        choice("mode", mode, MODES)
        self.mode = mode
        self.heads = 1 if mode == "pure" else 4
        if mode == "pure":
            # Not zero: |w| has no slope there, so it could never learn.
            self.decay_rate = nn.Parameter(torch.empty(units).uniform_(-1, 1) / units**0.5)
            self.amplitude = nn.Parameter(torch.ones(units))

    def forward(
        self, drive: Tensor, elapsed: Tensor, recurrent: Tensor, *later: Tensor, state: Tensor | None = None
    ) -> Tensor:
        """See `run_steps`; from a state [B, n] if there is one."""
        if state is not None:  # its part of the first step's drive is all that it does
            first = torch.addmm(drive[:, 0], state, recurrent)
            drive = torch.cat([first.unsqueeze(1), drive[:, 1:]], 1)
        loop = functools.partial(run_steps, update=self._update())
        if self.mode == "pure":
            return loop(drive, elapsed, recurrent, *later)
        gate = self.mode == "default"
        if len(later) in (0, 2) and not elapsed.requires_grad and library.runs(drive, elapsed, recurrent, *later):
            weight, bias = later or (None, None)
            return run_layer(drive, elapsed, recurrent, weight, bias, gate=gate, loop=loop)
        return loop(drive, elapsed, recurrent, *later)

    def _update(self) -> Update:
        if self.mode == "pure":
            return functools.partial(decaying, rate=self.decay_rate.abs(), amplitude=self.amplitude)
        return functools.partial(mixed, gate=self.mode == "default")

    def extra_repr(self) -> str:
        """The mode."""
        return f"mode={self.mode!r}"


def held_for(steps: Steps) -> Tensor:
    """How long each input acts, [B, T, 1]: the time since the step before, and 1 at the first step and at padding.

    Not 0 at padding: in "pure" mode states can grow without bounds while no time passes.
    """
    elapsed = steps.elapsed(1.0)
    return elapsed if steps.padding is None else elapsed.masked_fill(steps.padding.unsqueeze(-1), 1.0)


def run_steps(drive: Tensor, elapsed: Tensor, recurrent: Tensor, *later: Tensor | None, update: Update) -> Tensor:
    """States [B, T, n] after each step, from an initial state of zeros.

    Args:
        drive: [B, T, k] what the inputs add to the first layer, with its bias.
        elapsed: [B, T, 1].
        recurrent: [n, k] weight of the state in the first layer.
        *later: Weight [k, k'] and bias [k'] of each further layer, which a tanh precedes. None is ignored.
        update: The next state [B, n] from the last layer's values [B, k'] and elapsed [B, 1].
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


def mixed(heads: Tensor, elapsed: Tensor, gate: bool) -> Tensor:
    """From heads [f, g, a, b] with s = sigmoid(a elapsed + b): [B, 4n] -> [B, n].

    With gate (1 - s) tanh(f) + s tanh(g), without it tanh(f) + s tanh(g).
    """
    units = heads.shape[1] // 4
    contents, rate, shift = heads.split((2 * units, units, units), 1)
    first, second = contents.tanh().chunk(2, 1)
    share = torch.addcmul(shift, rate, elapsed).sigmoid()
    return first.lerp(second, share) if gate else torch.addcmul(first, second, share)


def decaying(heads: Tensor, elapsed: Tensor, rate: Tensor, amplitude: Tensor) -> Tensor:
    """A - A f exp(-elapsed (rate + |f|)): [B, n] -> [B, n], with rate >= 0 and amplitude A of each unit [n]."""
    decay = torch.exp(-elapsed * (rate + heads.abs()))
    return amplitude * (1 - heads * decay)
