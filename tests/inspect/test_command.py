"""`nacre inspect`: figures and tables of a recording, and what it refuses."""

import csv
import json

import numpy as np
import pytest
import torch

import nacre
from nacre.inspect import record
from nacre.inspect.options import FigureKind
from support.train import nacre as command

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    torch.manual_seed(0)
    layer = nacre.NAC(8, 2, d_input=3, backbone_units=18, clock=2, near=4)
    x, time = torch.randn(2, 40, 3), torch.rand(2, 40).cumsum(1)
    return record(layer, x, time, out=tmp_path_factory.mktemp("seen") / "look").path


@pytest.mark.parametrize("figure", list(FigureKind))
def test_each_figure_is_drawn(figure, seen, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command(monkeypatch, "inspect", seen, "--figure", figure, "--what", "answer", "--permutations", 19) == 0
    assert (tmp_path / f"{figure}.svg").read_text().startswith("<?xml")
    assert f"wrote {figure}.svg" in capsys.readouterr().err


def test_tables_say_what_the_analyses_found(seen, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--what", "answer", "--output", "y2", "--permutations", 39, "--steps", 30, "--out", "made/here"]
    assert command(monkeypatch, "inspect", seen, *options) == 0
    out = tmp_path / "made" / "here"
    found = json.loads((out / "inspect.json").read_text())
    recording = nacre.inspect.Recording(seen)
    tuned = nacre.inspect.tuning(recording, what="answer", output="y2", permutations=39)
    study = nacre.inspect.lesion_study(recording, steps=30)
    with (out / "tuning.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["above"] == "True" for row in rows] == [row["above"] for row in tuned.rows()]
    assert sum(found["tuning"]["above"].values()) == tuned.above.sum()
    bits = [float(row["information"]) for row in rows]
    np.testing.assert_allclose(bits, np.sort(tuned.information.flat)[::-1], rtol=1e-5)
    timed = nacre.inspect.time_tuning(recording, permutations=39)
    with (out / "time-tuning.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_allclose(
        [float(row["strength"]) for row in rows], np.sort(timed.strength.flat)[::-1], rtol=1e-5
    )
    assert [row["above"] == "True" for row in rows] == [row["above"] for row in timed.rows()]
    assert {row["silent clock"] for row in rows if row["group"] == "clock"} == {""}
    assert found["time_tuning"]["above"]["clock"] == timed.above[:, :4].sum()
    np.testing.assert_allclose(found["time_tuning"]["elapsed"], timed.elapsed, rtol=1e-5, atol=1e-9)
    assert found["time_tuning"]["best"][0]["group"] == "clock"
    with (out / "lesions.csv").open(newline="") as file:
        changes = [float(row["change"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(changes, [row.change for row in study.rows], rtol=1e-3, atol=1e-9)
    assert found["lesions"]["groups"]["motor"]["change"] > 0
    assert found["lesions"]["groups"]["clock"]["change"] > 0
    assert found["neurons"]["clock"] == 8
    assert found["lesions"]["intact"] is None  # there are no true answers
    assert found["neurons"]["motor"] == 4
    said = capsys.readouterr().err
    assert "effective keys by head" in said
    assert "none silent" in said
    assert "to time: tuned to the time from key to query" in " ".join(said.split())


def test_a_model_that_always_says_the_same_has_no_tuning_but_the_other_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    layer = nacre.NAC(8, 2, backbone_units=18)
    torch.nn.init.zeros_(layer.out_proj.weight)
    record(layer, torch.randn(1, 30, 8), out="same")
    assert command(monkeypatch, "inspect", "same", "--what", "answer") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "no tuning: what must be answers with at least two labels that repeat, got 'answer' with" in said
    names = {"lesions.csv", "time-tuning.csv", "inspect.json"}
    assert {path.name for path in (tmp_path / "inspect").iterdir()} == names
    assert json.loads((tmp_path / "inspect" / "inspect.json").read_text())["tuning"] is None


def test_samples_of_one_step_have_no_time_tuning_but_the_other_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    record(nacre.NAC(8, 2, backbone_units=18, clock=1), torch.randn(9, 1, 8), out="short")
    assert command(monkeypatch, "inspect", "short", "--what", "answer", "--permutations", 19) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "no time tuning: all 18 pairs have the same elapsed time" in said
    assert not (tmp_path / "inspect" / "time-tuning.csv").exists()
    assert json.loads((tmp_path / "inspect" / "inspect.json").read_text())["time_tuning"] is None


def test_what_cannot_be_shown_is_refused_in_words(seen, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cases = [
        (["--figure", "gates", "--out", "x.jpg"], "path must end in .svg, .pdf, .png"),
        (["--figure", "circuit", "--head", 7], "head must be from 0 to 1"),
        (["--head", 7], "head must be from 0 to 1"),
        (["--figure", "circuit", "--sample", 9], "sample must be from 0 to 1"),
        (["--figure", "circuit", "--step", 999], "step must be from 0 to 39"),
        (["--layer", "other"], "layer must name a layer of the recording, got 'other'"),
        (["--what", "answer", "--output", "other"], "output must name an output"),
        ([], "has no true answers"),
    ]
    for options, words in cases:
        assert command(monkeypatch, "inspect", seen, *options) == 2
        assert words in " ".join(capsys.readouterr().err.split())
        assert not list(tmp_path.glob("*.*")), options


def test_no_run_is_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("inspect", "view"):
        assert command(monkeypatch, name, "nowhere") == 2
        assert "nowhere is no finished run; give a directory" in " ".join(capsys.readouterr().err.split())
