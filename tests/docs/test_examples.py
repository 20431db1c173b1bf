"""The examples run, are short, and show what they say."""

import io
import json
import re
from contextlib import redirect_stdout

import matplotlib as mpl
import matplotlib.pyplot as plt
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


def cells(name):
    """Code cells of a notebook."""
    notebook = json.loads((ROOT / "examples" / f"{name}.ipynb").read_text())
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(
        cell["outputs"] for cell in code if "print(" in "".join(cell["source"])
    )  # readers see what came out
    return ["".join(cell["source"]) for cell in code]


def execute(name, steps):
    """What a notebook defines and prints, with so many training steps, or in deep runs as it is."""
    said, found, names = io.StringIO(), 0, {}
    with mpl.rc_context({"backend": "agg"}), redirect_stdout(said):
        for source in cells(name):
            short, count = re.subn(
                r"steps = ?\d+|steps=\d+", lambda m: m[0].partition("=")[0] + f"={steps}", source
            )
            exec(compile(source if DEEP else short, name, "exec"), names)
            found += count
    plt.close("all")
    assert found == 1
    return names, said.getvalue()


@pytest.mark.slow
def test_notebook_drop_in():
    names, said = execute("drop-in", 120)
    without = names["results"]["NACEncoderLayer, without time"]
    assert names["results"]["NACEncoderLayer, with time"] > without + 0.1
    assert "attn_mask must be a causal mask" in said


@pytest.mark.slow
def test_notebook_looking_inside():
    names, _ = execute("looking-inside", 60)
    assert names["errors"]["the circuit"] > 1.5 * names["errors"]["nothing"]
    assert names["trace"].command.shape[-1] == 8


@pytest.mark.slow
def test_notebook_streaming_and_export():
    names, said = execute("streaming-and-export", 20)
    for one in (names["live"] - names["whole"], names["answer"] - names["whole"][1:, 4]):
        assert one.abs().max() < 1e-5
    assert said.count("largest difference") == 7
