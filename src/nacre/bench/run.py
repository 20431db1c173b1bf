"""`nacre bench`: what each of its options starts."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from nacre._util.files import write_atomic
from nacre.bench.entries import SWEPT, available, resolve, split, with_stamps
from nacre.bench.figures import plot_ratios, plot_sweep, plot_training
from nacre.bench.measure import BenchLog, Settings, measure_all
from nacre.bench.tables import print_results, print_sweep
from nacre.bench.training import TRAINED, print_training

LENGTHS = (1024,)
SWEPT_LENGTHS = tuple(2**i for i in range(8, 18))  # 256 to 131,072


@dataclass(frozen=True)
class Options:
    """The command's options; empty models and lengths stand for the defaults of a table, or of a sweep."""

    models: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ()
    batch: int = 1
    d_model: int = 64
    num_heads: int = 4
    threads: int | None = None
    time_limit: float = 120.0
    out: Path = Path("results")
    resume: bool = False
    sweep: bool = False
    selection: bool = False
    training: bool = False


def run(options: Options) -> None:
    """Do what the options ask for: the table, or instead of it a sweep, shapes of training, or selection."""
    if options.sweep or options.training or not options.selection:
        run_bench(_settings(options), options.out, resume=options.resume)
    if options.selection:
        from nacre.bench.selection import run_selection

        options.out.mkdir(parents=True, exist_ok=True)
        run_selection(options.out)


def run_bench(settings: Settings, out: Path, *, resume: bool = False) -> None:
    """Measure, print a table, and write `bench.json`, `.csv` and `.png`, also after Ctrl-C.

    A sweep writes `bench-sweep.*`, training shapes `bench-training.*`. With `resume`, what an earlier run of equal
    settings finished is kept.
    """
    kind = "-sweep" if settings.sweep else "-training" if settings.training else ""
    log = BenchLog(out / f"bench{kind}", settings, resume=resume)
    try:
        measure_all(log, settings, Console(stderr=True))
    finally:
        if log.record.results:
            _report(log, settings)


def _report(log: BenchLog, settings: Settings) -> None:
    """Print the record and draw it."""
    console = Console()
    results = tuple(sorted(log.record.results, key=lambda r: r.entry.length))
    print_it, draw = (print_sweep, plot_sweep) if settings.sweep else (print_results, plot_ratios)
    if settings.training:
        print_it, draw = print_training, plot_training
    print_it(results, console)
    files = [log.stem.with_name(f"{log.stem.name}.{suffix}") for suffix in ("json", "csv", "png")]
    write_atomic(files[-1], draw(results))
    for file in files:
        console.print(f"wrote {file}", soft_wrap=True)


def _settings(options: Options) -> Settings:
    if options.training:
        return _training_settings(options)
    names = [name for name in SWEPT if name in available()] if options.sweep else available()
    return Settings(
        models=tuple(resolve(options.models) if options.models else names),
        lengths=_lengths(options.lengths) or (SWEPT_LENGTHS if options.sweep else LENGTHS),
        batch=options.batch,
        d_model=options.d_model,
        num_heads=options.num_heads,
        threads=options.threads,
        time_limit=options.time_limit,
        sweep=options.sweep,
    )


def _training_settings(options: Options) -> Settings:
    own = Options()
    for name in ("lengths", "batch", "d_model", "num_heads", "sweep"):
        if (value := getattr(options, name)) != getattr(own, name):
            raise ValueError(f"training has shapes of its own, so {name} must be left out, got {value!r}")
    models = resolve(options.models) if options.models else list(TRAINED)
    return Settings(
        tuple(with_stamps(models)), (), threads=options.threads, time_limit=options.time_limit, training=True
    )


def _lengths(values: Iterable[str]) -> tuple[int, ...]:
    parts = split(values)
    for part in parts:
        if not part.isascii() or not part.isdigit() or int(part) < 1:
            raise ValueError(f"lengths must be whole numbers of at least 1, got {part!r}")
    return tuple(int(part) for part in parts)
