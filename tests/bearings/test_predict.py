"""From raw recordings in the formats of all three rigs to curves for a new one, by the commands of users."""

import csv
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from nacre.bearings.figures import draw_curve
from nacre.bearings.predict import Curve, predict_bearings
from nacre.cli import app as commands
from nacre.data.rigs.labels import Label
from support.bearings import write_hust, write_pronostia, write_xjtu
from support.runs import fields

RECIPE = """
data = { name = "bearings", steps = 4, average = 4 }
split = { by = "group", folds = 3 }
network = { d_model = 8, num_heads = 2, conv = [[8, 3, 1], [8, 2, 1]] }
training = { batch_size = 16, quick_steps = 12, quick_valid = 50, lr = 0.01 }
"""


def nacre(*words):
    result = CliRunner().invoke(commands.app, [str(word) for word in words], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with raw recordings, their features, runs of two folds, and a recording that is new."""
    folder = tmp_path_factory.mktemp("bearings")
    for number, snapshots in enumerate((6, 7, 8), 1):
        write_pronostia(folder / "raw" / "Learning_set" / f"Bearing1_{number}", snapshots)
    write_pronostia(folder / "raw" / "Learning_set" / "Bearing2_1", 6, ";")
    write_xjtu(folder / "raw" / "35Hz12kN" / "Bearing1_1", 1, vertical_first=True)
    write_hust(folder / "raw" / "hust" / "B500.mat", samples=12_000)
    write_pronostia(folder / "new" / "Bearing9_9", 7)
    (folder / "tiny.toml").write_text(RECIPE)
    nacre("data", "features", folder / "raw", "--out", folder / "bearings-features", "--jobs", 1)
    said = nacre(
        "train",
        folder / "tiny.toml",
        "-m",
        "nac",
        "--profile",
        "quick",
        "--folds",
        2,
        "--data-dir",
        folder,
        "--out",
        folder / "runs",
    )
    assert "tiny, nac, fold 2 of 3: mse" in said
    return folder


def run_of(folder, fold=0, model="nac"):
    return folder / "runs" / "tiny" / model / f"fold{fold}-seed0"


@pytest.mark.slow
def test_bearing_raw_features_train_predict_end_to_end(trained, tmp_path):
    result = json.loads((run_of(trained) / "result.json").read_bytes())
    for part in ("PRONOSTIA", "PRONOSTIA conditions 2 and 3", "XJTU-SY", "HUST"):
        assert result["metrics"][f"score {part}"] > 0
        assert 0 <= result["metrics"][f"mae {part}"] < 10
    controls = {path.name for path in (trained / "runs" / "tiny").iterdir()}
    assert {"nac", "mean", "linear-rms", "linear", "time-only", "life-clock"} <= controls
    said = nacre("bearings", "predict", run_of(trained), trained / "new", "--out", tmp_path / "out", "--jobs", 1)
    assert "pronostia Bearing9_9: share of life used" in said
    assert "2 models" in said
    with (tmp_path / "out" / "pronostia-Bearing9_9.csv").open() as file:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    assert len(rows) == 7 - 4 + 1
    assert [row["seconds"] for row in rows] == pytest.approx([30.0586, 40.0586, 50.0586, 60.0586])
    for row in rows:
        assert row["lowest"] == min(row["model 0"], row["model 1"]) <= row["mean"] <= row["highest"]
    assert (tmp_path / "out" / "pronostia-Bearing9_9.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_bearing_curves_are_what_the_networks_gave_while_they_were_scored(trained, tmp_path):
    """A table that was scored as `transfer` gives the same answers here."""
    import torch

    from nacre.data.sets.bearings import load_bearings
    from nacre.io import load
    from nacre.train.evaluate import predict

    path = trained / "bearings-features" / "xjtu-sy" / "Bearing1_1.parquet"
    (curve,) = predict_bearings(run_of(trained), [path], tmp_path)
    data = load_bearings(trained, steps=4, average=4)
    index = (data.group == data.groups.index("xjtu-sy Bearing1_1")).nonzero().squeeze(1)
    for fold in (0, 1):
        wanted = predict(load(run_of(trained, fold) / "model"), data, index)[:, 0]
        torch.testing.assert_close(torch.from_numpy(curve.models[:, fold]).float(), wanted, rtol=1e-4, atol=1e-5)
    assert curve.seconds.tolist() == data.time[data.start[index] + 3].tolist()


@pytest.mark.slow
def test_bearing_final_run_predicts_without_the_folds_beside_it(trained, tmp_path):
    shutil.copytree(run_of(trained).parent, tmp_path / "nac")
    final = (tmp_path / "nac" / "fold1-seed0").rename(tmp_path / "nac" / "final-seed0")
    result = json.loads((final / "result.json").read_bytes())
    (final / "result.json").write_text(json.dumps(result | {"final": {"folds": [0]}, "value": None}))
    path = trained / "bearings-features" / "xjtu-sy" / "Bearing1_1.parquet"
    (curve,) = predict_bearings(final, [path], tmp_path / "final")
    (both,) = predict_bearings(run_of(trained), [path], tmp_path / "folds")
    assert curve.models.tolist() == both.models[:, 1:].tolist()


@pytest.mark.slow
def test_bearing_runs_that_cannot_tell_are_named(trained, tmp_path):
    new = [trained / "new"]
    with pytest.raises(FileNotFoundError, match="gone is no finished run; give a directory that"):
        predict_bearings(tmp_path / "gone", new, tmp_path)
    with pytest.raises(ValueError, match="holds no network; controls have none"):
        predict_bearings(run_of(trained, model="mean"), new, tmp_path)
    short = write_pronostia(tmp_path / "short" / "Bearing1_9", 2)
    with pytest.raises(
        ValueError, match="pronostia Bearing1_9 is too short: 2 rows of features, the network reads 4"
    ):
        predict_bearings(run_of(trained), [short], tmp_path / "out", jobs=1)
    other = tmp_path / "run"
    other.mkdir()
    (other / "result.json").write_text(json.dumps(fields(task="jena")))
    (other / "recipe.toml").write_text('[data]\nname = "jena"\n')
    with pytest.raises(ValueError, match="was trained on jena, wanted bearings"):
        predict_bearings(other, new, tmp_path)


@pytest.mark.slow
def test_bearing_what_is_left_stands_beside_what_is_used(trained, tmp_path):
    predict_bearings(
        run_of(trained), [trained / "bearings-features" / "pronostia" / "Bearing1_1.parquet"], tmp_path
    )
    with (tmp_path / "pronostia-Bearing1_1.csv").open() as file:
        for row in csv.DictReader(file):
            used, left, gone = (float(row[name]) for name in ("mean", "minutes left", "seconds"))
            wanted = np.inf if used <= 0 else max(0.0, gone / 60 * (1 - used) / used)
            assert left == pytest.approx(wanted, rel=1e-3)


def test_bearing_figures_of_all_labels():
    for label in Label:
        curve = Curve("mine a", label, np.arange(50.0) * 60, np.random.default_rng(0).random((50, 3)))
        assert draw_curve(curve).startswith(b"\x89PNG"), label
    low, high = curve.band
    assert (low <= curve.mean).all()
    assert (curve.mean <= high).all()
