"""What is measured, and what came out, as plain frozen records."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

OK = "ok"
OUT_OF_TIME = "out of time"
OUT_OF_MEMORY = "out of memory"
FAILED = "failed"
NOT_RUN = "not run"
MIN_ROUNDS = 3  # timed rounds that make a cost complete

Action = Literal["forward", "step"]  # a forward pass, and a training step
ACTIONS: tuple[Action, Action] = ("forward", "step")


@dataclass(frozen=True)
class BenchEntry:
    """One model at one size."""

    model: str
    length: int
    batch: int = 1
    d_model: int = 64
    num_heads: int = 4
    stamps: bool = False  # whether steps have irregular time stamps; a sequence lasts one unit of time


@dataclass(frozen=True)
class Cost:
    """What one action of one entry costs; None where it was not measured."""

    state: str = NOT_RUN  # "ok", "out of time", "out of memory", "failed", "skipped: ..." or "not run"
    note: str = ""  # why it failed, or what could not be measured
    seconds: float | None = None  # median over the rounds
    spread: float | None = None  # interquartile range of the seconds; None with one round
    rounds: int = 0  # how often it was timed
    ratio: float | None = None  # median over the rounds of its time divided by the reference's in the same round
    peak_bytes: int | None = None  # highest resident memory of the process during the action
    added_bytes: int | None = None  # that minus what was resident before


@dataclass(frozen=True)
class BenchResult:
    """Costs of an entry."""

    entry: BenchEntry
    parameters: int | None = None
    forward: Cost = Cost()
    step: Cost = Cost()

    def cost(self, action: Action) -> Cost:
        """Of one action."""
        return self.forward if action == "forward" else self.step

    def throughput(self, action: Action) -> float | None:
        """Time steps of all sequences, per second.

        Example:
            >>> BenchResult(BenchEntry("nac", 1024), forward=Cost("ok", seconds=0.5)).throughput("forward")
            2048.0
        """
        seconds = self.cost(action).seconds
        return None if not seconds else self.entry.batch * self.entry.length / seconds

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data = asdict(self)
        return data.pop("entry") | data | {f"{action}_throughput": self.throughput(action) for action in ACTIONS}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BenchResult:
        """What `to_dict` made plain."""
        data = {"stamps": False, **data}  # older records have none
        entry = BenchEntry(**{field.name: data[field.name] for field in fields(BenchEntry)})
        return cls(entry, data["parameters"], Cost(**data["forward"]), Cost(**data["step"]))
