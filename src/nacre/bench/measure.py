"""Measures entries one after the other and has everything on disk as soon as it is known."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from nacre._util.checks import real, whole
from nacre._util.provenance import provenance
from nacre.bench.files import Record, read_record, write_record
from nacre.bench.process import run_worker
from nacre.bench.record import ACTIONS, OK, OUT_OF_MEMORY, OUT_OF_TIME, Action, Cost, Entry, Result
from nacre.bench.worker import Request

BUDGET = 5.0  # seconds of timing, after which no further round starts
_TIMING_SHARE = 0.25  # of the time limit at most: the start, the run for memory and slow rounds need the rest
_LONGEST_LIMIT = 1e7  # seconds


@dataclass(frozen=True)
class Settings:
    """What a run measures, and how.

    Attributes:
        models: Names of `nacre.bench.entries.available()`.
        lengths: Steps of the sequences.
        batch: Sequences at a time.
        d_model: Features of input and output.
        num_heads: Heads, where a model has any.
        threads: Threads of torch; None for its own choice.
        time_limit: Seconds for each forward pass and each training step, with the start of its process.
        budget: Seconds of timing, after which no further round starts.
        sweep: Whether lengths are swept: without the reference beside it, and no longer length after one that
            ran out of time or memory.
    """

    models: tuple[str, ...]
    lengths: tuple[int, ...]
    batch: int = 1
    d_model: int = 64
    num_heads: int = 4
    threads: int | None = None
    time_limit: float = 120.0
    budget: float = BUDGET
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

    def entries(self) -> list[Entry]:
        """Every model at the shortest length, then at the next."""
        size = (self.batch, self.d_model, self.num_heads)
        return [Entry(model, length, *size) for length in sorted(set(self.lengths)) for model in self.models]

    def fixed(self) -> dict[str, Any]:
        """What must be equal for two runs to stand in one table."""
        return {name: getattr(self, name) for name in ("batch", "d_model", "num_heads", "threads", "budget")}


class Log:
    """The record of a run, on disk after each addition.

    Args:
        stem: Path of its files without suffix.
        settings: Of the run.
        resume: Whether to go on with the record that is there, if there is one.
    """

    def __init__(self, stem: Path, settings: Settings, *, resume: bool) -> None:
        self.stem = stem
        stem.parent.mkdir(parents=True, exist_ok=True)  # rather fail now than after the first measurement
        self.record = Record(provenance(settings.threads), asdict(settings), (), settings.sweep)
        path = stem.with_name(f"{stem.name}.json")
        if resume and path.exists():
            old = read_record(path)
            _require_equal(path, old, self.record, settings)
            self.record = replace(self.record, results=old.results)

    def find(self, entry: Entry) -> Result:
        """What is known of an entry."""
        return next((r for r in self.record.results if r.entry == entry), Result(entry))

    def add(self, result: Result) -> None:
        """Keep a result, in place of an older one of the same entry."""
        results = {r.entry: r for r in self.record.results} | {result.entry: result}
        self.record = replace(self.record, results=tuple(results.values()))
        write_record(self.stem, self.record)


def measure_all(log: Log, settings: Settings, console: Console) -> None:
    """Measure what the log does not have yet; nothing that becomes of an entry ends the run.

    Args:
        log: Where results go.
        settings: Of the run.
        console: Where progress is shown.
    """
    entries = settings.entries()
    stopped: dict[tuple[str, Action], str] = {}  # why longer lengths of a sweep are left out
    with _progress(console) as progress:
        task = progress.add_task("", total=len(entries) * len(ACTIONS))
        for entry in entries:
            for action in ACTIONS:
                progress.update(task, description=f"{entry.model}, {entry.length:,} steps, {action}")
                _measure(log, settings, entry, action, stopped)
                progress.advance(task)
        progress.update(task, description="done")


def _measure(
    log: Log, settings: Settings, entry: Entry, action: Action, stopped: dict[tuple[str, Action], str]
) -> None:
    known = log.find(entry)
    if known.cost(action).state == OK:
        return
    parameters = None
    reason = stopped.get((entry.model, action))
    if reason is None:
        budget = min(settings.budget, _TIMING_SHARE * settings.time_limit)
        request = Request(entry, action, not settings.sweep, budget, settings.threads)
        cost, parameters = run_worker(request, settings.time_limit)
    else:
        cost = Cost(f"skipped: {reason}")
    if settings.sweep and cost.state in (OUT_OF_TIME, OUT_OF_MEMORY):
        stopped[entry.model, action] = f"{cost.state} at {entry.length}"
    log.add(_with_cost(known, action, cost, parameters))


def _with_cost(result: Result, action: Action, cost: Cost, parameters: int | None) -> Result:
    parameters = result.parameters if parameters is None else parameters
    if action == "forward":
        return replace(result, forward=cost, parameters=parameters)
    return replace(result, step=cost, parameters=parameters)


def _require_equal(path: Path, old: Record, new: Record, settings: Settings) -> None:
    """Refuse to mix figures that do not compare."""
    wanted = {**settings.fixed(), **new.provenance["machine"], **new.provenance["versions"]}
    wanted["commit"] = new.provenance["commit"]
    there = {**old.settings, **old.provenance["machine"], **old.provenance["versions"]}
    there["threads"], wanted["threads"] = (
        old.provenance["machine"]["threads"],
        new.provenance["machine"]["threads"],
    )
    there["commit"] = old.provenance["commit"]
    for name, value in wanted.items():
        if there.get(name) != value:
            raise ValueError(
                f"cannot go on with {path}: it has {name}={there.get(name)!r}, this run {value!r}; "
                "run without --resume to start anew"
            )


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)
