"""`Columns`: how a CSV file was read, as plain data, so that a run reads new files in the same way."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self

from nacre.data.dataset import Kind
from nacre.data.tables.reading import Reading


@dataclass(frozen=True)
class Clock:
    """How stamps become numbers."""

    origin: str | None = None  # ISO date of second 0; None where the file holds numbers, which are kept
    form: str = "ISO8601"  # or a format of `strptime`, so that 01.02.2020 is the same day in every file


@dataclass(frozen=True)
class Columns:
    """What each column of a CSV file is for."""

    kind: Kind
    time: str  # column of stamps
    target: tuple[str, ...]  # columns to predict; only regressions have several
    group: str | None  # column that names the sequence of a row; None where the file is one series
    features: tuple[str, ...]  # input columns, in order; in forecasting the target is among them
    classes: tuple[str, ...]  # their names; empty for numbers
    lookback: int  # rows that a forecast sees, and rows of a piece where `pieces` is set
    horizon: int  # rows that are forecast
    pieces: bool  # whether the series were cut into pieces of `lookback` rows
    clock: Clock
    step: float  # median time from row to row, in the unit of the clock
    reading: Reading = field(default_factory=Reading)
    vocabulary: dict[str, tuple[str, ...]] = field(default_factory=dict)  # names of each column of categories

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs: features, where a column of categories has one for each name, "column=name"."""
        spread = (
            [f"{f}={name}" for name in self.vocabulary[f]] if f in self.vocabulary else [f] for f in self.features
        )
        return tuple(name for names in spread for name in names)

    @property
    def one_hot(self) -> tuple[int, ...]:
        """Places of the inputs that are names of a category."""
        plain = set(self.features) - set(self.vocabulary)
        return tuple(place for place, name in enumerate(self.inputs) if name not in plain)

    @property
    def static_inputs(self) -> tuple[int, ...]:
        """Places of the inputs that never change within a sequence."""
        static, place, found = set(self.reading.static), 0, list[int]()
        for name in self.features:
            width = len(self.vocabulary.get(name, (name,)))
            found += range(place, place + width) if name in static else ()
            place += width
        return tuple(found)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the numbers that are asked for: the targets or, in forecasting, one for each row ahead."""
        if self.kind.has_classes:
            return ()
        if self.kind is Kind.FORECASTING:
            return tuple(f"{self.target[0]}+{ahead}" for ahead in range(1, self.horizon + 1))
        return self.target

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON or TOML; None is left out, because TOML has no null."""
        data: dict[str, Any] = dataclasses.asdict(self)
        data["kind"], data["clock"] = str(self.kind), _without_none(data["clock"])
        data["reading"] = self.reading.to_dict()
        data["vocabulary"] = {key: list(names) for key, names in self.vocabulary.items()}
        return _without_none({key: list(v) if isinstance(v, tuple) else v for key, v in data.items()})

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Make it from `to_dict`'s data; a ValueError if entries are missing or unknown.

        Example:
            >>> columns = Columns(
            ...     Kind.REGRESSION, "time", ("age",), "person", ("pulse",), (), 48, 24, False, Clock(), 1.0
            ... )
            >>> Columns.from_dict(columns.to_dict()) == columns
            True
        """
        data = {"group": None, "reading": {}, "vocabulary": {}, **data}
        known = {field.name for field in dataclasses.fields(cls)}
        if data.keys() != known:
            wrong = ", ".join(map(repr, sorted(data.keys() ^ known)))
            raise ValueError(f"columns must hold {', '.join(sorted(known))}; missing or unknown: {wrong}")
        data |= {key: tuple(data[key]) for key in ("target", "features", "classes")}
        try:
            parts: dict[str, Any] = {
                "kind": Kind(data["kind"]),
                "clock": Clock(**data["clock"]),
                "reading": Reading.from_dict(data["reading"]),
                "vocabulary": {key: tuple(names) for key, names in data["vocabulary"].items()},
            }
            return cls(**data | parts)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"columns hold a clock, reading or vocabulary that is not one: {error}") from None


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not None}
