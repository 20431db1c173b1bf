"""Calls in the words of other libraries: what to write here instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from nacre._util.checks import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

_WIDTHS = "query, key and value have one width, d_input; bring others to it with torch.nn.Linear"
_ADDED = "leave it out: no keys are added, and a query without any valid key gives zeros"
OPTIONS = {  # of torch.nn.MultiheadAttention, TransformerEncoderLayer and LSTM
    "embed_dim": "it is called d_model here",
    "hidden_size": "it is called d_model here",
    "input_size": "it is called d_input here",
    "nhead": "it is called num_heads here",
    "kdim": _WIDTHS,
    "vdim": _WIDTHS,
    "batch_first": "leave it out: inputs are always [batch, time, features]",
    "add_bias_kv": _ADDED,
    "add_zero_attn": _ADDED,
}
"""Options of other constructors, and what to write for `NAC`."""

_WEIGHTS = "use return_trace=True, which gives (y, trace): trace.weights [B, H, T, K] of the keys in trace.index"
_MASKS = "padding is key_padding_mask, bool with True at padding; there is no mask of single pairs"
_CAUSAL = f"a causal layer is made with causal=True; {_MASKS}"
RENAMED = {
    "src_key_padding_mask": "it is called key_padding_mask here, bool with True at padding",
    "padding_mask": "it is called key_padding_mask here, bool with True at padding",
    "mask": _MASKS,
    "timespans": "it is called time here and holds stamps, not what lies between them: timespans.cumsum(1)",
}
"""Arguments of other calls, and what to write for any model."""

ARGUMENTS = {
    **RENAMED,
    "need_weights": _WEIGHTS,
    "average_attn_weights": f"{_WEIGHTS}; each head has keys of its own",
    "attn_mask": _CAUSAL,
    "is_causal": _CAUSAL,
}
"""Arguments of other calls, and what to write for `NAC`."""


def explain(advice: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator of a method: refuse arguments that it does not take, and say what to write instead.

    It looks at names and at the number of arguments only, so a compiled or exported program holds nothing of it,
    and the method keeps its signature.

    Args:
        advice: What to write for names that the method does not take, or that it was already given by position.

    Example:
        >>> class Layer:
        ...     @explain({"nhead": "it is called num_heads here"})
        ...     def __init__(self, num_heads: int) -> None: ...
        >>> Layer(nhead=4)
        Traceback (most recent call last):
            ...
        TypeError: Layer has no option 'nhead'; it is called num_heads here
    """

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(method).parameters.values()
        names = tuple(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
        most = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        further = len(names) < len(parameters)  # it has **options, whose names it checks
        word = "option" if method.__name__ == "__init__" else "argument"

        @functools.wraps(method)
        def checked(*args: P.args, **named: P.kwargs) -> R:
            owner = type(args[0]).__name__
            if len(args) > most:
                raise TypeError(
                    f"{owner} takes {most - 1} {word}s by position, {', '.join(names[1:most])}, "
                    f"got {len(args) - 1}; give {', '.join(names[most:]) or 'others'} by name"
                )
            for name in named:
                hint = f"; {advice[name]}" if name in advice else ""
                if name in names[: len(args)]:
                    raise TypeError(f"{owner} was given {name!r} by position and by name{hint}")
                if name not in names and (hint or not further):
                    hint = hint or did_you_mean(name, names) or f"; it takes {', '.join(names[1:])}"
                    raise TypeError(f"{owner} has no {word} {name!r}{hint}")
            return method(*args, **named)

        return checked

    return decorate
