"""`nacre table`: tables on the console and in files, and pictures beside them."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from nacre._util.files import write_atomic
from nacre.train.report.figures import write_plots
from nacre.train.report.paper_tables import csv_paper_table, markdown_paper_table, print_paper_table
from nacre.train.report.tables import csv_table, markdown_table, print_table


@dataclass(frozen=True)
class Tables:
    """What to show.

    Attributes:
        runs: Directory of runs.
        task: Only this task; None for all.
        paper: Whether to fill the paper's table instead of one for each task.
        markdown: Where the table goes in Markdown; None for nowhere.
        csv: Where it goes as CSV; None for nowhere.
        plots: Where pictures go; None for `plots` among the runs.
    """

    runs: Path
    task: str | None = None
    paper: bool = False
    markdown: Path | None = None
    csv: Path | None = None
    plots: Path | None = None


def show(tables: Tables) -> None:
    """Print the table, and write files and pictures."""
    if tables.paper and tables.task is not None:
        raise ValueError("--paper has all tasks of the paper; leave --task out")
    if tables.paper:
        print_paper_table(tables.runs)
    else:
        print_table(tables.runs, task=tables.task)
    written = []
    for path, text in ((tables.markdown, _markdown), (tables.csv, _csv)):
        if path is not None:
            written.append(write_atomic(path, text(tables).encode()))
    if not tables.paper:
        written += write_plots(tables.runs, tables.plots or tables.runs / "plots")
    for path in written:
        Console().print(f"wrote {path}", soft_wrap=True, highlight=False)


def _markdown(tables: Tables) -> str:
    return markdown_paper_table(tables.runs) if tables.paper else markdown_table(tables.runs, task=tables.task)


def _csv(tables: Tables) -> str:
    return csv_paper_table(tables.runs) if tables.paper else csv_table(tables.runs, task=tables.task)
