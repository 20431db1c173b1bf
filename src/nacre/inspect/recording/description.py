"""`Description`: what a recording is of."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Description:
    """What a recording is of."""

    name: str  # title for people to read
    samples: tuple[str, ...]  # names of the samples
    features: tuple[str, ...] = ()  # names of the inputs
    outputs: tuple[str, ...] = ()  # names of the numbers that the model gives
    classes: bool = False  # whether these are scores of classes
    once: bool = False  # whether the model answers once for a sample, and not at each step
    window: int = 0  # frames that the model sees at each moment of a drive; 0 where a sample is one sequence
    time_unit: str = ""  # unit of the time stamps; empty if not known
    metric: str = ""  # name of the task's metric; empty if there are no true answers
    better: str = ""  # whether a "higher" or a "lower" metric is better
    unit: tuple[float, ...] = ()  # what errors of each output are measured in; empty for classes

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `dataclasses.asdict`; JSON has made lists of the tuples."""
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**plain)
