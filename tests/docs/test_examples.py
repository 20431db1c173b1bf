"""The examples run, are short, and show what they say."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from support.hypothesis import DEEP
from support.pages import ROOT
from support.pages import run as run_command

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
    said, found, names = io.StringIO(), 0, {"run_command": run_command, "Path": Path}
    with mpl.rc_context({"backend": "agg"}), redirect_stdout(said):
        for source in cells(name):
            short, count = re.subn(
                r"steps = ?\d+|steps=\d+", lambda m: m[0].partition("=")[0] + f"={steps}", source
            )
            text = source if DEEP else short
            python = re.sub(r"^!(.*)$", r"print(run_command('\1', Path.cwd()))", text, flags=re.MULTILINE)
            exec(compile(python, name, "exec"), names)
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


@pytest.mark.slow
def test_notebook_own_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the notebook goes elsewhere; this comes back
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names, said = execute("own-data", 120)
    assert "they are flagged as not observed" in said
    assert re.search(r"nac-plus, fold 1 of 5: accuracy \d+", said)
    assert len(names["predictions"]) == 40
    assert names["right"] > 0.8  # guessing is 0.5
    assert names["accuracies"][0] > 0.8 > 0.7 > names["accuracies"][-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* does not beat the control")
def test_notebook_classify_with_gaps(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names, said = execute("classify-with-gaps", 20)
    assert names["same"]
    assert len(names["share"]) == 300
    assert "they are flagged as not observed" in said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* does not beat the control")
def test_notebook_any_moment(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names, _ = execute("any-moment", 60)
    assert (names["error"] ** 2).mean() < (names["lines"] ** 2).mean()
    assert names["recording"].about.features == ("x", "seen", "guess")
