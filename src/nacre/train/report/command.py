"""`nacre table`: tables on the console and in files, and figures."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from nacre._util.files import write_atomic
from nacre.train.report.figures import write_plots
from nacre.train.report.paper_tables import csv_paper_table, markdown_paper_table, print_paper_table
from nacre.train.report.tables import csv_table, markdown_table, print_table


@dataclass(frozen=True)
class Tables:
    """What to show."""

    runs: Path  # directory of runs
    task: str | None = None  # only this one
    paper: bool = False  # fill the paper's table instead of one for each task
    markdown: Path | None = None  # where the table goes in Markdown
    csv: Path | None = None  # where it goes as CSV
    plots: Path | None = None  # where figures go; None for `plots` among the runs


def show(tables: Tables) -> None:
    """Print the table, and write files and figures."""
    runs, task = tables.runs, tables.task
    if tables.paper and task is not None:
        raise ValueError("--paper has all tasks of the paper; leave --task out")
    if tables.paper:
        print_paper_table(runs)
    else:
        print_table(runs, task=task)
    written = []
    if tables.markdown is not None:
        text = markdown_paper_table(runs) if tables.paper else markdown_table(runs, task=task)
        written.append(write_atomic(tables.markdown, text.encode()))
    if tables.csv is not None:
        text = csv_paper_table(runs) if tables.paper else csv_table(runs, task=task)
        written.append(write_atomic(tables.csv, text.encode()))
    if not tables.paper:
        written += write_plots(runs, tables.plots or (runs.parent if runs.is_file() else runs) / "plots")
    for path in written:
        Console().print(f"wrote {path}", soft_wrap=True, highlight=False)
