"""docs/results.md, from results/standard and results/quick: result.json of each run."""

from nacre.train.report.paper_tables import markdown_paper_table
from nacre.train.report.tables import markdown_table

from ._shared import RESULTS, origin

STANDARD, RUNS = RESULTS / "standard", RESULTS / "quick"
TABLES = {
    "standard": lambda: markdown_table(STANDARD),
    "standard-origin": lambda: origin("standard"),
    "tasks": lambda: markdown_table(RUNS),
    "paper": lambda: markdown_paper_table(RUNS),
    "origin": lambda: origin("quick"),
}
