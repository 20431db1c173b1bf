"""From a CSV file of one's own to predictions for a new one, by the command line alone."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from nacre import TaskNetwork, load
from nacre.data import SplitBy, make_splits
from nacre.data.tables.csv_dataset import read_csv_task
from nacre.tasks.stack import ModelStack
from nacre.train import evaluate, predict
from nacre.train.evaluate import outputs_of
from nacre.train.predict import predict_csv
from nacre.train.run_cell import run_cell
from support.train import MODEL, cell, nacre, result_of, spirals, waves

pytestmark = pytest.mark.slow
NETWORK = """
network = { d_model = 16, num_heads = 2 }
training = { batch_size = 16, quick_steps = %d, steps = 20, lr = 0.01 }
"""


def oscillations(people, seed):
    """Rows of slow and fast oscillations at irregular times, people mixed."""
    random = np.random.default_rng(seed)
    rows = []
    for number in random.permutation(people):
        fast = number % 2 == 0
        phase, level = random.uniform(0, 2 * math.pi), random.normal()
        stamps = random.uniform(0.1, 0.9, random.integers(15, 25)).cumsum().round(3)
        for when in stamps:
            value = np.sin((4.0 if fast else 1.0) * when + phase)
            rows.append((f"p{number:03}", when, value, value + level, "fast" if fast else "slow", level))
    rows.sort(key=lambda row: row[1])  # one clock for all, so that sequences are mixed in the file
    return pd.DataFrame(rows, columns=["who", "when", "value", "reading", "speed", "level"])


def write_task(directory, name, table, data, steps):
    """A CSV file and its recipe; gives the recipe."""
    table.to_csv(directory / f"{name}.csv", index=False)
    recipe = directory / f"{name}.toml"
    recipe.write_text(f'data = {{ csv = "{name}.csv", {data} }}' + NETWORK % steps)
    return recipe


def train(directory, recipe, model=MODEL, controls="--no-controls", profile="quick"):
    """Train one fold by the command line; gives the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        assert nacre(patch, "train", recipe, "-m", model, "--profile", profile, "--folds", 1, controls) == 0
    return directory / "runs" / recipe.stem / model / "fold0-seed0"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("predict")


SPEED = 'time = "when", group = "who", target = "speed", features = ["value"]'


@pytest.fixture(scope="module")
def classifier(place):
    """A NAC that tells slow from fast."""
    return train(place, write_task(place, "my", oscillations(80, seed=1), SPEED, 90), "nac", "--controls")


def test_a_table_of_ones_own_is_learned_and_a_new_one_is_predicted(classifier, tmp_path, monkeypatch, capsys):
    result = result_of(classifier)
    assert (result["kind"], result["metric"], result["classes"]) == (
        "classification",
        "accuracy",
        ["fast", "slow"],
    )
    assert result["value"] > 80
    assert result["value"] > result_of(classifier.parents[1] / "majority/fold0-seed0")["value"] + 25
    new = oscillations(40, seed=2)
    truth = new.groupby("who")["speed"].first()
    new.drop(columns=["speed", "level"]).to_csv(tmp_path / "new.csv", index=False)
    assert nacre(monkeypatch, "predict", classifier, tmp_path / "new.csv", "--out", tmp_path / "p.csv") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (f"wrote {tmp_path / 'p.csv'}\n", "")
    found = pd.read_csv(tmp_path / "p.csv", keep_default_na=False)
    assert found.columns.tolist() == ["who", "prediction", "p(fast)", "p(slow)"]
    assert sorted(found["who"]) == sorted(truth.index)
    assert (found.set_index("who")["prediction"].sort_index() == truth.sort_index()).mean() > 0.8
    shares = found[["p(fast)", "p(slow)"]]
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-5)
    assert (shares.idxmax(axis=1) == "p(" + found["prediction"] + ")").all()


def test_predictions_for_the_test_part_of_the_training_file_are_those_that_were_scored(place):
    # By a model in which padding cannot matter.
    run = train(place, write_task(place, "short", oscillations(40, seed=1), SPEED, 12))
    table = pd.read_csv(place / "short.csv")
    found = predict_csv(run, place / "short.csv")
    assert found["who"].tolist() == table["who"].drop_duplicates().tolist()  # in the order of the file
    options = {"time": "when", "group": "who", "target": "speed", "features": ["value"]}
    data, columns = read_csv_task(place / "short.csv", **options)
    test = make_splits(data, SplitBy.GROUP, 5)[0].test
    names = [data.groups[group] for group in data.group[test].tolist()]
    right = found.set_index("who")["prediction"][names] == table.groupby("who")["speed"].first()[names]
    assert 100 * right.mean() == pytest.approx(result_of(run)["value"])
    assert json.loads((run / "columns.json").read_text()) == columns.to_dict()


@pytest.fixture(scope="module")
def regression(place):
    """A recurrent network that finds the level around which someone oscillates."""
    data = 'time = "when", group = "who", target = ["level"], features = ["reading"], kind = "regression"'
    return train(place, write_task(place, "levels", oscillations(60, seed=4), data, 42))


def test_numbers_of_sequences_are_predicted(regression, tmp_path):
    new = oscillations(30, seed=5)
    new.drop(columns=["speed", "level"]).to_csv(tmp_path / "new.csv", index=False)
    found = predict_csv(regression, tmp_path / "new.csv")
    assert found.columns.tolist() == ["who", "level"]
    truth = new.groupby("who")["level"].first()[found["who"]].to_numpy()
    assert np.mean((found["level"] - truth) ** 2) < 0.3 * truth.var()


def test_a_prediction_of_a_recurrent_network_depends_on_nothing_but_its_sequence(regression, tmp_path):
    table = oscillations(12, seed=3)
    table.to_csv(tmp_path / "all.csv", index=False)
    table[table["who"] == "p003"].assign(level="no idea").to_csv(tmp_path / "one.csv", index=False)
    together, alone = (predict_csv(regression, tmp_path / name) for name in ("all.csv", "one.csv"))
    assert len(together) == 12
    row = together[together["who"] == "p003"].reset_index(drop=True)
    pd.testing.assert_frame_equal(row, alone, check_exact=False, rtol=1e-4)


@pytest.mark.parametrize("people", [9, 2])  # two are too few to be split, so that they are cut into pieces
def test_a_class_for_each_row_is_predicted_in_the_order_of_the_file(place, tmp_path, people):
    table = oscillations(people, seed=6)
    if people == 2:
        table = pd.concat([table.assign(when=table["when"] + 30 * i) for i in range(12)])
    table["up"] = np.where(table["value"] > 0, "yes", "no")
    data = 'time = "when", group = "who", target = "up", features = ["reading", "level"], lookback = 8'
    run = train(place, write_task(place, f"steps{people}", table, data, 42))
    assert result_of(run)["kind"] == "step-classification"
    shuffled = table.sort_values(["who", "when"], ascending=[False, True])
    shuffled.drop(columns="up").to_csv(tmp_path / "new.csv", index=False)
    found = predict_csv(run, tmp_path / "new.csv")
    assert found.columns.tolist() == ["who", "when", "prediction", "p(no)", "p(yes)"]
    assert found["who"].tolist() == shuffled["who"].tolist()
    assert found["when"].tolist() == shuffled["when"].tolist()
    assert (found["prediction"].to_numpy() == shuffled["up"].to_numpy()).mean() > 0.8


def test_numbers_for_each_row_are_predicted_in_the_order_of_the_file(place, tmp_path):
    table = oscillations(9, seed=7)
    table["double"] = 2 * table["value"]
    data = 'time = "when", group = "who", target = "double", features = ["value"], kind = "step-regression"'
    run = train(place, write_task(place, "doubles", table, data, 36))
    table.drop(columns="double").to_csv(tmp_path / "new.csv", index=False)
    found = predict_csv(run, tmp_path / "new.csv")
    assert found.columns.tolist() == ["who", "when", "double"]
    assert found[["who", "when"]].to_numpy().tolist() == table[["who", "when"]].to_numpy().tolist()
    assert np.mean((found["double"] - table["double"]) ** 2) < 0.3 * table["double"].var()


def test_the_next_values_of_each_series_are_forecast(place, tmp_path):
    minutes = np.arange(200)
    dates = pd.Timestamp("2024-03-01") + pd.to_timedelta(minutes * 10, unit="min")
    parts = [
        pd.DataFrame({"site": s, "at": dates, "load": 5 + k + np.sin(minutes / 4)}) for k, s in enumerate("ba")
    ]
    data = 'time = "at", group = "site", target = "load", lookback = 16, horizon = 3'
    run = train(place, write_task(place, "loads", pd.concat(parts), data, 60))
    assert result_of(run)["kind"] == "forecasting"
    assert (run / "predictions.npz").is_file()
    pd.concat([part[:100] for part in parts]).to_csv(tmp_path / "new.csv", index=False)
    found = predict_csv(run, tmp_path / "new.csv")
    assert found.columns.tolist() == ["site", "at", "load"]
    assert found["site"].tolist() == ["b"] * 3 + ["a"] * 3
    assert found["at"].tolist() == [*dates[100:103]] * 2
    truth = np.concatenate([part["load"][100:103] for part in parts])
    assert np.abs(found["load"] - truth).max() < 0.7


@pytest.mark.parametrize(("model", "profile", "regular"), [(MODEL, "standard", True), ("nac", "quick", False)])
def test_forecasts_of_test_windows_are_those_of_the_harness(place, tmp_path, monkeypatch, model, profile, regular):
    random = np.random.default_rng(0)
    hours = np.arange(240.0) if regular else random.uniform(0.2, 1.8, 240).cumsum().round(3)
    level, wind = 20 + 5 * np.sin(hours / 4) + random.normal(size=240), random.normal(size=240).cumsum()
    table = pd.DataFrame({"hour": hours, "load": level, "wind": wind})
    data = 'time = "hour", target = "load", kind = "forecasting", lookback = 16, horizon = 3'
    run = train(place, write_task(place, f"hours-{model}", table, data, 30), model, profile=profile)
    network, kept = load(run), np.load(run / "predictions.npz")
    assert isinstance(network.layer, ModelStack)
    assert (network.relative_to, network.window.points) == ([0], 16)
    assert (network.window.linear.weight != 0).any()
    for number in (0, 11, len(kept["start"]) - 1):
        end = kept["start"][number] + 16
        table[:end].to_csv(tmp_path / "past.csv", index=False)
        assert nacre(monkeypatch, "predict", run, tmp_path / "past.csv", "--out", tmp_path / "next.csv") == 0
        found = pd.read_csv(tmp_path / "next.csv")["load"]
        np.testing.assert_allclose(kept["truth"][number], table["load"][end : end + 3], rtol=1e-6)
        np.testing.assert_allclose(found, kept["prediction"][number], rtol=0, atol=1e-5)
        assert np.abs(found - kept["prediction"][number - 1]).max() > 0.01  # that of another window


def refused(monkeypatch, capsys, *args):
    """What `nacre predict` says when it refuses; nothing is written."""
    out = args[1].parent / "refused.csv"
    assert nacre(monkeypatch, "predict", *args, "--out", out) == 2
    assert not out.exists()
    return capsys.readouterr().err


def test_what_is_no_run_is_refused(tmp_path, monkeypatch, capsys):
    (tmp_path / "new.csv").write_text("when,value\n0,1\n")
    said = refused(monkeypatch, capsys, tmp_path, tmp_path / "new.csv")
    assert said.startswith(f"nacre: {tmp_path} is no finished run; give a directory that `nacre train` made")


def test_a_run_on_other_data_is_refused_with_a_way_that_works(tmp_path, monkeypatch, capsys):
    (tmp_path / "new.csv").write_text("who,when,value\na,0,1\n")
    one = cell(spirals(), tmp_path)
    run_cell(one)
    said = refused(monkeypatch, capsys, one.directory, tmp_path / "new.csv")
    assert "was not trained on a CSV file" in said
    model = said.partition("nacre.load(")[2].partition(")")[0].strip("'\"")
    assert load(model) is not None


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("who,when,valeu\na,0,1\n", "has no column 'value'; did you mean 'valeu'?"),
        ("when,value\n0,1\n", "has no column 'who'"),
        ("who,when,value\na,0,\n", "line 2: column 'value' is empty"),
        ("who,when,value\na,1,1\na,0,1\n", "time 'when' goes back from 1 to 0 in group 'a'"),
    ],
)
def test_a_file_that_cannot_be_read_as_in_training_is_refused(
    classifier, tmp_path, monkeypatch, capsys, table, message
):
    (tmp_path / "new.csv").write_text(table)
    said = refused(monkeypatch, capsys, classifier, tmp_path / "new.csv")
    assert str(tmp_path / "new.csv") in said
    assert message in said


def test_a_missing_file_and_damaged_columns_are_named(classifier, tmp_path, monkeypatch, capsys):
    assert "there is no file" in refused(monkeypatch, capsys, classifier, tmp_path / "none.csv")
    (tmp_path / "new.csv").write_text("who,when,value\na,0,1\n")
    shutil.copytree(classifier, tmp_path / "run")
    for text in ("", "{}", "[]"):
        (tmp_path / "run/columns.json").write_text(text)
        assert "columns.json is damaged" in refused(monkeypatch, capsys, tmp_path / "run", tmp_path / "new.csv")


def test_an_earlier_prediction_stays_whole_if_the_next_one_fails(classifier, tmp_path, monkeypatch):
    (tmp_path / "new.csv").write_text("who,when,value\na,0,nan\n")
    (tmp_path / "p.csv").write_text("old")
    assert nacre(monkeypatch, "predict", classifier, tmp_path / "new.csv", "--out", tmp_path / "p.csv") == 2
    assert (tmp_path / "p.csv").read_text() == "old"


def test_a_csv_file_is_found_from_its_recipe_wherever_the_command_runs(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    recipe = write_task(
        folder, "near", oscillations(9, seed=8), 'time = "when", group = "who", target = "speed"', 6
    )
    run = train(tmp_path, recipe.relative_to(tmp_path))
    assert result_of(run)["data"]["name"] == "near"


def test_an_answer_does_not_depend_on_who_is_asked_besides():
    data = waves().data
    network = TaskNetwork("nac", data.kind, len(data.features), data.outputs, d_model=8, num_heads=2)
    everyone = outputs_of(network, data, torch.arange(len(data)))
    assert len(data.length.unique()) > 1
    for i in (0, 1, len(data) - 1):
        assert torch.allclose(everyone[i], outputs_of(network, data, torch.tensor([i]))[0], atol=1e-6)


def test_all_outputs_are_those_of_each_sequence(monkeypatch):
    monkeypatch.setattr(evaluate, "BATCH", 3)
    data = waves().data
    network = TaskNetwork("nac", data.kind, len(data.features), data.outputs, d_model=8, num_heads=2)
    index, counts = torch.arange(len(data)).flip(0), []
    found = evaluate.all_outputs(network, data, index, counts.append)
    each = [outputs_of(network, data, index[i : i + 1])[0] for i in range(len(index))]
    assert torch.allclose(found, torch.cat(each), atol=1e-6)
    assert sum(counts) == len(data)
    assert max(counts) == 3


def test_a_table_is_written_in_blocks(monkeypatch):
    monkeypatch.setattr(predict, "ROWS", 4)
    table = pd.DataFrame({"a": range(10), "b": ["x,y"] * 10})
    for rows in (10, 8, 1, 0):
        assert b"".join(predict.csv_blocks(table[:rows])).decode() == table[:rows].to_csv(index=False)
