"""Steps that only ask, apart from those that tell something: for models in which the latter follow one another."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nacre._util.tracing import values_are_hidden
from nacre.models._base import Steps, take

State = tuple[Tensor, ...]


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
