"""What a model answers, step by step: in a recording, and again when something in it was silenced."""

import inspect
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nacre.tasks.network import TaskNetwork


@dataclass(frozen=True)
class Outputs:
    """Answers to some sequences.

    Attributes:
        curve: [B, T, O] answer at each step of the layer. Where a network answers once for a sequence, it is what
            its read-out makes of the state of each step.
        answer: [B, O] the answer to the whole sequence; None where each step has one.
    """

    curve: Tensor
    answer: Tensor | None


@torch.no_grad()
def outputs_of(model: nn.Module, x: Tensor, time: Tensor | None, padding: Tensor | None) -> Outputs:
    """Run a model once.

    Args:
        model: A layer, a model of the zoo, a task network, or any module that takes x and perhaps `time` and
            `key_padding_mask`.
        x: [B, T, ...].
        time: [B, T] stamps.
        padding: [B, T] bool.
    """
    if isinstance(model, TaskNetwork):
        return _of_network(model, x, time, padding)
    known = inspect.signature(model.forward).parameters
    any_name = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values())
    given = {"time": time, "key_padding_mask": padding}
    y = model(x, **{k: value for k, value in given.items() if value is not None and (any_name or k in known)})
    if not isinstance(y, torch.Tensor) or y.dim() not in (2, 3):
        got = tuple(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        raise ValueError(f"model must give a tensor [batch, steps, numbers] or [batch, numbers], got {got}")
    return Outputs(y, None) if y.dim() == 3 else Outputs(y.unsqueeze(1), y)


def _of_network(network: TaskNetwork, x: Tensor, time: Tensor | None, padding: Tensor | None) -> Outputs:
    if time is None:
        raise ValueError("a task network needs time; give stamps [batch, steps] in the unit of its data")
    padding = torch.zeros(time.shape, dtype=torch.bool) if padding is None else padding
    return from_tokens(network, *network.tokens(x, time, padding))


@torch.no_grad()
def from_tokens(network: TaskNetwork, tokens: Tensor, time: Tensor, padding: Tensor) -> Outputs:
    """Answers of a network to what its own `tokens` gave."""
    states: list[Tensor] = []

    def keep(module: nn.Module, given: object, y: Tensor) -> None:
        states.append(y)

    hook = network.layer.register_forward_hook(keep)
    try:
        answer = network.from_tokens(tokens, time, padding)
    finally:
        hook.remove()
    return Outputs(answer, None) if network.kind.each_step else Outputs(network.answer(states[0]), answer)


def spans_of(length: int, width: int, most: int) -> list[tuple[int, int]]:
    """First moment and moment after the last, of batches of windows of one length each, as answers are scored.

    What NAC finds in its search of keys depends on the padded length, so that padded windows would have other
    answers. The first moments of a drive, which have fewer frames before them, come one by one.

    Args:
        length: Frames of the drive.
        width: Frames of a window.
        most: Windows of a batch, at most.

    Example:
        >>> spans_of(10, 3, 4)
        [(0, 1), (1, 2), (2, 6), (6, 10)]
    """
    short = min(width - 1, length)
    return [(i, i + 1) for i in range(short)] + [(i, min(i + most, length)) for i in range(short, length, most)]


def windows_of(
    frames: Tensor, time: Tensor, first: int, stop: int, width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last frames at each of some moments of a drive, as a network for frames was trained on them.

    Args:
        frames: [n, height, width, colours] of the drive.
        time: [n] their stamps.
        first: First moment.
        stop: Moment after the last one.
        width: Frames of a window; the first moments have fewer before them.

    Returns:
        Frames [m, width, ...], stamps and padding [m, width], and where each window starts [m].
    """
    moment = torch.arange(first, stop)
    length = (moment + 1).clamp(max=width)
    start = moment - length + 1
    step = torch.arange(int(length.max()))
    place = start.unsqueeze(1) + step.minimum(length.unsqueeze(1) - 1)
    padding = step >= length.unsqueeze(1)
    x = frames[place].masked_fill(padding.view(*padding.shape, *[1] * (frames.dim() - 1)), 0)
    return x, time[place], padding, start
