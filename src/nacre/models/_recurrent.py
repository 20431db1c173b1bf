"""`RecurrentModel`: a model that goes from step to step, in sequences, streams, and questions between steps."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from nacre._util.checks import whole
from nacre._util.tracing import values_are_hidden
from nacre.layer.stream_checks import check_newest, check_order, check_stamps
from nacre.models._base import SequenceModel, Steps, in_units, take
from nacre.models._recurrent_state import RecurrentState, new_state, pack, unpack

State = tuple[Tensor, ...]


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


@dataclass(frozen=True)
class Questions:
    """Steps that only ask, as B Q sequences of one step."""

    steps: Steps
    before: Tensor  # [B, Q] which of the other steps is the last before each; -1 where there is none
    place: Tensor  # [B, T] where the output of each step is among those of other steps, then of questions

    def states(self, start: State, states: State) -> State:
        """The state before each question [B Q, ...]: of those after the other steps [B, R, ...], or the first."""
        first, place = (self.before < 0).flatten(), self.before.clamp(min=0)
        return tuple(
            torch.where(
                first.view(-1, *[1] * (begin.dim() - 1)), begin, take(after.flatten(2), place).view(begin.shape)
            )
            for begin, after in zip(start, states, strict=True)
        )

    def join(self, y: Tensor, answers: Tensor) -> Tensor:
        """Outputs [B, T, d] in order, of the other steps [B, R, d] and of the questions [B Q, 1, d]."""
        return take(torch.cat([y, answers.view(*self.before.shape, -1)], 1), self.place)


def split(steps: Steps) -> tuple[Steps, Questions]:
    """The steps that may change a state, and those that only ask."""
    hidden, asks = steps.hidden(), steps.query_only
    assert hidden is not None
    assert asks is not None
    known = ~hidden
    lengths = [steps.x.shape[1]] * 2
    if not values_are_hidden():  # in compiled programs no length may depend on values
        lengths = [max(1, int(mask.sum(1).max())) for mask in (known, asks)]
    places, asked = (
        (~mask).to(torch.uint8).argsort(dim=1, stable=True)[:, :length]
        for mask, length in zip((known, asks), lengths, strict=True)
    )  # [B, R] and [B, Q]
    padding, time = ~known.gather(1, places), steps.time.gather(1, places)
    last = known.sum(1, keepdim=True).sub(1).clamp(min=0)
    time = torch.where(padding, time.gather(1, last), time)
    rank = known.cumsum(1) - 1  # [B, T] of the last step up to here; -1 before the first
    before = rank.gather(1, asked)
    alone = Steps(
        take(steps.x, asked).flatten(0, 1).unsqueeze(1),
        steps.time.gather(1, asked).view(-1, 1),
        padding=None,
        order=None,
        before=time.gather(1, before.clamp(min=0)).masked_fill(before < 0, torch.nan).flatten(),
    )
    place = torch.where(asks, lengths[0] + asks.cumsum(1) - 1, rank.clamp(min=0))
    return Steps(take(steps.x, places), time, padding, None), Questions(alone, before, place)
