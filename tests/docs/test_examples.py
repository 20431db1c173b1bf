"""The examples run as they are, are short, and show what they say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def run(name):
    path = next(path for path in EXAMPLES if path.stem == name)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [float(a or b) for a, b in re.findall(r":\s+(\d\.\d+)|at most (\S+)", done.stdout)]


def test_there_are_two_and_they_are_short():
    assert [path.stem for path in EXAMPLES] == ["classify", "forecast"]
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 80


@pytest.mark.slow
def test_only_time_stamps_tell_the_classes_apart():
    guessing, without, with_time = run("classify")
    assert without < guessing + 0.1
    assert with_time > 0.75


@pytest.mark.slow
def test_the_forecaster_beats_persistence_and_streams():
    same_as_before, straight, live, difference = run("forecast")
    assert live < min(same_as_before, straight)
    assert difference < 1e-5
