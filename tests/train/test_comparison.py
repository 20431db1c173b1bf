"""`nacre.train.compare`: a data set in memory to a table."""

import numpy as np
import pytest

import nacre.train
from nacre.data import from_arrays
from nacre.train.run import Run

RECIPE = """
metric = "auroc"
split = { folds = 3 }
network = { d_model = 8, num_heads = 2 }
training = { batch_size = 8, quick_steps = 6 }
"""


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    return from_arrays(random.normal(size=(18, 4, 2)), np.arange(18) % 2, name="noise")


@pytest.mark.slow
def test_models_are_trained_on_folds_and_the_table_is_theirs(data, tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(RECIPE)
    plan = {"recipe": tmp_path / "plan.toml", "folds": 2, "profile": "quick", "out": tmp_path / "runs"}
    compared = nacre.train.compare(data, ["cfc-fc", "sdpa"], **plan)
    assert {(r.model, r.fold) for r in compared.results if not r.control} == {
        (model, fold) for model in ("cfc-fc", "sdpa") for fold in (0, 1)
    }
    assert {r.model for r in compared.results if r.control} == {"majority", "linear", "time-only"}
    text = str(compared)
    assert text.startswith("**noise: auroc, higher is better; quick")
    assert text == compared._repr_markdown_()
    assert all(word in text for word in ("| cfc-fc |", "| sdpa |", "| majority (control) |"))
    assert "noise, sdpa, fold 2 of 3: auroc" in capsys.readouterr().out
    again = nacre.train.compare(data, ["cfc-fc", "sdpa"], **plan)
    assert "is done" in capsys.readouterr().out
    assert again.results == compared.results
    place = tmp_path / "runs/noise/sdpa/fold0-seed0"
    assert nacre.load(place).kind == "classification"
    assert Run.open(place).columns is None
    few = nacre.train.compare(data, ["sdpa"], **plan | {"controls": False, "folds": 1})
    assert [(r.model, r.fold) for r in few.results] == [("sdpa", 0)]


def test_what_is_wrong_is_named(data, tmp_path):
    (tmp_path / "plan.toml").write_text('data = { name = "spiral" }')
    out = tmp_path / "runs"
    for arguments, message in (
        (([1, 2], ["nac"]), "data must be a Dataset, such as nacre.data.from_arrays makes, got list"),
        ((data, "nac"), r"models must be a list of names, got 'nac'; write \['nac'\]"),
    ):
        with pytest.raises(TypeError, match=message):
            nacre.train.compare(*arguments, out=out)
    for options, message in (
        ({"recipe": tmp_path / "plan.toml"}, r"recipe has \[data\] of its own"),
        ({"profile": "fast"}, "profile must be one of 'quick', 'standard', 'paper', got 'fast'"),
        ({"models": ["nacc"]}, "no model 'nacc'"),
        ({"folds": 9}, "folds must be at most 5 for noise, got 9"),
    ):
        with pytest.raises(ValueError, match=message):
            nacre.train.compare(data, **{"out": out, **options})
    with pytest.raises(AttributeError, match="no attribute 'compere'"):
        _ = nacre.train.compere
