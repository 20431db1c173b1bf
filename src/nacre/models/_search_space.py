"""Dimensions of a search space for `nacre tune`: numbers between bounds, or one of some values."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Real:
    """A number between bounds.

    Example:
        >>> Real(0.1, 0.9).including(0.95)
        Real(low=0.1, high=0.95, log=False)
    """

    low: float
    high: float
    log: bool = False  # whether ratios count rather than differences

    def including(self, value: float) -> Real:
        """The same, with bounds that include a value if they can."""
        if self.log and value <= 0:
            return self
        return replace(self, low=min(self.low, value), high=max(self.high, value))

    def nearest(self, value: float) -> float:
        """The value clipped to the bounds."""
        return min(max(value, self.low), self.high)

    def __str__(self) -> str:
        """Readable text."""
        return f"{self.low:g} to {self.high:g}{', log' if self.log else ''}"


@dataclass(frozen=True)
class Whole:
    """A whole number between bounds, `step` apart from the next; with `log` steps are 1.

    Example:
        >>> Whole(1, 9, step=2).nearest(6)
        5
    """

    low: int
    high: int
    log: bool = False
    step: int = 1

    def including(self, value: int) -> Whole:
        """The same, with bounds that include a value if they can."""
        if (value - self.low) % self.step or (self.log and value < 1):
            return self
        return replace(self, low=min(self.low, value), high=max(self.high, value))

    def nearest(self, value: int) -> int:
        """The value, or one beside it that is on the grid and within bounds."""
        value = min(max(value, self.low), self.high)
        return value - (value - self.low) % self.step

    def __str__(self) -> str:
        """Readable text."""
        step = f", steps of {self.step}" if self.step > 1 else ""
        return f"{self.low} to {self.high}{step}{', log' if self.log else ''}"


@dataclass(frozen=True)
class Choice:
    """One of some values, in no order.

    Example:
        >>> str(Choice(("exact", "steady")))
        'exact, steady'
    """

    options: tuple[str | bool | int, ...]

    def including(self, value: str | bool | int) -> Choice:
        """The same, and a value."""
        return self if value in self.options else Choice((*self.options, value))

    def nearest(self, value: str | bool | int) -> str | bool | int:
        """The value if it is among them, else the first."""
        return value if value in self.options else self.options[0]

    def __str__(self) -> str:
        """Readable text."""
        return ", ".join(map(str, self.options))


Dimension = Real | Whole | Choice
Space = dict[str, Dimension]
