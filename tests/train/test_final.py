"""`nacre train --final`: what it trains on, for how long, what it leaves, and when it refuses."""

import json
import shutil
from dataclasses import replace

import lightning as L
import pytest
import torch

import nacre
from nacre.inspect.recording.run import load_subject
from nacre.tasks.recipe import Profile, load_recipe
from nacre.tasks.task import load_task
from nacre.train.final import Final, final_cell, on_all_data
from nacre.train.grid import run_grid
from nacre.train.predict import ensemble_of
from nacre.train.report.cell_files import add_results, known_cells
from nacre.train.report.results import find_results
from nacre.train.run import Run
from nacre.train.run_cell import run_cell
from nacre.train.scale.ray_worker import Setup, job_of, run_job
from support.callbacks import Break, Crash, crash
from support.refused import refused
from support.train import MODEL, cell, forecasts, result_of, spirals, tiny, waves, weights_of
from support.train import nacre as command

FINAL = f"runs/tiny/{MODEL}/final-seed0"
SHORT = Final(rounds=4, round_steps=2, folds=(0, 1))  # more than an epoch of `waves`


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a recipe and its three finished folds, whose rounds have two steps."""
    folder = tmp_path_factory.mktemp("final")
    run_grid(replace(tiny(folder, steps=12), folds=3))
    return folder


@pytest.fixture
def folds(trained, tmp_path):
    """A copy of it, in which validation chose these steps, and its grid."""

    def chose(*steps):
        shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
        for fold, step in enumerate(steps):
            change(tmp_path / f"runs/tiny/{MODEL}/fold{fold}-seed0", best_step=step)
        for fold in range(len(steps), 3):
            shutil.rmtree(tmp_path / f"runs/tiny/{MODEL}/fold{fold}-seed0")
        return replace(tiny(tmp_path, steps=12), folds=None, final=True)

    return chose


def change(run, **budget):
    """Change what a run says of how it was trained."""
    result = result_of(run)
    result["budget"] |= budget
    (run / "result.json").write_text(json.dumps(result))


def short(task, out, model=MODEL):
    """A cell that trains on all data for eight steps."""
    return on_all_data(cell(task, out, model), SHORT)


@pytest.mark.parametrize("make", [spirals, waves, forecasts])
def test_all_that_any_fold_uses_is_trained_on(make, tmp_path):
    task = make()
    split = short(task, tmp_path).split
    used = {i for fold in task.splits for part in (fold.train, fold.valid, fold.test) for i in part.tolist()}
    assert split.train.tolist() == sorted(used)
    assert len(split.valid) == len(split.test) == 0
    if make is not forecasts:  # of series, windows across the borders of parts are of no part
        assert len(used) == len(task.data)


def test_which_part_is_tested_changes_nothing_and_every_answer_does(tmp_path):
    task = waves()
    turned = [replace(split, train=split.test, valid=split.train, test=split.valid) for split in task.splits]
    runs = {"as it is": task, "turned": replace(task, splits=turned[::-1])}
    for part in ("train", "valid", "test"):
        y = task.data.y.clone()
        y[getattr(task.splits[0], part)[0]] ^= 1
        runs[part] = replace(task, data=replace(task.data, y=y))
    weights = {}
    for name, one in runs.items():
        run_cell(short(one, tmp_path / name))
        weights[name] = weights_of(tmp_path / name / f"waves/{MODEL}/final-seed0")
    assert weights["as it is"] == weights["turned"]
    assert len(set(weights.values())) == 4


@pytest.mark.parametrize(
    ("steps", "total", "words"),
    [
        ((4, 12, 6), 6, "folds 0 to 2"),
        ((4, 12), 8, "folds 0 and 1"),
        ((2, 4), 4, "folds 0 and 1"),  # in whole rounds of two steps
        ((10,), 10, "fold 0"),
    ],
)
def test_it_trains_for_the_median_of_what_validation_chose(folds, steps, total, words):
    grid = folds(*steps)
    task = load_task(load_recipe(grid.tasks[0]).at(Profile.QUICK))
    found = final_cell([cell(task, grid.out, fold=fold) for fold in range(3)])
    assert found.final.steps == total
    assert str(found.final).startswith(f"trained on all data, {total} steps, the median of {words}; its score")


def test_the_command_trains_says_what_it_made_and_skips_what_is_done(folds, tmp_path, monkeypatch, capsys):
    folds(4, 12, 6)
    monkeypatch.chdir(tmp_path)
    words = ("train", "tiny.toml", "-m", MODEL, "--profile", "quick", "--final")
    assert command(monkeypatch, *words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"tiny, {MODEL}, final: trained on all data, 6 steps, the median of folds 0 to 2; its score is" in said
    assert "no controls are run" in said
    result = result_of(tmp_path / FINAL)
    assert (result["value"], result["metrics"], result["final"]) == (None, {}, {"folds": [0, 1, 2]})
    assert result["budget"]["steps_taken"] == result["budget"]["steps"] == result["budget"]["best_step"] == 6
    assert result["data"]["train"] == 12
    assert sorted(path.name for path in (tmp_path / "runs/tiny").iterdir()) == [MODEL]
    before = (tmp_path / FINAL / "result.json").stat().st_mtime_ns
    assert command(monkeypatch, *words) == 0
    assert f"tiny, {MODEL}, final is done" in capsys.readouterr().out
    assert (tmp_path / FINAL / "result.json").stat().st_mtime_ns == before
    change(tmp_path / f"runs/tiny/{MODEL}/fold2-seed0", best_step=8)
    assert command(monkeypatch, *words) == 2
    said = capsys.readouterr().err
    assert f"{FINAL}/result.json was made with other settings: steps 6 there, 8 here; give another --out" in said


def test_the_learning_rate_ends_at_0_with_the_last_step(tmp_path):
    rates = []

    class Rates(L.Callback):
        def on_train_batch_start(self, trainer, *args):
            rates.append(trainer.lr_scheduler_configs[0].scheduler.get_last_lr()[0])

    run_cell(short(waves(), tmp_path), (Rates(),))
    assert len(rates) == 8
    assert rates[-1] == 0 < min(rates[:-1])


def test_tables_and_files_of_results_pass_over_it(folds, tmp_path):
    run_grid(folds(2, 2, 2))
    runs = tmp_path / "runs"
    assert Run.open(tmp_path / FINAL).result.final
    assert not Run.open(tmp_path / FINAL).result.diverged
    assert (
        [r.fold for r in find_results(runs).results] == [r.fold for r in known_cells([runs]).results] == [0, 1, 2]
    )
    assert find_results(runs).damaged == []
    assert str(add_results([runs], tmp_path / "cells")[0]) == "3 new"
    assert [run.name for run in ensemble_of([runs / f"tiny/{MODEL}"])] == [f"fold{i}-seed0" for i in range(3)]
    with refused("no results under", FileNotFoundError):
        find_results(tmp_path / FINAL)


def test_it_predicts_for_a_new_table(tmp_path, monkeypatch):
    rows = [f"{who},{t},{who}{t},{'ab'[who % 2]}" for who in range(6) for t in range(4)]
    (tmp_path / "my.csv").write_text("who,when,x,y\n" + "\n".join(rows))
    (tmp_path / "my.toml").write_text(
        'data = { csv = "my.csv", time = "when", target = "y", group = "who" }\n'
        "network = { d_model = 8 }\ntraining = { quick_steps = 6 }\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ("train", "my.toml", "-m", MODEL, "--profile", "quick", "--no-controls")
    assert command(monkeypatch, *words, "--folds", 1) == command(monkeypatch, *words, "--final") == 0
    run = tmp_path / f"runs/my/{MODEL}/final-seed0"
    assert command(monkeypatch, "predict", run, "my.csv") == 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 7
    assert isinstance(nacre.load(run), nacre.TaskNetwork)


def test_what_was_interrupted_goes_on_to_the_same_weights(tmp_path):
    one, whole = short(waves(), tmp_path / "one"), short(waves(), tmp_path / "whole")
    crash(one, Crash(3))
    assert (one.directory / "checkpoints/last.ckpt").exists()
    crash(one, Crash(at_the_end=True))
    run_cell(one)
    run_cell(whole)
    assert weights_of(one.directory) == weights_of(whole.directory)
    assert not (one.directory / "checkpoints").exists()


def test_one_that_diverges_leaves_no_run(tmp_path):
    one = short(waves(), tmp_path)
    with refused("training on all data diverged at step 2; lower the learning rate"):
        run_cell(one, (Break(0),))
    assert not one.has_result


def test_a_worker_of_a_cluster_trains_the_same(folds, monkeypatch):
    grid = folds(4, 12, 6)
    task = load_task(load_recipe(grid.tasks[0]).at(Profile.QUICK))
    one = final_cell([cell(task, grid.out, fold=fold) for fold in range(3)])
    monkeypatch.setattr("sys.argv", ["nacre"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    outcome = run_job(job_of(one), Setup(None, torch.get_num_threads(), 0.0, ("nacre",), {}))
    assert outcome.error == ""
    assert outcome.result["fingerprint"] == one.fingerprint()
    assert one.is_done()


def test_it_refuses_where_folds_do_not_say_how_long(folds, tmp_path):
    grid = folds(4, 12)
    first = grid.out / f"tiny/{MODEL}/fold0-seed0"
    with refused(f"no fold of sdpa, seed 0, is finished in {grid.out}/tiny/sdpa, and folds say how long to train"):
        run_grid(replace(grid, models=["sdpa"]))
    with refused(f"no fold of {MODEL}, seed 1, is finished"):
        run_grid(replace(grid, seeds=[1]))
    with refused("linear is a control, and --final trains models only"):
        run_grid(replace(grid, models=["linear"]))
    with refused(f"{first}/result.json was made with other settings: profile quick there, standard here"):
        run_grid(replace(grid, profile=Profile.STANDARD))
    recipe = tmp_path / "tiny.toml"
    for old, new, message in (
        ("batch_size = 4", "batch_size = 3", "other settings: training.batch_size 4 there, 3 here"),
        ("n = 12", "n = 15", "other settings: the data; data.n 12 there, 15 here"),
    ):
        text = recipe.read_text()
        recipe.write_text(text.replace(old, new))
        with refused(message, case=new):
            run_grid(grid)
        recipe.write_text(text)
    change(first, best_step=None)
    with refused(f"{first}/result.json does not say which step validation chose"):
        run_grid(grid)
    change(first, best_step=2, diverged=True)
    with refused(f"{first} diverged, so it does not say how long to train"):
        run_grid(grid)
    assert not (tmp_path / FINAL).exists()


def test_there_is_no_test_part_to_inspect(tmp_path):
    one = short(waves(), tmp_path, "nac")
    run_cell(one)
    with refused("was trained on all data, and has no test part; choose the run of a fold"):
        load_subject(one.directory)
