"""`nacre inspect`: a figure of a run, or tables of what its neurons do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from nacre._util.files import write_atomic
from nacre._util.progress import bars
from nacre._util.provenance import provenance
from nacre._util.text import console_table, csv_text, json_text
from nacre.inspect.analysis.gates import gate_by_label
from nacre.inspect.analysis.health import Health, health
from nacre.inspect.analysis.labels import layer_of
from nacre.inspect.analysis.lesion_study import LesionStudy, lesion_study
from nacre.inspect.analysis.strengths import strengths
from nacre.inspect.analysis.time_tuning import TimeTuning, time_tuning
from nacre.inspect.analysis.tuning import TooFewLabels, Tuning, tuning
from nacre.inspect.options import FigureKind
from nacre.inspect.recording.hooks import check_index
from nacre.inspect.recording.layer_writer import SENSORY
from nacre.inspect.recording.recording import Recording
from nacre.inspect.viewer.command import open_recording

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 5  # of the best tuned


@dataclass(frozen=True)
class InspectOptions:
    """What to look at."""

    run: Path  # a run, or a recording
    figure: str | None = None  # which figure to draw; None for tables
    out: Path | None = None  # file of the figure, or folder of the tables; None for one in the current folder
    layer: str | None = None  # None for the only one
    head: int = 0  # head, sample and step (None for the middle) of figures that show one
    sample: int = 0
    step: int | None = None
    what: str = "truth"  # labels: "truth", or "answer" for those of the model
    output: str | None = None  # of several numbers, the one whose thirds are the labels; None for the first
    permutations: int = 200
    samples: int = 8  # sequences or drives to record, where a run has no recording yet
    steps: int | None = None  # steps of each sample that lesions are tried on; None for all
    again: bool = False  # whether the run is recorded anew
    data_dir: Path | None = None


def inspect_run(options: InspectOptions) -> None:
    """Draw a figure, or write tables and print a summary of them."""
    console = Console(stderr=True)
    recording = open_recording(options.run, options.samples, options.data_dir, console, again=options.again)
    check_index("head", options.head, layer_of(recording, options.layer).heads)
    check_index("sample", options.sample, recording.samples)
    if options.figure is not None:
        from nacre.inspect.figures.style import save_figure  # matplotlib takes seconds to import

        out = options.out or Path(f"{options.figure}.svg")
        save_figure(_draw(options.figure, recording, options, console), out)
        console.print(f"wrote {out}")
        return
    _write_tables(recording, options, console)


def _draw(figure: str, recording: Recording, options: InspectOptions, console: Console) -> Figure:
    from nacre.inspect.figures.activity import draw_activity
    from nacre.inspect.figures.attention import draw_attention
    from nacre.inspect.figures.circuit import draw_circuit
    from nacre.inspect.figures.gates import draw_gates
    from nacre.inspect.figures.lesion import draw_lesion
    from nacre.inspect.figures.time_tuning import draw_time_tuning
    from nacre.inspect.figures.tuning import draw_tuning

    layer = layer_of(recording, options.layer).name
    place = (recording, layer, options.sample, options.head)
    if figure == FigureKind.TUNING:
        return draw_tuning(_tuning(recording, options))
    if figure == FigureKind.TIME_TUNING:
        return draw_time_tuning(time_tuning(recording, options.layer, permutations=options.permutations))
    if figure == FigureKind.LESION:
        return draw_lesion(_lesions(recording, options, console))
    if figure == FigureKind.GATES:
        return draw_gates(recording, layer, options.sample)
    if figure == FigureKind.ACTIVITY:
        return draw_activity(*place)
    if figure == FigureKind.ATTENTION:
        return draw_attention(*place, options.step)
    middle = recording.layers[layer].length(options.sample) // 2
    return draw_circuit(*place, middle if options.step is None else options.step)


def _tuning(recording: Recording, options: InspectOptions) -> Tuning:
    return tuning(recording, options.layer, options.what, options.output, permutations=options.permutations)


def _lesions(recording: Recording, options: InspectOptions, console: Console) -> LesionStudy:
    with bars(console) as progress:
        bar = progress.add_task("lesions", total=None, loss="")

        def tell(done: int, of: int) -> None:
            progress.update(bar, completed=done, total=of)

        return lesion_study(recording, layer=options.layer, steps=options.steps, progress=tell)


def _write_tables(recording: Recording, options: InspectOptions, console: Console) -> None:
    out = options.out or Path("inspect")
    out.mkdir(parents=True, exist_ok=True)
    found, study = health(recording, options.layer), _lesions(recording, options, console)
    tables: dict[str, Sequence[dict[str, Any]]] = {"lesions.csv": study.table()}
    tuned = None
    try:
        tuned = _tuning(recording, options)
        tables["tuning.csv"] = tuned.rows()
        tables["gates.csv"] = [
            row
            for gate in layer_of(recording, options.layer).gates
            for row in gate_by_label(recording, gate, options.what, options.output, layer=options.layer).rows()
        ]
    except TooFewLabels as error:  # the other tables need no labels
        console.print(f"no tuning: {error}")
    timed = None
    try:
        timed = time_tuning(recording, options.layer, permutations=options.permutations)
        tables["time-tuning.csv"] = timed.rows()
    except TooFewLabels as error:
        console.print(f"no time tuning: {error}")
    for name, rows in tables.items():
        rounded = [{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
        write_atomic(out / name, csv_text(list(rows[0]), rounded).encode())
    summary = _summary(recording, options, found, tuned, timed, study)
    write_atomic(out / "inspect.json", json_text(summary).encode())
    _show(console, summary)
    console.print(f"wrote {', '.join([*tables, 'inspect.json'])} into {out}")


def _summary(
    recording: Recording,
    options: InspectOptions,
    found: Health,
    tuned: Tuning | None,
    timed: TimeTuning | None,
    study: LesionStudy,
) -> dict[str, Any]:
    """Summary of the tables, as plain data."""
    strong = strengths(recording.model(), found.layer.partition("#")[0])
    groups = [row for row in study.rows if row.lesion.index is None and row.lesion.head is None]
    return {
        "provenance": provenance(None),
        "recording": recording.about.name,
        "samples": list(recording.about.samples),
        "layer": found.layer,
        "neurons": found.neurons,
        "dead": found.dead,
        "saturated": found.saturated,
        "effective_keys": {name: _list(getattr(found, f"keys_{name}")) for name in ("mean", "min", "max")},
        "phi_std": _list(found.phi_std),
        "omega_std": _list(found.omega_std),
        "synapses": strong.synapses,
        "flipped": strong.flipped.tolist(),
        "tuning": None if tuned is None else _of_tuning(tuned),
        "time_tuning": None if timed is None else _of_time_tuning(timed),
        "lesions": {
            "metric": study.metric,
            "better": study.better,
            "intact": _number(study.intact),
            "steps": options.steps,
            "groups": {g.lesion.group: {"change": _number(g.change), "metric": _number(g.metric)} for g in groups},
        },
    }


def _of_tuning(tuned: Tuning) -> dict[str, Any]:
    return {
        "what": tuned.what,
        "labels": {name: int(n) for name, n in zip(tuned.names, tuned.counts, strict=True)},
        "threshold": _number(tuned.threshold),
        "permutations": tuned.permutations,
        "control": str(tuned.control),
        "above": _above(tuned),
        "hopeless": tuned.hopeless,
        "best": _best(tuned),
    }


def _of_time_tuning(timed: TimeTuning) -> dict[str, Any]:
    return {
        "unit": timed.unit,
        "elapsed": _list(timed.elapsed),
        "pairs": timed.pairs,
        "threshold": _number(timed.threshold),
        "permutations": timed.permutations,
        "above": _above(timed),
        "hopeless": timed.hopeless,
        "best": _best(timed),
    }


def _above(tuned: Tuning | TimeTuning) -> dict[str, int]:
    """How many neurons of each group, and gates, are above the threshold."""
    return dict(Counter(tuned.columns[i].partition(" ")[0] for i in tuned.above.nonzero()[1]))


def _best(tuned: Tuning | TimeTuning) -> list[dict[str, Any]]:
    rows = tuned.rows()[:_SHOWN]
    return [{k: _number(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def _show(console: Console, summary: dict[str, Any]) -> None:
    tuned, timed, metric = summary["tuning"], summary["time_tuning"], summary["lesions"]["metric"]
    titles = ["group", "neurons", "dead", "saturated", "tuned", "to time", "change when silent", metric]
    table = console_table(titles)
    for group, count in summary["neurons"].items():
        lesion = summary["lesions"]["groups"].get(group, {})
        table.add_row(
            group,
            str(count),
            str(summary["dead"][group]),
            str(summary["saturated"][group]),
            _tuned(tuned, group),
            "" if group in SENSORY else _tuned(timed, group),
            _text(lesion.get("change")),
            _text(lesion.get("metric")),
        )
    table.add_row("none silent", "", "", "", "", "", "0", _text(summary["lesions"]["intact"]), style="bold")
    console.print(table)
    console.print(f"effective keys by head: {', '.join(map(_text, summary['effective_keys']['mean']))}")
    for name, found in (("tuned", tuned), ("to time", timed)):
        if found is not None and found["hopeless"]:
            console.print(
                f"{name}: nothing can be significant: {found['hopeless']}; record more (--samples, --again)"
            )
    if tuned is not None and not tuned["hopeless"]:
        console.print(
            f"tuned: more information on {tuned['what']} than {_text(tuned['threshold'])} bits, which chance "
            f"gives the best of all in about 5 % of {tuned['permutations']} permutations"
        )
    if timed is not None and not timed["hopeless"]:
        console.print("to time: tuned to the time from key to query, likewise beyond chance")


def _tuned(found: dict[str, Any] | None, group: str) -> str:
    """How many neurons of a group are tuned; a dash where none could be."""
    if found is None:
        return ""
    return "-" if found["hopeless"] else str(found["above"].get(group, 0))


def _list(values: np.ndarray) -> list[float]:
    return [_number(x) for x in values]


def _number(value: float) -> float:
    """Six digits."""
    return float(f"{value:.6g}")


def _text(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.4g}"
