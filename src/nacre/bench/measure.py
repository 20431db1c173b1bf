"""Measures entries one after the other, and writes each result to disk at once."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nacre._util.checks import real, whole
from nacre._util.provenance import provenance
from nacre.bench.entries import REFERENCE
from nacre.bench.files import Record, read_record, write_record
from nacre.bench.process import run_worker
from nacre.bench.record import ACTIONS, OK, OUT_OF_MEMORY, OUT_OF_TIME, Action, BenchEntry, BenchResult, Cost
from nacre.bench.training import SHAPES, TRAINING_REFERENCE
from nacre.bench.worker import Request

BUDGET = 5.0  # seconds of timing, after which no further round starts
_TIMING_SHARE = 0.25  # of the time limit at most: the start, the run for memory and slow rounds need the rest
_LONGEST_LIMIT = 1e7  # seconds


@dataclass(frozen=True)
class Settings:
    """What a run measures, and how."""

    models: tuple[str, ...]  # names of `nacre.bench.entries.available()`
    lengths: tuple[int, ...]  # steps of the sequences
    batch: int = 1
    d_model: int = 64
    num_heads: int = 4
    threads: int | None = None  # of torch; None for its own choice
    time_limit: float = (
        120.0  # seconds for each forward pass and each training step, with the start of its process
    )
    budget: float = BUDGET  # seconds of timing, after which no further round starts
    # At the shapes of `nacre.bench.training` instead of the sizes above, beside the reference of that file.
    training: bool = False
    # Lengths are swept without the reference beside them, and no longer length follows one that ran out of time or
    # memory.
    sweep: bool = False

    def __post_init__(self) -> None:
        """Refuse bad values before anything is measured."""
        for length in self.lengths:
            whole("lengths", length, 1)
        whole("batch", self.batch, 1)
        whole("d_model", self.d_model, 2)
        if self.d_model % whole("num_heads", self.num_heads, 1):
            raise ValueError(
                f"d_model must be a multiple of num_heads, got d_model={self.d_model}, num_heads={self.num_heads}"
            )
        if self.threads is not None:
            whole("threads", self.threads, 1)
        real("time_limit", self.time_limit, 0, _LONGEST_LIMIT, open_low=True)
        real("budget", self.budget, 0, _LONGEST_LIMIT)

    def entries(self) -> list[BenchEntry]:
        """Every model at the shortest length or at the first shape, then at the next."""
        if self.training:
            return [shape.entry(model) for shape in SHAPES.values() for model in self.models]
        size = (self.batch, self.d_model, self.num_heads)
        return [BenchEntry(model, length, *size) for length in sorted(set(self.lengths)) for model in self.models]

    @property
    def reference(self) -> str | None:
        """What is timed beside each model."""
        return None if self.sweep else TRAINING_REFERENCE if self.training else REFERENCE

    def fixed(self) -> dict[str, Any]:
        """What must be equal for two runs to stand in one table."""
        return {name: getattr(self, name) for name in ("batch", "d_model", "num_heads", "threads", "budget")}


class BenchLog:
    """The record of a run, on disk after each addition; with `resume` it continues the record that is there."""

    def __init__(self, stem: Path, settings: Settings, *, resume: bool) -> None:
        self.stem = stem
        stem.parent.mkdir(parents=True, exist_ok=True)  # fail now rather than after the first measurement
        self.record = Record(provenance(settings.threads), asdict(settings), (), settings.sweep)
        path = stem.with_name(f"{stem.name}.json")
        if resume and path.exists():
            old = read_record(path)
            _require_equal(path, old, self.record, settings)
            self.record = replace(self.record, results=old.results)

    def find(self, entry: BenchEntry) -> BenchResult:
        """What is known of an entry."""
        return next((r for r in self.record.results if r.entry == entry), BenchResult(entry))

    def add(self, result: BenchResult) -> None:
        """Keep a result, in place of an older one of the same entry."""
        results = {r.entry: r for r in self.record.results} | {result.entry: result}
        self.record = replace(self.record, results=tuple(results.values()))
        write_record(self.stem, self.record)


def measure_all(log: BenchLog, settings: Settings, console: Console) -> None:
    """Measure what the log does not have yet; no failure of an entry ends the run."""
    entries = settings.entries()
    stopped: dict[tuple[str, Action], str] = {}  # why longer lengths of a sweep are left out
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(entries) * len(ACTIONS))
        for entry in entries:
            for action in ACTIONS:
                progress.update(task, description=f"{entry.model}, {entry.length:,} steps, {action}")
                _measure(log, settings, entry, action, stopped)
                progress.advance(task)
        progress.update(task, description="done")


def _measure(
    log: BenchLog, settings: Settings, entry: BenchEntry, action: Action, stopped: dict[tuple[str, Action], str]
) -> None:
    known = log.find(entry)
    if known.cost(action).state == OK:
        return
    parameters = known.parameters
    reason = stopped.get((entry.model, action))
    if reason is None:
        budget = min(settings.budget, _TIMING_SHARE * settings.time_limit)
        request = Request(entry, action, settings.reference, budget, settings.threads)
        cost, counted = run_worker(request, settings.time_limit)
        parameters = parameters if counted is None else counted
    else:
        cost = Cost(f"skipped: {reason}")
    if settings.sweep and cost.state in (OUT_OF_TIME, OUT_OF_MEMORY):
        stopped[entry.model, action] = f"{cost.state} at {entry.length}"
    log.add(replace(known, parameters=parameters, **{action: cost}))


def _require_equal(path: Path, old: Record, new: Record, settings: Settings) -> None:
    """Refuse to mix numbers that cannot be compared."""
    wanted, there = _conditions(settings.fixed(), new), _conditions(old.settings, old)
    for name, value in wanted.items():
        if there.get(name) != value:
            raise ValueError(
                f"cannot go on with {path}: it has {name}={there.get(name)!r}, this run {value!r}; "
                "run without --resume to start anew"
            )


def _conditions(settings: dict[str, Any], record: Record) -> dict[str, Any]:
    """The threads are those of the machine, which are known also where the settings leave them open."""
    origin = record.provenance
    return {**settings, **origin["machine"], **origin["versions"], "commit": origin["commit"]}
