"""What a model answers, step by step."""

import inspect
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nacre.tasks.network import LayerInput, TaskNetwork


@dataclass(frozen=True)
class Outputs:
    """Answers to some sequences."""

    # [B, T, O] at each step of the layer. Of a network that answers once, its read-out of the state of each step.
    curve: Tensor
    answer: Tensor | None  # [B, O] to the whole sequence; None where each step has one


@torch.no_grad()
def outputs_of(
    model: nn.Module, x: Tensor, time: Tensor | None, padding: Tensor | None, query_only: Tensor | None = None
) -> Outputs:
    """Run a model once on x [B, T, ...], stamps, padding mask and steps that only ask, [B, T] each.

    The model is a task network, or any module that takes x and perhaps `time`, `key_padding_mask`, `query_only`.
    """
    if isinstance(model, TaskNetwork):
        return from_tokens(model, *tokens_of(model, x, time, padding, query_only))
    known = inspect.signature(model.forward).parameters
    any_name = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values())
    given = {"time": time, "key_padding_mask": padding, "query_only": query_only}
    y = model(x, **{k: value for k, value in given.items() if value is not None and (any_name or k in known)})
    if not isinstance(y, torch.Tensor) or y.dim() not in (2, 3):
        got = tuple(y.shape) if isinstance(y, torch.Tensor) else type(y).__name__
        raise ValueError(f"model must give a tensor [batch, steps, numbers] or [batch, numbers], got {got}")
    return Outputs(y, None) if y.dim() == 3 else Outputs(y.unsqueeze(1), y)


@torch.no_grad()
def tokens_of(
    network: TaskNetwork, x: Tensor, time: Tensor | None, padding: Tensor | None, query_only: Tensor | None = None
) -> LayerInput:
    """What a task network gives its layer."""
    if time is None:
        raise ValueError("a task network needs time; give stamps [batch, steps] in the unit of its data")
    return network.tokens(x, time, padding, query_only=query_only)


@torch.no_grad()
def from_tokens(
    network: TaskNetwork,
    x: Tensor,
    time: Tensor,
    padding: Tensor,
    base: Tensor | None = None,
    query_only: Tensor | None = None,
) -> Outputs:
    """Answers of a network to its own tokens."""
    states: list[Tensor] = []

    def keep(module: nn.Module, given: object, y: Tensor) -> None:
        states.append(y)

    hook = network.layer.register_forward_hook(keep)
    try:
        answer = network.from_tokens(x, time, padding, base, query_only)
    finally:
        hook.remove()
    if network.kind.each_step:
        return Outputs(answer, None)
    return Outputs(network.answer(states[0], None if base is None else base.unsqueeze(1)), answer)


def windows_of(
    frames: Tensor, time: Tensor, first: int, stop: int, width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last `width` frames at each moment from `first` to before `stop`, as a network was trained on them.

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
