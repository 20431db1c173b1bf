"""What `nacre predict` says beside the predictions: warnings, a score, ensembles, controls."""

import json
import shutil

import pandas as pd
import pytest

from nacre.train.predict import ensemble_of, predictions
from support.train import nacre, result_of
from train.test_predict import NETWORK, SPEED, oscillations, refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folds(tmp_path_factory):
    """Two folds of a classifier, with controls."""
    folder = tmp_path_factory.mktemp("tools")
    oscillations(40, seed=1).to_csv(folder / "my.csv", index=False)
    (folder / "my.toml").write_text(f'data = {{ csv = "my.csv", {SPEED} }}' + NETWORK % 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert nacre(patch, "train", "my.toml", "-m", "cfc-fc", "--profile", "quick", "--folds", 2) == 0
    return folder / "runs/my"


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    oscillations(16, seed=2).to_csv(path, index=False)
    return path


def say(monkeypatch, capsys, *words):
    assert nacre(monkeypatch, "predict", *words) == 0
    return capsys.readouterr()


def test_a_file_with_the_target_is_scored(folds, new, monkeypatch, capsys):
    run, out = folds / "cfc-fc/fold0-seed0", new.parent / "p.csv"
    said = say(monkeypatch, capsys, run, new, "--out", out).out
    found, table = pd.read_csv(out).set_index("who")["prediction"], pd.read_csv(new)
    right = 100 * (found == table.groupby("who")["speed"].first()[found.index]).mean()
    assert f"score of 16 answers: accuracy {right:.4g}, " in said
    assert "auroc " in said
    table.loc[table["who"] == "p003", "speed"] = None
    table.loc[table["who"] == "p004", "speed"] = "backwards"
    table.to_csv(new, index=False)
    assert "score of 14 answers (2 without a known target)" in say(monkeypatch, capsys, run, new, "--out", out).out
    table.drop(columns="speed").to_csv(new, index=False)
    assert "score" not in say(monkeypatch, capsys, run, new, "--out", out).out


def test_the_test_part_is_scored_as_in_the_harness(folds, tmp_path):
    run = folds / "cfc-fc/fold0-seed0"
    from nacre.train.run import Run

    task = Run.open(run).task()
    names = [task.data.groups[i] for i in task.data.group[task.splits[0].test].tolist()]
    table = pd.read_csv(folds.parents[1] / "my.csv")
    table[table["who"].isin(names)].to_csv(tmp_path / "test.csv", index=False)
    score = predictions([run], tmp_path / "test.csv").score
    for name, value in result_of(run)["metrics"].items():
        assert f"{name} {value:.4g}" in score


def test_inputs_far_outside_of_training_are_named(folds, new, monkeypatch, capsys):
    run, out = folds / "cfc-fc/fold0-seed0", new.parent / "p.csv"
    assert say(monkeypatch, capsys, run, new, "--out", out).err == ""
    table = pd.read_csv(new)
    table.loc[[3, 7], "value"] = [40.0, -60.0]
    table.to_csv(new, index=False)
    said = " ".join(say(monkeypatch, capsys, run, new, "--out", out).err.split())
    rows = f": 2 of {len(table)} values, the farthest is -60, "
    assert said.startswith("warning: 'value' lies far outside of what training saw, -")
    assert rows in said
    shutil.copytree(run, new.parent / "old")
    (new.parent / "old/inputs.json").unlink()  # runs of before have none
    assert say(monkeypatch, capsys, new.parent / "old", new, "--out", out).err == ""
    (new.parent / "old/inputs.json").write_text("[]")
    assert "inputs.json is damaged" in refused(monkeypatch, capsys, new.parent / "old", new)


def test_an_ensemble_is_the_mean_of_its_runs(folds, new, monkeypatch, capsys):
    out = new.parent / "p.csv"
    both = [folds / f"cfc-fc/fold{i}-seed0" for i in (0, 1)]
    assert ensemble_of([folds / "cfc-fc"]) == both
    said = say(monkeypatch, capsys, folds / "cfc-fc", new, "--out", out, "--ensemble").out
    assert "the mean of 2 runs: fold0-seed0, fold1-seed0" in said
    mean = pd.read_csv(out)["p(fast)"]
    each = [predictions([run], new).table["p(fast)"] for run in both]
    assert ((mean - sum(each) / 2).abs() < 1e-6).all()
    assert (each[0] != each[1]).any()
    assert "2 runs are given; --ensemble predicts the mean" in _error(monkeypatch, capsys, *both, new)
    assert "is no finished run" in _error(monkeypatch, capsys, folds / "cfc-fc", new)
    assert "holds no finished runs" in _error(monkeypatch, capsys, new.parent, new, "--ensemble")


def test_controls_predict(folds, new, monkeypatch, capsys):
    shares = {}
    for name in ("majority", "linear", "time-only"):
        out = new.parent / f"{name}.csv"
        said = say(monkeypatch, capsys, folds / name / "fold0-seed0", new, "--out", out).out
        assert "score of 16 answers: accuracy" in said
        shares[name] = pd.read_csv(out)
        assert ((shares[name]["p(fast)"] + shares[name]["p(slow)"] - 1).abs() < 1e-5).all()
    assert shares["majority"]["p(fast)"].nunique() == 1
    assert shares["linear"]["p(fast)"].nunique() > 4
    gone = new.parent / "gone"
    shutil.copytree(folds / "linear/fold0-seed0", gone)
    shutil.rmtree(gone / "control")
    assert "the control 'linear' is not kept, or was run before controls were" in _error(
        monkeypatch, capsys, gone, new
    )
    assert json.loads((folds / "linear/fold0-seed0/control/control.json").read_text())["format"] == 1


def _error(monkeypatch, capsys, *words):
    assert nacre(monkeypatch, "predict", *words) == 2
    return capsys.readouterr().err
