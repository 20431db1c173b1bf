"""`ClosedForm`: how the state of a CfC layer moves, by the compiled kernel where it can, else step by step."""

import functools

import torch
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.models._cfc_loop import Update, decaying, gated, run_steps, without_gate
from nacre.models._steps import Steps
from nacre.native import library
from nacre.native.cfc import run_layer

MODES = ("default", "no_gate", "pure")


def held_for(steps: Steps) -> Tensor:
    """Time for which each input acts, [B, T, 1]: since the step before, and 1 at the first step and at padding.

    Not 0 at padding: in "pure" mode states can grow without bounds while no time passes.
    """
    elapsed = steps.elapsed(1.0)
    return elapsed if steps.padding is None else elapsed.masked_fill(steps.padding.unsqueeze(-1), 1.0)


class ClosedForm(nn.Module):
    """The states of a layer from what drives its heads.

    Args:
        units: Number of units n.
        mode: "default" and "no_gate" have four heads, "pure" has one, and two numbers for each unit.
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

    def forward(self, drive: Tensor, elapsed: Tensor, recurrent: Tensor, *later: Tensor) -> Tensor:
        """See `nacre.models._cfc_loop.run_steps`."""
        loop = functools.partial(run_steps, update=self._update())
        fits = self.mode != "pure" and len(later) in (0, 2) and not elapsed.requires_grad
        if fits and library.runs(drive, elapsed, recurrent, *later):
            weight, bias = later if len(later) == 2 else (None, None)
            gate = self.mode == "default"
            return run_layer(drive, elapsed, recurrent, weight, bias, gate=gate, loop=loop)
        return loop(drive, elapsed, recurrent, *later)

    def _update(self) -> Update:
        if self.mode == "pure":
            return functools.partial(decaying, rate=self.decay_rate.abs(), amplitude=self.amplitude)
        return gated if self.mode == "default" else without_gate

    def extra_repr(self) -> str:
        """The mode."""
        return f"mode={self.mode!r}"
