"""`Run`: opening run directories, whole, damaged and half-written."""

import json
import shutil

import pytest

from nacre import NAC
from nacre.io import save
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Profile, load_recipe
from nacre.train.format1 import old_digest
from nacre.train.identity import Identity
from nacre.train.run import Run
from nacre.train.run_cell import run_cell
from support.runs import fields, write_run
from support.train import cell, spirals

DAMAGED = {
    "result.json": ("", "{", "[]", "{}", '{"format": 99}'),
    "recipe.toml": (None, "data = [", "unknown = 1"),
    "columns.json": ("{", "[]"),
    "model/model.json": (None, "{", "{}"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A trained run."""
    one = cell(spirals(quick_steps=6), tmp_path_factory.mktemp("run"))
    run_cell(one)
    return one


def test_a_run_has_a_result_a_recipe_a_task_and_a_network(finished):
    run = Run.open(str(finished.directory))
    assert (run.result.model, run.result.fold, run.result.task) == (finished.model, 0, "tiny")
    assert run.result.fingerprint == finished.fingerprint()
    assert run.recipe == finished.task.recipe
    assert run.columns is None
    assert run.task().data.digest == finished.task.data.digest
    network = run.network()
    assert isinstance(network, TaskNetwork)
    assert not network.training
    assert len(run.weights) == 64


def read(place):
    """All parts of a run."""
    run = Run.open(place)
    return run.recipe, run.columns, run.network()


def damage(finished, place, name, text):
    """A copy of a run in which one file is damaged, or missing."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(finished.directory, place)
    if text is None:
        (place / name).unlink()
    else:
        (place / name).write_text(text)
    return place


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in DAMAGED.items() for text in texts])
def test_whatever_is_damaged_is_named_in_one_kind_of_message(finished, tmp_path, name, text):
    place = damage(finished, tmp_path / "run", name, text)
    with pytest.raises(ValueError, match=rf"run/{name.partition('/')[0]}.* is damaged: .*; delete {place} and"):
        read(place)


def test_a_run_that_is_not_finished_says_what_to_do(finished, tmp_path):
    with pytest.raises(FileNotFoundError, match="gone is no finished run; give a directory"):
        Run.open(tmp_path / "gone")
    (tmp_path / "run/checkpoints").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="it was interrupted: the same `nacre train` goes on with it"):
        Run.open(tmp_path / "run")


def test_controls_and_other_models_have_no_network(tmp_path):
    run = write_run(tmp_path, "mean", control=True)
    with pytest.raises(ValueError, match="holds no network; controls have none, choose the run of a model"):
        Run.open(run).network()
    save(NAC(8, 2), run / "model")
    with pytest.raises(ValueError, match="model is damaged: it is a NAC, wanted a network"):
        Run.open(run).network()


def test_a_network_that_diverged_is_opened_only_if_asked_for(finished, tmp_path):
    shutil.copytree(finished.directory, tmp_path / "run")
    network = Run.open(tmp_path / "run").network()
    network.head[-1].bias.data.fill_(float("nan"))
    save(network, tmp_path / "run/model")
    with pytest.raises(ValueError, match="not finite: training diverged"):
        Run.open(tmp_path / "run").network()
    assert Run.open(tmp_path / "run").network(allow_nonfinite=True)


def test_a_result_of_format_1_without_recipe_opens_as_it_is(tmp_path):
    for task in ("mine", "ettm1"):  # the checksum of its recipe is not that of the shipped one
        run = Run.open(write_run(tmp_path, task=task))
        assert run.result.record == json.loads(json.dumps(fields(task=task)))


def test_a_result_of_format_1_of_a_shipped_recipe_gets_the_checksums_of_today(tmp_path):
    recipe = load_recipe("ettm1").at(Profile.QUICK)
    run = Run.open(write_run(tmp_path, recipe=old_digest(recipe)))
    assert run.result.record["format"] == 2
    assert run.result.fingerprint == Identity(recipe, "nac", 0, "d" * 64, "split0", Profile.QUICK).fingerprint
