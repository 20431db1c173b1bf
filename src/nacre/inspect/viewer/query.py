"""The parameters of a request, with the range of each."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from nacre.inspect.viewer.source import ViewerSource

MOST_POINTS = 4000
MOST_STEPS = 256  # of which a request gets every neuron
_NAMES = ("run", "sample", "layer", "head", "start", "stop", "points", "column", "step")
_NUMBER = re.compile(r"[0-9]{1,9}")


class BadRequest(ValueError):
    """A request that is refused; the message goes to the client."""


@dataclass(frozen=True)
class Query:
    """What a request asks for: a run, one of its samples, one of its layers, one of its heads."""

    source: ViewerSource
    sample: int
    layer: str
    head: int
    length: int
    numbers: Mapping[str, str]

    @classmethod
    def read(cls, sources: Sequence[ViewerSource], given: Sequence[tuple[str, str]]) -> Self:
        """Check the parameters of a request, which come as names and values.

        Raises:
            BadRequest: If a number is out of range, or a parameter is unknown or comes twice.
        """
        numbers = dict(given)
        unknown = sorted(set(numbers) - set(_NAMES))
        if unknown or len(numbers) < len(given):
            wrong = f"{unknown[0][:40]!r} is none" if unknown else "one comes twice"
            raise BadRequest(f"parameters are {', '.join(_NAMES)}, each once at most; {wrong}")
        source = sources[number(numbers, "run", 0, len(sources) - 1, default=0)]
        recording = source.recording
        sample = number(numbers, "sample", 0, recording.samples - 1, default=0)
        names = list(recording.layers)
        layer = recording.layers[names[number(numbers, "layer", 0, len(names) - 1, default=0)]]
        head = number(numbers, "head", 0, layer.heads - 1, default=0)
        if not layer.length(sample):
            raise BadRequest(f"sample {sample} has no step that is not padding")
        return cls(source, sample, layer.name, head, layer.length(sample), numbers)

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number among the parameters."""
        return number(self.numbers, name, low, high, default)

    def window(self, most: int | None = None) -> tuple[int, int]:
        """First step and the step after the last one; at most so many."""
        start = self.number("start", 0, max(0, self.length - 1), default=0)
        stop = self.number("stop", start + 1, self.length, default=min(self.length, start + (most or self.length)))
        if most is not None and stop - start > most:
            raise BadRequest(f"stop - start must be at most {most}, got {stop - start}")
        return start, stop

    def points(self) -> int:
        """About how many points a curve has."""
        return self.number("points", 1, MOST_POINTS, default=800)


def number(numbers: Mapping[str, str], name: str, low: int, high: int, default: int | None = None) -> int:
    """A whole number from low to high.

    Raises:
        BadRequest: If it is missing and has no default, is no number, or out of range.
    """
    text = numbers.get(name)
    if text is None:
        if default is None:
            raise BadRequest(f"{name} is missing")
        return default
    if not _NUMBER.fullmatch(text):
        raise BadRequest(f"{name} must be a whole number from {low} to {high}, got {text[:40]!r}")
    if not low <= int(text) <= high:
        raise BadRequest(f"{name} must be from {low} to {high}, got {int(text)}")
    return int(text)
