"""`Dataset`: labelled sequences of irregular length and spacing, and the batches made of them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from nacre.data.missing import Missing, last_seen

UNSCORED = -100  # class of a step that is not scored, as in torch's losses; in regression it is NaN


class Kind(StrEnum):
    """What is asked of a sequence."""

    CLASSIFICATION = "classification"  # one class for each sequence
    STEP_CLASSIFICATION = "step-classification"  # one class for each step
    REGRESSION = "regression"  # numbers for each sequence
    STEP_REGRESSION = "step-regression"  # numbers for each step
    FORECASTING = "forecasting"  # the next values of one column
    MULTI_LABEL = "multi-label"  # several yes or no for each sequence

    @property
    def has_classes(self) -> bool:
        """Whether the answer is a class."""
        return self in (Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION)

    @property
    def has_numbers(self) -> bool:
        """Whether answers are quantities: neither a class nor labels."""
        return not self.has_classes and self is not Kind.MULTI_LABEL

    @property
    def each_step(self) -> bool:
        """Whether every step has an answer of its own."""
        return self in (Kind.STEP_CLASSIFICATION, Kind.STEP_REGRESSION)


def is_scored(y: Tensor, kind: Kind) -> Tensor:
    """Which answers count: classes [...] that are not `UNSCORED`, numbers [..., D] without NaN; never padding.

    Forecasts count if one of their numbers is known.

    Example:
        >>> is_scored(torch.tensor([[1, 0], [2, UNSCORED]]), Kind.STEP_CLASSIFICATION)
        tensor([[ True,  True],
                [ True, False]])
    """
    if kind.has_classes:
        return y != UNSCORED
    return ~(y.isnan().all(-1) if kind is Kind.FORECASTING else y.isnan().any(-1))


class Batch(NamedTuple):
    """Sequences of one batch, padded at their ends.

    Attributes:
        x: [B, T, F] float32, zeros in padding; images [B, T, height, width, F] are uint8.
        time: [B, T] float64 stamps that never go back; padding repeats the last one.
        key_padding_mask: [B, T] bool, True = padding.
        y: [B] classes, [B, T] classes of steps, [B, D] numbers or [B, T, D] numbers of steps; steps that are not
            scored, padding among them, hold `UNSCORED` or NaN.
        group: [B] what the sequence belongs to: index into the groups of the data set.
        query_only: [B, T] bool, steps that ask and tell nothing; None where there are none.
    """

    x: Tensor
    time: Tensor
    key_padding_mask: Tensor
    y: Tensor
    group: Tensor
    query_only: Tensor | None = None


class DatasetMetrics(Protocol):
    """Metrics that only one data set has."""

    def of(self, index: Tensor, predicted: Tensor, actual: Tensor) -> dict[str, float]:
        """Metrics by name, of predictions for the sequences with these indices."""
        ...


@dataclass(frozen=True)
class Dataset:
    """Sequences cut out of one long table of rows. Sequences may overlap, as windows of a series do.

    Attributes:
        name: Short name, part of file names.
        kind: What is asked.
        values: [N, F] float32 features of all rows, NaN where not observed, or [N, height, width, F] uint8 images
            with F colours. Of events, [N, 2]: number of the feature, and its value.
        time: [N] float64 stamps of all rows, ascending within each sequence.
        start: [n] first row of each sequence.
        length: [n] its number of rows.
        y: [n] or, each step, [N] classes; [n, D] or, each step, [N, D] float32 numbers, of labels 0 or 1.
        group: [n] what each sequence belongs to and what must never be split: recording, person, series.
        groups: Names of the groups.
        features: Names of the columns of `values`, of its colours, or of the variables of events.
        classes: Names of the classes; empty for numbers.
        targets: Names of the D numbers; empty for classes.
        target_column: In forecasting, the column of `values` that is forecast.
        query_only: [N] bool, rows that ask and tell nothing: moments whose value is wanted. None for no such rows.
        one_hot: Features that are 1 for one name of a category and 0 for all others.
        static: Features that never change within a sequence.
        missing: What is done about values that were not observed.
        guess: Columns of `values` that are a first guess of the targets: one for all of them, or one for each.
        window: In forecasting, how many rows a window has if none is missing, and the time between them.
        test: [n] bool, the official test part; None where there is none.
        transfer: [n] bool, sequences of other machines: in no part of a fold, but scored separately by `metrics`.
        metrics: Metrics that only this data set has.
        before: [n] or [n, D] the previous correct answers, for a control that repeats them; no network sees them.
            `UNSCORED` or NaN where there is none.
        neutral: The number that means doing nothing, for a control that always answers it.
        part: [N] part of each row, for kinds with an answer for each step; None where there is one part only.
        parts: Names of the parts, which are scored together and each on its own.
        time_unit: What stamps count, such as "hours"; empty if not known.
        form: Which form of the data this is, in words.
        files: Checksums (sha256) of the files it was read from.
        notes: What the reader left out or repaired.
    """

    name: str
    kind: Kind
    values: Tensor
    time: Tensor
    start: Tensor
    length: Tensor
    y: Tensor
    group: Tensor
    groups: tuple[str, ...]
    features: tuple[str, ...]
    classes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    target_column: int | None = None
    query_only: Tensor | None = None
    one_hot: tuple[int, ...] = ()
    static: tuple[int, ...] = ()
    missing: Missing = Missing.ERROR
    guess: tuple[int, ...] = ()
    window: tuple[int, float] | None = None
    test: Tensor | None = None
    transfer: Tensor | None = None
    metrics: DatasetMetrics | None = None
    before: Tensor | None = None
    neutral: float | None = None
    part: Tensor | None = None
    parts: tuple[str, ...] = ()
    time_unit: str = ""
    form: str = "generated"
    files: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that the parts fit together; readers check what users give."""
        rows, sequences = len(self.values), len(self.start)
        if sequences == 0:
            raise ValueError(f"{self.name}: no sequences; the data is shorter than one window, or empty")
        if self.has_events and self.kind not in (Kind.CLASSIFICATION, Kind.REGRESSION):
            raise ValueError(
                f"{self.name}: missing='events' is for one answer for each sequence, not for {self.kind}; "
                "use 'flags' or 'last'"
            )
        sizes = len(self.time), len(self.y), len(self.length), len(self.group)
        if sizes != (rows, rows if self.kind.each_step else sequences, sequences, sequences):
            raise ValueError(f"{self.name}: values, time, y, start, length and group do not fit together")
        if self.values.shape[-1] != (2 if self.has_events else len(self.features)):
            raise ValueError(f"{self.name}: {self.values.shape[-1]} columns but {len(self.features)} names")
        if self.missing is not Missing.ERROR and self.has_images:
            raise ValueError(f"{self.name}: missing={str(self.missing)!r} is for features, not for images")

    def __len__(self) -> int:
        """Number of sequences n."""
        return len(self.start)

    @property
    def outputs(self) -> int:
        """Numbers that a network gives for each answer."""
        return len(self.classes) or len(self.targets)

    @property
    def has_images(self) -> bool:
        """Whether rows are images."""
        return self.values.dim() == 4

    @property
    def has_events(self) -> bool:
        """Whether each row is one observed value of one variable."""
        return self.missing is Missing.EVENTS

    @property
    def stop(self) -> Tensor:
        """[n] the row after the last one that a sequence uses, as input or as target."""
        ahead = len(self.targets) if self.kind is Kind.FORECASTING else 0
        # Where rows are missing, fewer are ahead: this is as far as it can be.
        return (self.start + self.length + ahead).clamp(max=len(self.values))

    def rows(self, index: Tensor) -> Tensor:
        """Rows that are inputs of some of these sequences, ascending, each once."""
        edges = torch.zeros(len(self.values) + 1, dtype=torch.int64)
        edges.index_add_(0, self.start[index], torch.ones_like(index))
        edges.index_add_(0, self.start[index] + self.length[index], -torch.ones_like(index))
        return (edges.cumsum(0)[:-1] > 0).nonzero().squeeze(1)

    def known_values(self, index: Tensor) -> Tensor:
        """[m, F] values of the rows of these sequences that tell something, each once."""
        rows = self.rows(index)
        return self.values[rows if self.query_only is None else rows[~self.query_only[rows]]]

    def last_values(self, index: Tensor, columns: Sequence[int]) -> Tensor:
        """[n, columns] what was last observed of some columns in each of these sequences; NaN if nothing was."""
        last = self.start[index] + self.length[index] - 1
        if self.missing is Missing.ERROR:
            return self.values[last][:, list(columns)]
        return last_seen(self.values[:, list(columns)], self.start[index], last)

    def answers(self, index: Tensor) -> Tensor:
        """Answers to be scored of these sequences: [m] classes or [m, D] numbers; those of each step once.

        Where some numbers of a forecast are not known, they are NaN.
        """
        y = self.y[self.rows(index) if self.kind.each_step else index]
        return y[is_scored(y, self.kind)]

    def batch(self, index: Tensor) -> Batch:
        """The batch of the sequences with these indices.

        Example:
            >>> from nacre.data import from_arrays
            >>> data = from_arrays([[[1.0], [2.0]], [[3.0]]], ["calm", "storm"])
            >>> data.batch(torch.tensor([0, 1])).key_padding_mask
            tensor([[False, False],
                    [False,  True]])
        """
        row, padding = self._places(index)
        x = self.values[row]
        x = x.masked_fill(padding.view(*padding.shape, *[1] * (x.dim() - 2)), 0)
        if not self.kind.each_step:
            y = self.y[index]
        elif self.kind.has_classes:
            y = self.y[row].masked_fill(padding, UNSCORED)
        else:
            y = self.y[row].masked_fill(padding.unsqueeze(-1), float("nan"))
        asks = None if self.query_only is None else self.query_only[row] & ~padding
        return Batch(x, self.time[row], padding, y, self.group[index], asks)

    def stamps(self, index: Tensor) -> Tensor:
        """[B, T] times of these sequences, as in their batch, without reading any values."""
        return self.time[self._places(index)[0]]

    def _places(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T] rows of the sequences, where padding repeats the last row, and the padding mask."""
        length = self.length[index].unsqueeze(1)  # [B, 1]
        step = torch.arange(int(length.max()))  # [T]
        return self.start[index].unsqueeze(1) + step.minimum(length - 1), step >= length

    @cached_property
    def digest(self) -> str:
        """Checksum of everything that is learned from or scored."""
        digest = hashlib.sha256()
        for part in (self.values, self.time, self.start, self.length, self.y, self.group, self.query_only):
            if part is not None:
                digest.update(part.contiguous().numpy().tobytes())
        return digest.hexdigest()


def check_labels(data: Dataset) -> Dataset:
    """The same data set; refuses answers of labels that are neither 0 nor 1."""
    if data.kind is Kind.MULTI_LABEL:
        odd = (data.y != 0) & (data.y != 1) & ~data.y.isnan()
        if bool(odd.any()):
            raise ValueError(f"{data.name}: answers in {data.kind} must be 0 or 1, got {data.y[odd][0].item():g}")
    return data
