"""Training with augmentation: nothing else sees it, and runs that were interrupted go on."""

from dataclasses import replace

import pytest
import torch

from nacre.data.batches import Indexed
from nacre.tasks.augment import AUGMENTATIONS
from nacre.tasks.recipe import Profile
from nacre.tasks.recipe_sections import ImageRecipe, NetworkRecipe
from nacre.train import fit
from nacre.train.run_cell import run_cell
from support.callbacks import Crash, crash
from support.train import cell, drive, outcome, task_of


def tiny(**training):
    """A task on tiny images, with augmentation."""
    task = task_of(drive(), **({"augment": "steering"} | training))
    image = ImageRecipe([[4, 3, 2]], tokens="columns", dropout=0.3)
    network = NetworkRecipe(8, 2, time_scale=8.0, image=image)
    return replace(task, recipe=replace(task.recipe, network=network))


def replace_steering(monkeypatch, change):
    monkeypatch.setitem(AUGMENTATIONS, "steering", AUGMENTATIONS["steering"]._replace(change=change))


def test_only_training_batches_are_changed():
    task = tiny()
    split, recipe = task.splits[0], task.recipe.training
    train, valid = fit._loaders(task.data, split, recipe, fit.budget_of(recipe, Profile.QUICK, 16), 0)
    plain = Indexed(task.data)
    for index, batch in zip(valid.sampler, valid, strict=True):
        assert batch.query_only is None
        pairs = [pair for pair in zip(batch, plain[index], strict=True) if pair[0] is not None]
        assert all(torch.equal(a, b) for a, b in pairs)
    assert sum(not torch.equal(b.x, plain[index].x) for index, b in zip(train.sampler, train, strict=True)) >= 2


def test_a_run_augments_no_image_that_validates_or_is_scored(tmp_path, monkeypatch):
    seen = []

    def spoil(data, index, generator):
        seen.append(index)
        batch = data.batch(index)
        return batch._replace(x=torch.zeros_like(batch.x), y=torch.full_like(batch.y, 50.0))

    replace_steering(monkeypatch, spoil)
    one = cell(tiny(), tmp_path)
    result = run_cell(one)
    assert set(torch.cat(seen).tolist()) <= set(one.split.train.tolist())
    assert len(seen) >= 12  # every step of training
    last = float((one.directory / "log.csv").read_text().splitlines()[-1].split(",")[1])
    assert last > 100  # what training saw, in units of the answers' spread
    assert result["metrics"]["mse"] < 10
    assert result["valid"]["mse"] < 10


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, pytest.param(6, marks=pytest.mark.deep)])
def test_an_interrupted_run_with_augmentation_ends_like_an_uninterrupted_one(tmp_path, step, monkeypatch):
    whole, interrupted = (cell(tiny(), tmp_path / name) for name in ("whole", "interrupted"))
    run_cell(whole)
    crash(interrupted, Crash(step))
    run_cell(interrupted)
    assert outcome(interrupted.directory) == outcome(whole.directory)
    plain = cell(tiny(augment=""), tmp_path / "plain")
    replace_steering(monkeypatch, lambda *_: pytest.fail("augmented"))
    run_cell(plain)
    assert outcome(plain.directory) != outcome(whole.directory)
