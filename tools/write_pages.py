"""Write the tables of the pages from results/: python tools/write_pages.py [PAGE ...] [--check | --figures].

A table stands in a page between `<!-- table: NAME -->` and `<!-- end -->`; the module of the same name in pages/
says what it holds. `--figures` also draws the figures that can be drawn from results/.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
from typing import TYPE_CHECKING

import pages
from pages._shared import ROOT

from nacre._util.files import write_atomic

if TYPE_CHECKING:
    from types import ModuleType

DOCS = ROOT / "docs"
PAGES = [name.replace("_", "-") for _, name, _ in pkgutil.iter_modules(pages.__path__) if not name.startswith("_")]
MARKED = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def module_of(page: str) -> ModuleType:
    """The module that writes the tables of a page."""
    return importlib.import_module(f"pages.{page.replace('-', '_')}")


def written(page: str, text: str) -> str:
    """The text of a page with its tables written anew."""
    tables = module_of(page).TABLES
    return MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]]()}\n{found[3]}", text)


def main(arguments: list[str] | None = None) -> int:
    """Write pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="*", help=f"one of {', '.join(PAGES)}; all, if none is given")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page differs")
    what.add_argument("--figures", action="store_true", help="also draw the figures")
    options = parser.parse_args(arguments)
    if unknown := set(options.page) - set(PAGES):
        parser.error(f"no tables for {', '.join(sorted(unknown))}; there are {', '.join(PAGES)}")
    changed = []
    for page in options.page or PAGES:
        path = DOCS / f"{page}.md"
        before = path.read_text()
        after = written(page, before)
        if after != before:
            changed.append(page)
            sys.stdout.write(f"docs/{page}.md {'differs' if options.check else 'is written'}\n")
        if not options.check:
            write_atomic(path, after.encode())
        if options.figures:
            for name, draw in getattr(module_of(page), "FIGURES", {}).items():
                write_atomic(DOCS / "images" / name, draw())
                sys.stdout.write(f"docs/images/{name} is drawn\n")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
