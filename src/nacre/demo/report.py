"""What the demo reports: a table on the console, and an HTML page that needs no other file."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from nacre._util.files import write_atomic
from nacre._util.text import console_table, json_text
from nacre.models import model_info
from nacre.study.spiral.data import PARTS

if TYPE_CHECKING:
    from nacre.demo.run import DemoResult

_METRICS = ("mse", "mae")
_WIDE = 110  # columns of a console that has room for both metrics
_CHOSEN = "Settings were chosen on spirals of other seeds (0, and 100 and up), not on the spirals shown."
_FIGURES = {
    "spirals.png": (
        "Trajectories",
        "The first test spiral of each family, as each model completes it. Blue: the half in which the dots were "
        "seen. Orange: the half of which nothing was seen. MSE: of both halves, over all test spirals.",
    ),
    "losses.png": ("Training", "All models saw the same batches in the same order."),
    "circuit.png": (
        "The circuit",
        "nac-plus runs it for each pair of a moment and one of its keys. Query and key neurons hold what is known "
        "of the two moments; clock neurons hold how much time lies between them.",
    ),
    "trace.png": (
        "Inside the circuit",
        "nac-plus, the first test spiral, in the first head. Each value is the mean over the attended keys by "
        "attention weight; the dashed line is the last observation.",
    ),
}
_STYLE = """
:root { color-scheme: light; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; background: #fff; color: #222;
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right; font-weight: normal; }
th { color: #555; }
th[colspan] { text-align: center; }
tbody th { color: inherit; text-align: left; min-width: 7rem; }
.controls { color: #666; }
figure { margin: 0; }
img { width: 100%; min-width: 32rem; height: auto; display: block; }
figcaption, footer, .note { color: #555; font-size: .9rem; }
@media (max-width: 40rem) { table { font-size: .85rem; } th, td { padding: .3rem .4rem; } }
footer { margin-top: 2rem; border-top: 1px solid #ddd; padding-top: .5rem; }
"""


def print_table(result: DemoResult, console: Console) -> None:
    """Print the errors side by side."""
    metrics = _METRICS if console.width >= _WIDE else _METRICS[:1]
    columns = ("", "parameters", *(f"{metric.upper()}\n{part}" for metric in metrics for part in PARTS))
    table = console_table(columns, title=f"errors on {_test(result)}", caption=_CHOSEN)
    table.columns[0].no_wrap = False  # names of controls are long
    for name, errors in {**result.models, **result.controls}.items():
        size = f"{result.parameters[name]['all']:,}" if name in result.parameters else ""
        table.add_row(name, size, *(_number(errors[m][part]) for m in metrics for part in PARTS))
    console.print(table)


def write_files(out: Path, result: DemoResult, figures: dict[str, bytes]) -> tuple[Path, ...]:
    """Write report, numbers and figures, in this order."""
    contents = {
        "report.html": build_report(result, figures).encode(),
        "result.json": json_text(result.to_dict()).encode(),
        **figures,
    }
    return tuple(write_atomic(out / name, content) for name, content in contents.items())


def build_report(result: DemoResult, figures: dict[str, bytes]) -> str:
    """An HTML page with everything in it, also the figures, which are PNG files by name."""
    drawn = "\n".join(_figure(*_FIGURES[name], content) for name, content in figures.items())
    models = "\n".join(f"<li><b>{escape(name)}</b>: {escape(_about(name))}</li>" for name in result.models)
    named = [*result.settings.items(), *result.versions.items()]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nacre demo: irregular spirals</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>Completing spirals from irregular observations</h1>
<p>Each spiral is seen at 50 irregular moments of its first half, with noise.
A model must say where it was between those moments (interpolation), and where it goes in the half that nobody saw
(extrapolation).</p>
<h2>Errors</h2>
{_table(result)}
<p class="note">On {_test(result)}. MSE and MAE: mean squared and mean absolute error.
Bold: lowest of its column. Controls have no network. {escape(_CHOSEN)}</p>
<ul class="note">
{models}
</ul>
<p class="note">Only the layer differs: the network around it, the {result.spirals["train"]} training spirals, the
batches, the steps and the learning rate are the same for all. The weights kept are those that were best on
{result.spirals["valid"]} validation spirals.</p>
{drawn}
<footer>{", ".join(f"{escape(name)} {escape(str(value))}" for name, value in named)}</footer>
</body>
</html>
"""


def _test(result: DemoResult) -> str:
    return f"{result.spirals['test']} test spirals, in units of the answers' standard deviation"


def _about(model: str) -> str:
    """What a model is, and what it knows of time."""
    info = model_info(model)
    known = "" if info.uses_time else "; it knows time only from its inputs"
    order = "; it reads in order of time and never looks ahead" if info.causal else ""
    return f"{info.summary} ({info.paper}){known}{order}."


def _number(value: float) -> str:
    return f"{value:.5f}"


def _table(result: DemoResult) -> str:
    rows = {**result.models, **result.controls}
    columns = [(metric, part) for metric in _METRICS for part in PARTS]
    best = {c: min(errors[c[0]][c[1]] for errors in rows.values()) for c in columns}

    def cell(value: float, lowest: float) -> str:
        number = _number(value)
        return f"<td>{f'<b>{number}</b>' if value == lowest else number}</td>"

    def row(name: str) -> str:
        size = result.parameters.get(name)
        count = "control" if size is None else f"{size['all']:,} ({size['layer']:,})"
        cells = "".join(cell(rows[name][c[0]][c[1]], best[c]) for c in columns)
        kind = ' class="controls"' if size is None else ""
        return f'<tr{kind}><th scope="row">{escape(name)}</th>{cells}<td>{count}</td></tr>'

    parts = "".join(f'<th scope="col">{part}</th>' for _ in _METRICS for part in PARTS)
    metrics = "".join(f'<th scope="colgroup" colspan="{len(PARTS)}">{m.upper()}</th>' for m in _METRICS)
    size = '<th scope="col">parameters (layer)</th>'
    head = f"<tr><th></th>{metrics}<th></th></tr>\n<tr><th></th>{parts}{size}</tr>"
    body = "\n".join(row(name) for name in rows)
    return f'<div class="scroll"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _figure(title: str, caption: str, content: bytes) -> str:
    source = base64.b64encode(content).decode()
    return f"""<h2>{escape(title)}</h2>
<figure>
<div class="scroll"><img alt="{escape(caption)}" src="data:image/png;base64,{source}"></div>
<figcaption>{escape(caption)}</figcaption>
</figure>"""
