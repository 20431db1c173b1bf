"""Data from a function of one's own: what it may return, what is refused, and who imports it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nacre._util.foreign_code import UntrustedCode
from nacre.data import Dataset, from_arrays
from nacre.tasks.python_source import roles_checksum
from nacre.tasks.recipe import Recipe, load_recipe, parse_recipe
from nacre.tasks.recipe_sections import NetworkRecipe, SplitRecipe, TrainingRecipe
from nacre.tasks.sources import load_data
from nacre.tasks.task import load_task, task_on
from nacre.train.run import Run
from nacre.train.run_cell import run_cell
from support.refused import refused
from support.train import cell, nacre, result_of

MODULE = """
from nacre.data import from_arrays
IMPORTED = True
def waves(n, level=0.0, seed=0):
    x = [[[float(i % 2) + level], [float(i % 3)]] for i in range(n)]
    return from_arrays(x, ["ab"[i % 2] for i in range(n)], name="waves")
def plain(n=12, **more):
    return {"x": [[[float(i)]] for i in range(n)], "y": [float(i) for i in range(n)]}
def wrong_key():
    return {"x": [[1.0]], "y": [1.0], "tiem": [0.0]}
def without_y():
    return {"x": [[1.0]]}
def number():
    return 3
def broken():
    return 1 / 0
thing = 3
def frame(gap=None):
    import pandas as pd
    who = [f"p{i // 2}" for i in range(12)]
    odd = [name in "p1p3" for name in who]
    return pd.DataFrame({"who": who, "t": [0, 1] * 6, "a": [gap, 2.0] * 6, "b": 1.5, "y": odd})
def table(**more):
    return {"frame": frame(**more), "time": "t", "target": "y", "group": "who", "missing": "flags"}
def without_time():
    return {"frame": frame(), "target": "y"}
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module in the folder of the command, with functions that make data."""
    name = f"mydata_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_a_function_gives_a_data_set_or_arguments_of_from_arrays(module):
    data, columns = load_data({"python": f"{module}:waves", "n": 8, "level": 2.0})
    assert (data.name, len(data), data.classes, data.form, columns) == ("waves", 8, ("a", "b"), "your own", None)
    assert data.values[0].item() == 2.0
    data, _ = load_data({"python": f"{module}:plain", "anything": 1})
    assert (data.name, data.kind) == ("plain", "regression")
    data, columns = load_data({"python": f"{module}:table", "gap": float("nan")})
    assert (data.name, data.form, data.classes, columns) == ("table", "your own", ("False", "True"), None)
    assert data.values[:, 0].isnan().sum() == 6


def test_what_is_wrong_is_named(module):
    for table, message in (
        ({"python": "waves"}, "data.python must be of the form module:function, got 'waves'"),
        ({"python": f"{module}:wafes"}, "has no 'wafes'"),
        ({"python": "no_such_module_30:f"}, "cannot import no_such_module_30, .* or a file in this folder"),
        ({"python": f"{module}:thing"}, "is a int, wanted a function"),
        ({"python": f"{module}:waves"}, rf"\[data\] lacks n, which {module}:waves takes"),
        ({"python": f"{module}:waves", "n": 8, "levle": 1}, "unknown key data.levle .* did you mean 'level'"),
        ({"python": f"{module}:number"}, "must return a nacre.data.Dataset, .* got a int"),
        ({"python": f"{module}:broken"}, rf"failed \(.*{module}.py, line 16\): ZeroDivisionError"),
        (
            {"python": f"{module}:wrong_key"},
            "must return arguments of from_arrays, x, y, .*; 'tiem' is none",
        ),
        ({"python": f"{module}:without_y"}, "must return arguments of from_arrays, .*; without y"),
        ({"python": f"{module}:without_time"}, "must return arguments of from_frame, .*; without time"),
        ({"python": f"{module}:frame"}, "or from_frame, got a DataFrame"),
        ({"python": f"{module}:waves", "name": "spiral"}, r"\[data\] must have one of name, .* got python, name"),
        ({}, "got nothing, as runs on data in memory"),
    ):
        with refused(message):
            load_data(table)
    with refused("data.python must be text, got 3"):
        parse_recipe("data = { python = 3 }", "mine")


def test_what_a_data_set_says_of_its_columns_counts():
    data = from_arrays([[[0.0], [1.0]]] * 4, [0, 1, 0, 1])
    others = [
        replace(data, classes=("no", "yes")),
        replace(data, one_hot=(0,)),
        replace(data, test=torch.tensor([True, False, False, False])),
    ]
    assert len({roles_checksum(one) for one in (data, *others)}) == 4
    assert {one.digest for one in others} == {data.digest}


TOML = """
data = { python = "%s:waves", n = 24 }
split = { by = "group", folds = 3 }
network = { d_model = 8, num_heads = 2 }
training = { batch_size = 8, quick_steps = 6 }
"""


@pytest.mark.slow
def test_a_recipe_trains_it_and_a_saved_run_imports_it_only_if_trusted(module, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.toml").write_text(TOML % module)
    assert nacre(monkeypatch, "data", "check", "mine.toml") == 0
    assert "24 sequences" in capsys.readouterr().out
    words = ("train", "mine.toml", "-m", "cfc-fc", "--profile", "quick", "--folds", 1)
    assert nacre(monkeypatch, *words) == 0
    place = tmp_path / "runs/mine/cfc-fc/fold0-seed0"
    assert result_of(place)["data"]["form"] == "your own"
    sys.modules.pop(module)
    run = Run.open(place)
    assert run.network().kind == "classification"
    with pytest.raises(UntrustedCode, match=f"say trust=\\['{module}'\\]"):
        run.task()
    assert module not in sys.modules
    trusted = Run.open(place, trust=[module])
    assert trusted.task().data.digest == run.result.data
    # Other content is another cell; the same content from other code is the same one.
    (tmp_path / f"{module}.py").write_text(MODULE + "\n# a comment\n")
    sys.modules.pop(module)
    capsys.readouterr()
    assert nacre(monkeypatch, *words) == 0
    assert "cfc-fc, fold 1 of 3 is done" in " ".join(capsys.readouterr().out.split())
    (tmp_path / f"{module}.py").write_text(MODULE.replace("level=0.0", "level=1.0"))
    sys.modules.pop(module)
    assert nacre(monkeypatch, *words) != 0
    assert "was made with other settings: the data" in capsys.readouterr().err


def test_a_run_on_data_in_memory_says_that_it_is_gone(tmp_path):
    recipe = Recipe(
        "memory",
        split=SplitRecipe("group", 3),
        network=NetworkRecipe(8, 2),
        training=TrainingRecipe(quick_steps=6),
    )
    data = from_arrays([[[float(i)]] for i in range(12)], ["ab"[i % 2] for i in range(12)])
    one = cell(task_on(recipe, data), tmp_path, "majority")
    other = cell(task_on(recipe, replace(data, classes=("x", "y"))), tmp_path, "majority")
    assert one.fingerprint() != other.fingerprint()
    run_cell(one)
    run = Run.open(one.directory)
    assert run.recipe == recipe
    with pytest.raises(ValueError, match="got nothing, as runs on data in memory"):
        run.task()


def test_old_recipes_load_as_before():
    task = load_task(load_recipe("spiral"))
    assert isinstance(task.data, Dataset)
    assert cell(task, Path("runs")).data_digest == task.data.digest
