"""What is measured, and what came out, as plain frozen records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
class Entry:
    """One model at one size."""

    model: str
    length: int
    batch: int = 1
    d_model: int = 64
    num_heads: int = 4


@dataclass(frozen=True)
class Cost:
    """What one action of one entry costs; None where it was not measured.

    Attributes:
        state: "ok", "out of time", "out of memory", "failed", "skipped: ..." or "not run".
        note: In words: why it failed, or what could not be measured.
        seconds: Median over the rounds.
        spread: Distance between the quartiles, in seconds; None with one round.
        rounds: How often it was timed.
        ratio: Median over the rounds of its time by that of the reference in the same round.
        peak_bytes: Highest resident memory of the process during the action.
        added_bytes: That minus what was resident before.
    """

    state: str = NOT_RUN
    note: str = ""
    seconds: float | None = None
    spread: float | None = None
    rounds: int = 0
    ratio: float | None = None
    peak_bytes: int | None = None
    added_bytes: int | None = None


@dataclass(frozen=True)
class Result:
    """Costs of an entry."""

    entry: Entry
    parameters: int | None = None
    forward: Cost = Cost()
    step: Cost = Cost()

    def cost(self, action: Action) -> Cost:
        """Of one action."""
        return self.forward if action == "forward" else self.step

    def throughput(self, action: Action) -> float | None:
        """Steps of sequences in a second.

        Example:
            >>> Result(Entry("nac", 1024), forward=Cost("ok", seconds=0.5)).throughput("forward")
            2048.0
        """
        seconds = self.cost(action).seconds
        return None if not seconds else self.entry.batch * self.entry.length / seconds

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        rates = {f"{a}_throughput": self.throughput(a) for a in ACTIONS}
        return {
            **asdict(self.entry),
            "parameters": self.parameters,
            "forward": asdict(self.forward),
            "step": asdict(self.step),
            **rates,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Result:
        """What `to_dict` made plain."""
        entry = Entry(**{name: data[name] for name in Entry.__dataclass_fields__})
        return cls(entry, data["parameters"], Cost(**data["forward"]), Cost(**data["step"]))
