"""`load_data`, `load_task` and the networks of a task."""

import dataclasses
from pathlib import Path

import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.files.catalogue import CATALOG
from nacre.data.splits import SplitBy, make_splits
from nacre.tasks import sources
from nacre.tasks.recipe import Recipe
from nacre.tasks.recipe_sections import NetworkRecipe, SplitRecipe
from nacre.tasks.sources import load_data
from nacre.tasks.task import Task, load_task, typical_duration
from support.controls import ragged, series, walk

SMALL = NetworkRecipe(d_model=8, num_heads=2)


@pytest.fixture
def pulse(tmp_path):
    """A CSV file of so many persons, three rows each."""

    def write(persons):
        rows = [f"p{i},{step},{i * 7 % 5 + step},{'ab'[i % 2]}" for i in range(persons) for step in range(3)]
        path = tmp_path / "pulse.csv"
        path.write_text("\n".join(["who,t,v,state", *rows]))
        return {"csv": str(path), "time": "t", "target": "state", "group": "who"}

    return write


def spirals(**options):
    settings = {"data": {"name": "spiral", "n": 12}, "network": SMALL, **options}
    return Recipe("mine", **settings)


# --- data ---------------------------------------------------------------------------------------------------


def test_data_by_name_takes_the_options_of_its_reader():
    data, columns = load_data({"name": "spiral", "n": 7, "seed": 4, "spread": 0.1})
    assert (data.name, len(data), data.form) == ("spiral", 7, "generated, seed 4, spread 0.1")
    assert columns is None


def test_readers_of_files_get_the_folder_and_others_do_not(monkeypatch, tmp_path):
    seen = []

    def reader(data_dir=None, *, window=3):
        seen.append((data_dir, window))
        return ragged(Kind.CLASSIFICATION)

    monkeypatch.setattr(sources, "loader_of", lambda name: reader)
    load_data({"name": "toy", "window": 5}, tmp_path)
    load_data({"name": "toy"})
    assert seen == [(tmp_path, 5), (None, 3)]
    monkeypatch.undo()
    load_data({"name": "spiral", "n": 6}, tmp_path)


def test_data_from_csv_comes_with_its_columns(pulse):
    data, columns = load_data(pulse(4))
    assert (data.kind, data.features, data.classes, len(data)) == ("classification", ("v",), ("a", "b"), 4)
    assert (columns.time, columns.target, columns.group) == ("t", ("state",), "who")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, r"\[data\] must have one of name, .* csv, .* and python, .* got"),
        ({"name": "spiral", "csv": "a.csv"}, r"\[data\] must have one of name, .* csv, .* and python, .* got"),
        ({"name": "spirl"}, "data set must be one of .*, got 'spirl'; did you mean 'spiral'[?]"),
        ({"name": 3}, "data set must be one of .*, got 3"),
        (
            {"name": "spiral", "sed": 1},
            "unknown key data.sed for spiral; did you mean 'seed'[?] There are n, seed",
        ),
        ({"name": "ettm1", "zzz": 1}, "unknown key data.zzz for ettm1; there are lookback, horizon"),
        ({"name": "ettm1", "data_dir": "/"}, "unknown key data.data_dir for ettm1"),
        ({"csv": "a.csv", "time": "t"}, r"\[data\] of csv lacks target"),
        ({"csv": "a.csv"}, r"\[data\] of csv lacks time, target"),
        ({"csv": "a.csv", "tim": "t"}, "unknown key data.tim for csv; did you mean 'time'[?]"),
        ({"csv": "a.csv", "path": "b.csv", "time": "t", "target": "y"}, "unknown key data.path for csv"),
        ({"name": "spiral", "n": 5}, "n must be at least 6, got 5"),
        ({"name": "spiral", "n": "many"}, r"\[data\] of spiral: n must be an integer, got 'many'"),
        (
            {"csv": "a.csv", "time": "t", "target": "y", "lookback": 0.5},
            r"\[data\] of csv: lookback must be an int",
        ),
    ],
)
def test_tables_that_make_no_sense_are_refused(table, message):
    before = dict(table)
    with pytest.raises(ValueError, match=message):
        load_data(table)
    assert table == before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone.csv"):
        load_data({"csv": str(tmp_path / "gone.csv"), "time": "t", "target": "y"})


@pytest.mark.parametrize("name", CATALOG)
def test_options_are_checked_before_any_file_is_looked_for(name):
    with pytest.raises(ValueError, match=f"unknown key data.zzz for {name}"):
        load_data({"name": name, "zzz": 1}, Path("nowhere"))


# --- splits -------------------------------------------------------------------------------------------------


def same_splits(task, data, by, folds, test_share=0.2):
    expected = make_splits(data, by, folds, test_share)
    return [split.digest for split in task.splits] == [split.digest for split in expected]


def test_the_split_of_a_recipe_is_made():
    task = load_task(spirals(split=SplitRecipe("group", 4)))
    assert same_splits(task, task.data, SplitBy.GROUP, 4)
    task = load_task(spirals(data={"name": "spiral", "n": 40}, split=SplitRecipe("group", 3)))
    assert len(task.splits) == 3
    assert len(task.data) == 40


@pytest.mark.parametrize(("persons", "folds"), [(3, 3), (4, 4), (9, 5)])
def test_auto_is_by_group_with_no_more_folds_than_groups(tmp_path, persons, folds):
    path = tmp_path / "persons.csv"
    path.write_text(
        "\n".join(["who,t,v,y", *(f"p{i},{step},{step},{i}.5" for i in range(persons) for step in range(3))])
    )
    task = load_task(Recipe("mine", data={"csv": str(path), "time": "t", "target": "y", "group": "who"}))
    assert (task.data.kind, len(task.data)) == (Kind.REGRESSION, persons)
    assert same_splits(task, task.data, SplitBy.GROUP, folds)
    assert task.columns.group == "who"


def test_auto_is_by_time_where_groups_are_few(tmp_path):
    path = tmp_path / "series.csv"
    path.write_text("\n".join(["t,v", *(f"{i},{i * i % 17}.5" for i in range(200))]))
    table = {"csv": str(path), "time": "t", "target": "v", "lookback": 5, "horizon": 2}
    task = load_task(Recipe("mine", data=table, split=SplitRecipe("auto", 4, 0.3)))
    assert task.data.kind is Kind.FORECASTING
    assert same_splits(task, task.data, SplitBy.TIME, 4, 0.3)


def test_a_split_that_the_data_cannot_have_is_refused():
    with pytest.raises(ValueError, match="spiral has no official test part"):
        load_task(spirals(split=SplitRecipe("official")))


# --- networks -----------------------------------------------------------------------------------------------


def weights(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_the_seed_alone_draws_the_weights():
    task = load_task(spirals())
    first = task.network("cfc-fc", 0, seed=3)
    torch.rand(5)
    assert torch.equal(weights(task.network("cfc-fc", 0, seed=3)), weights(first))
    assert torch.equal(weights(task.network("cfc-fc", 1, seed=3)), weights(first))
    assert not torch.equal(weights(task.network("cfc-fc", 0, seed=4)), weights(first))


def test_a_network_is_as_the_recipe_says():
    network = NetworkRecipe(d_model=8, num_heads=2, conv=((4, 3, 1),), dense=(5,), dropout=0.25, time_scale=9.0)
    config = load_task(spirals(network=network)).network("sdpa", 0, 0).to_config()
    assert config == {
        "model": "sdpa",
        "version": 1,
        "kind": "step-regression",
        "d_input": 3,
        "outputs": 2,
        "d_model": 8,
        "num_heads": 2,
        "conv": [[4, 3, 1]],
        "dense": [5],
        "dropout": 0.25,
        "time_scale": 9.0,
        "options": {},
        "block": True,
        "depth": 1,
        "relative_to": [],
        "window": None,
        "image": None,
        "one_hot": [],
        "static": [],
        "missing": "error",
        "quantiles": [],
    }


def test_a_network_is_scaled_by_the_training_part_of_its_fold():
    task = load_task(spirals())
    for fold, split in enumerate(task.splits):
        network = task.network("sdpa", fold, 0)
        rows = task.data.values.view(12, 200, 3)[split.train].flatten(0, 1)
        rows = rows[rows[:, 2] == 1]  # questions hold no values
        torch.testing.assert_close(network.shift, rows.mean(0))
        torch.testing.assert_close(network.scale[:2], rows[:, :2].std(0, correction=0))
        assert network.scale[2] == 1  # "seen" is the same in all of them
        assert network.time_scale == typical_duration(task.data, split.train)


def test_options_go_to_the_models_whose_pattern_fits_the_later_ones_last():
    models = {"*": {"time_scale": 2.0}, "cfc-*": {"backbone_units": 16}, "cfc-fc": {"backbone_units": 32}}
    task = load_task(spirals(models=models))
    assert task.network("cfc-fc", 0, 0).to_config()["options"] == {"time_scale": 2.0, "backbone_units": 32}
    assert task.network("ct-rnn", 0, 0).to_config()["options"] == {"time_scale": 2.0}
    assert models["*"] == {"time_scale": 2.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backbone_unit": 3}, "mine: cfc-fc has no option 'backbone_unit'; did you mean 'backbone_units'"),
        ({"backbone_units": "3"}, "mine: backbone_units must be an integer, got '3'"),
    ],
)
def test_bad_options_of_a_model_are_named(options, message):
    task = load_task(spirals(models={"cfc-fc": options}))
    with pytest.raises(ValueError, match=message):
        task.network("cfc-fc", 0, 0)


# --- duration -----------------------------------------------------------------------------------------------


def test_the_typical_duration_is_the_median_of_the_training_part():
    data = ragged(Kind.CLASSIFICATION, n=31)
    durations = [
        (data.time[s + n - 1] - data.time[s]).item() for s, n in zip(data.start, data.length, strict=True)
    ]
    assert typical_duration(data, torch.arange(31)) == sorted(durations)[15]
    few = torch.tensor([20, 3, 5])
    assert typical_duration(data, few) == sorted(durations[i] for i in few)[1]


def test_windows_last_one_step_less_than_they_are_long():
    assert typical_duration(series(walk(50), lookback=5), torch.arange(20)) == 4.0


def test_sequences_of_one_step_count_as_one_unit():
    data = ragged(Kind.CLASSIFICATION, longest=1)
    assert typical_duration(data, torch.arange(10)) == 1.0
    task = Task(Recipe("mine", network=SMALL), data, make_splits(data, SplitBy.GROUP, 3), None)
    assert task.network("sdpa", 0, 0).time_scale == 1.0


def test_a_task_cannot_be_changed():
    task = load_task(spirals())
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.recipe = None
