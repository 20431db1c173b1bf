"""Score the plain methods of docs/missing-values.md, fold by fold: python tools/measure_summaries.py.

Runs the page's own blocks, and writes what they found into results/missing/summaries.json.
"""

import re
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from measured import provenance, write_result

PAGE = Path(__file__).parents[1] / "docs" / "missing-values.md"
FILE = "missing/summaries.json"


def found_by(page: str) -> dict[str, Any]:
    """What the first two Python blocks of a page define: the table, and the plain methods on its summaries."""
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]:
            exec(compile(block, PAGE.name, "exec"), names)
    return names


def main() -> None:
    """Measure and write."""
    found = found_by(PAGE.read_text())
    digest = found["data"].digest
    write_result(FILE, provenance() | {"data": digest, "auroc": found["scores"]})


if __name__ == "__main__":
    main()
