"""Metrics and losses of a recipe, by the command line: what is trained, judged, shown and predicted."""

import numpy as np
import pandas as pd
import pytest

from nacre.tasks.metrics import METRICS_OF
from nacre.train.report.tables import markdown_table
from nacre.train.run import Run
from support.train import MODEL, nacre, read_log, result_of

pytestmark = pytest.mark.slow

RECIPE = """
%s
data = { csv = "%s.csv", time = "t", group = "who", %s }
split = { folds = 4 }
network = { d_model = 8, num_heads = 2 }
[training]
batch_size = 16
quick_steps = %d
lr = 0.02
%s
"""


def table(people=36, seed=0):
    """Levels with noise; few are ill, and two labels and a number depend on the level."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(people):
        level = random.normal()
        ill = int(number % 6 == 0)
        known = {"ill": ill, "z": 2.0 * ill, "hot": int(level > 0), "wet": int(level < -0.3), "level": level}
        rows += [{"who": number, "t": t, "x": level + random.normal(0, 0.1), **known} for t in range(4)]
    return pd.DataFrame(rows)


def train(folder, name, what, *, head="", training="", steps=24, more=()):
    table().to_csv(folder / f"{name}.csv", index=False)
    (folder / f"{name}.toml").write_text(RECIPE % (head, name, what, steps, training))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        options = ["-m", MODEL, "--profile", "quick", "--folds", 1, *more]
        assert nacre(patch, "train", f"{name}.toml", *options) == 0
    return folder / "runs" / name / MODEL / "fold0-seed0"


def predictions(run, folder, monkeypatch):
    table(12, seed=1).drop(columns=["ill", "hot", "wet", "level"]).to_csv(folder / "new.csv", index=False)
    assert nacre(monkeypatch, "predict", run, folder / "new.csv", "--out", folder / "p.csv") == 0
    return pd.read_csv(folder / "p.csv")


def test_a_recipe_chooses_the_metric_that_judges_and_weighs_classes(tmp_path, capsys):
    what = 'target = "ill", features = ["x", "z"]'
    run = train(tmp_path, "ill", what, head='metric = "auroc"', training='class_weights = "balanced"')
    said = capsys.readouterr().out
    result = result_of(run)
    assert (result["metric"], result["better"], result["value"]) == ("auroc", "higher", result["metrics"]["auroc"])
    assert {*METRICS_OF["classification"]} <= {*result["metrics"]} & {*result["valid"]}
    assert "auroc" in said
    majority = result_of(tmp_path / "runs/ill/majority/fold0-seed0")
    assert majority["value"] == 0.5
    assert 0 < majority["metrics"]["log loss"] < 1
    assert "ill: auroc, higher is better" in markdown_table(tmp_path / "runs")
    plain = train(tmp_path, "other", what, more=["--no-controls"])
    assert result_of(plain)["metric"] == "accuracy"
    assert [row["valid_loss"] for row in read_log(plain)] != [row["valid_loss"] for row in read_log(run)]


def test_a_metric_that_is_not_defined_says_so_and_is_not_called_diverged(tmp_path, monkeypatch, capsys):
    rows = table()
    rows["ill"] = (rows["who"] > 32).astype(int)  # three people, none of them in the first of the four folds
    monkeypatch.setitem(globals(), "table", lambda: rows)
    run = train(tmp_path, "rare", 'target = "ill", features = ["x"]', head='metric = "auprc"', steps=6)
    result = result_of(run)
    assert result["value"] is None
    assert result["undefined"] == ["auroc, auprc: not defined, because '1' is there always or never"]
    found = Run.open(run).result
    assert (found.diverged, found.undefined) == (False, True)
    assert "auprc undefined" in capsys.readouterr().out
    assert "| undefined |" in markdown_table(tmp_path / "runs")


def test_labels_are_learned_and_predicted(tmp_path, monkeypatch):
    what = 'target = ["hot", "wet"], kind = "multi-label", features = ["x"]'
    run = train(tmp_path, "labels", what, steps=90)
    result = result_of(run)
    assert (result["kind"], result["metric"], result["targets"]) == ("multi-label", "auroc", ["hot", "wet"])
    assert result["value"] > 0.9
    assert {p.name for p in (tmp_path / "runs/labels").iterdir()} == {MODEL, "mean", "linear", "time-only"}
    found = predictions(run, tmp_path, monkeypatch)
    assert found.columns.tolist() == ["who", "hot", "p(hot)", "wet", "p(wet)"]
    truth = table(12, seed=1).groupby("who")["hot"].first()
    assert (found["hot"] == truth).mean() > 0.8
    assert ((found["p(hot)"] >= 0.5) == found["hot"]).all()


def test_quantiles_are_learned_and_predicted(tmp_path, monkeypatch):
    what = 'target = "level", kind = "regression", features = ["x"]'
    run = train(tmp_path, "levels", what, head='metric = "quantile loss"', training='loss = "quantile"', steps=60)
    result = result_of(run)
    assert result["value"] == result["metrics"]["quantile loss"] < 0.3
    assert result["metrics"]["mse"] < 0.5
    found = predictions(run, tmp_path, monkeypatch)
    assert found.columns.tolist() == ["who", "level", "level q0.1", "level q0.5", "level q0.9"]
    assert (found["level"] == found["level q0.5"]).all()
    assert (found["level q0.1"] <= found["level q0.9"]).all()


def test_a_loss_of_ones_own_is_part_of_the_fingerprint(tmp_path, capsys):
    (tmp_path / "myloss30.py").write_text("def fourth(out, y):\n    return (out - y).pow(4)\n")
    what = 'target = "level", kind = "regression", features = ["x"]'
    run = train(tmp_path, "own", what, training='loss = "myloss30:fourth"', steps=6, more=["--no-controls"])
    opened = Run.open(run)
    assert opened.recipe.training.loss == "myloss30:fourth"
    assert opened.network().quantiles == []
    (tmp_path / "myloss30.py").write_text("def fourth(out, y):\n    return (out - y).pow(2)\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        options = ["-m", MODEL, "--profile", "quick", "--folds", 1, "--no-controls"]
        assert nacre(patch, "train", "own.toml", *options) != 0
    assert "was made with other settings" in capsys.readouterr().err
