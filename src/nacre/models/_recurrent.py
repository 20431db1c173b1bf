"""`RecurrentModel`: a model that goes from step to step, in sequences, streams, and questions between steps."""

from abc import abstractmethod

import torch
from torch import Tensor

from nacre._util.checks import whole
from nacre.layer.streaming.checks import check_newest, check_order, check_stamps
from nacre.models._base import SequenceModel, Steps, in_units
from nacre.models._questions import State, split
from nacre.models._recurrent_state import RecurrentState, new_state, pack, unpack


class RecurrentModel(SequenceModel):
    """A model whose outputs depend on the past through a state: a tuple of tensors, each [B, ...]."""

    @abstractmethod
    def start(self, like: Tensor) -> State:
        """The state before the first step, for the rows of a tensor [B, ...] of the same precision and device."""

    @abstractmethod
    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """Outputs [B, T, d_model], and the state after every step, each [B, T, ...].

        From the given state before the first step, or from that of `start`.
        """

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        return self.unroll(steps)[0]

    def ask(self, steps: Steps) -> Tensor:
        """See `SequenceModel`: a question is answered as if it were the last step after those before it."""
        known, questions = split(steps)
        y, states = self.unroll(known)
        answers, _ = self.unroll(questions.steps, questions.states(self.start(questions.steps.x), states))
        return questions.join(y, answers)

    @torch.no_grad()
    def init_state(self, batch_size: int) -> RecurrentState:
        """The state of `batch_size` streams without any step, with which the model runs step by step."""
        whole("batch_size", batch_size, 1)
        return new_state(self.start(next(self.parameters()).new_empty(batch_size, 0)))

    @torch.no_grad()
    def step(
        self, x: Tensor, state: RecurrentState, *, time: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Output [B, d_model] of the newest step, and the state for the next one.

        Equals `forward`, at a cost that does not depend on the steps before. Without gradients: train with
        `forward`.

        Args:
            x: [B, d_input] newest input of each stream.
            state: From `init_state` or the step before; it stays as it is.
            time: [B] time stamps, never decreasing; at every step or at none, which means 0, 1, 2, ...

        Example:
            >>> model = nacre.create("cfc-fc", d_input=7, d_model=64, num_heads=4).eval()
            >>> state = model.init_state(batch_size=2)
            >>> y, state = model.step(torch.randn(2, 7), state, time=torch.tensor([0.0, 0.3]))
            >>> y.shape
            torch.Size([2, 64])
        """
        weight = next(self.parameters())
        if not isinstance(state, RecurrentState):
            raise TypeError(f"state must be a RecurrentState from init_state, got {type(state).__name__}")
        check_newest(x, self.d_input, weight, state.length.shape[0])
        check_stamps(time, state.length.shape[0])
        if not torch.compiler.is_compiling():  # it reads values
            check_order(time, state.stamp, state.length > 0)
        start = self.start(x.to(weight.dtype))
        size = sum(tensor[0].numel() for tensor in start)
        if state.memory.shape[1] != size:
            raise ValueError(
                f"state belongs to another model: it holds {state.memory.shape[1]} numbers for each stream, this "
                f"model has {size}; make one with init_state({x.shape[0]})"
            )
        now, before = (state.length, state.length - 1) if time is None else (time, state.stamp)
        before = before.double().masked_fill(state.length == 0, torch.nan)
        with torch.autocast(x.device.type, enabled=False):
            now, before = (in_units(stamp.double(), self.time_scale) for stamp in (now, before))
            newest = Steps(x.to(weight.dtype).unsqueeze(1), now.unsqueeze(1), None, None, before=before)
            y, after = self.unroll(newest, unpack(state, start))
        stamp = torch.full_like(state.stamp, torch.nan)
        if time is not None:
            stamp.copy_(time)
        return y[:, 0], RecurrentState(pack(tuple(tensor[:, 0] for tensor in after)), stamp, state.length + 1)


def stack(states: list[State]) -> State:
    """States after every step, each [B, T, ...], from a list of T states."""
    return tuple(torch.stack(parts, 1) for parts in zip(*states, strict=True))
