"""`About`: what a recording is of."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class About:
    """What a recording is of.

    Attributes:
        name: Title for people to read.
        samples: Names of the samples.
        features: Names of the inputs.
        outputs: Names of the numbers that the model gives.
        classes: Whether these are scores of classes.
        once: Whether the model answers once for a sample, and not at each step.
        window: Frames that the model sees at each moment of a drive; 0 where a sample is one sequence.
        time_unit: What stamps count; empty if not known.
        metric: Name of the task's figure; empty if there are no true answers.
        better: Whether "higher" or "lower" figures are better.
        unit: What errors of each output are measured in; empty for classes.
    """

    name: str
    samples: tuple[str, ...]
    features: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    classes: bool = False
    once: bool = False
    window: int = 0
    time_unit: str = ""
    metric: str = ""
    better: str = ""
    unit: tuple[float, ...] = ()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Inverse of `dataclasses.asdict`, after a detour by JSON."""
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**plain)
