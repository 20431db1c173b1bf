"""The examples run, are short, and show what they say."""

import io
import re
from contextlib import redirect_stdout

import pytest

from support.hypothesis import DEEP
from support.pages import ROOT

EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}


def run(name, steps):
    """What an example prints, after so many training steps, or in deep runs as it is."""
    source, found = re.subn(r"steps: int = \d+", f"steps: int = {steps}", EXAMPLES[name].read_text())
    assert found == 1
    said = io.StringIO()
    with redirect_stdout(said):
        exec(compile(EXAMPLES[name].read_text() if DEEP else source, name, "exec"), {"__name__": "__main__"})
    return [float(a or b) for a, b in re.findall(r":\s+(\d\.\d+)|at most (\S+)", said.getvalue())]


def test_there_are_two_and_they_are_short():
    assert [*EXAMPLES] == ["classify", "forecast"]
    for path in EXAMPLES.values():
        assert len(path.read_text().splitlines()) < 80


@pytest.mark.slow
def test_only_time_stamps_tell_the_classes_apart():
    guessing, without, with_time = run("classify", 60)
    assert without < guessing + 0.1
    assert with_time > 0.7


@pytest.mark.slow
def test_the_forecaster_beats_persistence_and_streams():
    same_as_before, straight, live, difference = run("forecast", 150)
    assert live < min(same_as_before, straight)
    assert difference < 1e-5
