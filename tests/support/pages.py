"""Pages of the documentation: their code and commands, run here, and the program that writes their tables."""

import importlib
import io
import os
import re
import shlex
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from nacre import cli
from nacre.native import library

ROOT = Path(__file__).parents[2]
DOCS, RESULTS = ROOT / "docs", ROOT / "results"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def tool(name: str) -> ModuleType:
    """A module of tools/."""
    if str(ROOT / "tools") not in sys.path:
        sys.path.append(str(ROOT / "tools"))
    return importlib.import_module(name)


def text_of(page: Path) -> str:
    """A page in one line, so that sentences can be looked up in it."""
    return " ".join(page.read_text().split())


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code in one language."""
    return [found[2] for found in BLOCK.finditer((DOCS / page).read_text()) if found[1] == language]


def commands(page: str) -> list[str]:
    """All commands of a page, in its order."""
    return "".join(blocks(page, "bash")).replace("\\\n", "").splitlines()


def run(command: str, folder: Path) -> str:
    """Run a nacre command in this process and in a folder; gives what it printed."""
    library.library()  # from the user's cache: the next line hides it
    surroundings = {"COLUMNS": "120", "NACRE_CACHE": str(folder / "cache")}
    words, said = shlex.split(command), io.StringIO()
    assert words[0] == "nacre"
    with (
        chdir(folder),
        redirect_stdout(said),
        mock.patch.dict(os.environ, surroundings),
        mock.patch("sys.argv", words),
        pytest.raises(SystemExit) as end,
    ):
        cli.main()
    assert not end.value.code, f"{command}\n{said.getvalue()}"
    return said.getvalue()
