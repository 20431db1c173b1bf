"""`run_doctor`: all checks, printed as they come."""

import warnings
from collections.abc import Iterator
from pathlib import Path

from nacre._util.text import json_text
from nacre.doctor.data import check_data
from nacre.doctor.environment import check_environment
from nacre.doctor.finding import Finding, State
from nacre.doctor.kernels import check_kernels
from nacre.doctor.known_numbers import check_numbers

_MARKS = {State.OK: "ok  ", State.NOTE: "note", State.PROBLEM: "!!  "}


def run_doctor(data_dir: Path | None, as_json: bool) -> int:
    """Print what was found, plain text to paste into an issue, or JSON; gives the number of problems."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that kernels are missing is a finding
        for finding in _checks(data_dir):
            found.append(finding)
            if not as_json:
                print(_line(finding), flush=True)  # noqa: T201
    problems = sum(finding.state is State.PROBLEM for finding in found)
    if as_json:
        print(json_text({"problems": problems, "findings": [f.to_dict() for f in found]}), end="")  # noqa: T201
    else:
        print(f"\n{problems or 'No'} problem{'' if problems == 1 else 's'}.")  # noqa: T201
    return problems


def _checks(data_dir: Path | None) -> Iterator[Finding]:
    yield from check_environment()
    yield from check_kernels()
    yield from check_numbers()
    yield from check_data(data_dir)


def _line(finding: Finding) -> str:
    fix = f"\n     -> {finding.fix}" if finding.fix else ""
    return f"{_MARKS[finding.state]} {finding.what}: {finding.text}{fix}"
