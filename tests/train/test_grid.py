"""`run_grid` and `run_cell`: what is run, in which order, what is skipped, and what is left behind."""

import fcntl
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import nacre
from nacre._util.locks import LockedElsewhere
from nacre.tasks.controls import CONTROLS, controls_for
from nacre.tasks.recipe import Precision, Profile, load_recipe, parse_recipe
from nacre.tasks.recipe_sections import NetworkRecipe
from nacre.tasks.task import load_task
from nacre.train import grid as grid_module
from nacre.train.cell import Cell
from nacre.train.evaluate import predict
from nacre.train.grid import Grid, cells, expand_models, run_grid
from nacre.train.run_cell import run_cell
from support.callbacks import Break
from support.train import (
    MODEL,
    TINY,
    TINY_TOML,
    cell,
    files_below,
    result_of,
    spirals,
    steps_of_part,
    waves,
    with_data,
)


@pytest.fixture
def tiny(tmp_path):
    """A recipe file, and a grid of it with one fold."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY_TOML % 6)
    return Grid([str(path)], [MODEL], Profile.QUICK, folds=1, out=tmp_path / "runs", controls=False)


def strict(path):
    """Read JSON that has no NaN in it."""

    def refuse(word):
        raise AssertionError(f"{path} holds {word}")

    return json.loads(path.read_text(), parse_constant=refuse)


@pytest.fixture(scope="module")
def spiral_run(tmp_path_factory):
    """A cell with dropout, and what `run_cell` gave."""
    task = spirals(NetworkRecipe(8, 2, dense=(8,), dropout=0.4))
    one = cell(task, tmp_path_factory.mktemp("grid") / "runs", fold=1, seed=3)
    return one, run_cell(one)


def test_a_run_is_a_directory_with_result_recipe_model_and_log(spiral_run):
    out = spiral_run[0].out
    files = {re.sub(r"events\..*|weights-.*", "...", name) for name in files_below(out)}
    names = ("result.json", "recipe.toml", "log.csv", ".lock", "model/model.json", "model/...")
    names += ("tensorboard/...", "tensorboard/hparams.yaml", "inputs.json")
    assert files == {f"tiny/{MODEL}/fold1-seed3/{name}" for name in names}


def test_the_result_says_what_was_run_on_what_and_by_whom(spiral_run):
    one, made = spiral_run
    task = one.task
    result = strict(one.directory / "result.json")
    assert made == result
    same = {"task": "tiny", "model": MODEL, "control": False, "fold": 1, "folds": 3, "seed": 3}
    same |= {"kind": "step-regression", "metric": "mse", "better": "lower", "classes": [], "targets": ["x", "y"]}
    assert {key: result[key] for key in same} == same
    assert result["value"] == result["metrics"]["mse"]
    assert set(result["metrics"]) >= {"mse", "interpolation mse", "extrapolation mse"}
    assert set(result["valid"]) == set(result["metrics"])
    assert result["parameters"] == sum(p.numel() for p in task.network(MODEL, 1, 3).parameters())
    assert result["seconds"] > 0
    expected = {"profile": "quick", "steps": 12, "batch_size": 4, "steps_taken": 12, "precision": "32-true"}
    assert result["budget"] == {**result["budget"], **expected}
    assert {"best_step", "stopped_early", "diverged"} <= set(result["budget"])
    assert result["data"]["digest"] == task.data.digest
    assert [result["data"][part] for part in ("train", "valid", "test")] == [4, 4, 4]
    assert result["split"] == task.splits[1].digest
    assert result["recipe"] == one.identity.settings
    assert result["fingerprint"] == one.fingerprint()
    assert result["provenance"]["versions"]["nacre"] == nacre.__version__
    assert result["provenance"]["versions"]["torch"] == torch.__version__
    commit = result["provenance"]["commit"]
    assert commit is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", commit)


def test_the_saved_model_predicts_what_was_scored(spiral_run):
    one, result = spiral_run
    task = one.task
    batch = task.data.batch(one.split.test)
    network = nacre.load(one.directory / "model").eval()
    with torch.no_grad():
        out = network(batch.x, batch.time, batch.key_padding_mask, query_only=batch.query_only)
    outside = torch.cat([steps_of_part(task, part, one.fold) for part in ("train", "valid")])
    known = task.data.y[outside][~task.data.y[outside].isnan().any(1)]
    error = ((out - batch.y) / known.std(0, correction=0))[~batch.y.isnan().any(-1)]
    assert result["value"] == pytest.approx(error.square().mean().item(), rel=1e-4)


def test_classes_are_scored_in_percent_with_a_confusion(tmp_path):
    task = waves()
    one = cell(task, tmp_path)
    result = run_cell(one)
    test = task.splits[0].test
    right = predict(nacre.load(one.directory / "model"), task.data, test).argmax(1) == task.data.y[test]
    assert result["value"] == pytest.approx(100 * right.double().mean().item())
    assert (result["metric"], result["better"], result["classes"]) == ("accuracy", "higher", ["fast", "slow"])
    confusion = torch.tensor(result["confusion"])
    assert confusion.sum(1).tolist() == [4, 4]
    assert confusion.trace() == right.sum()


def test_a_control_leaves_a_result_and_no_model(tmp_path):
    one = cell(spirals(), tmp_path, "linear")
    result = run_cell(one)
    kept = {"control/control.json", "control/control.safetensors"}
    assert files_below(one.directory) == {"result.json", "recipe.toml", "inputs.json", ".lock", *kept}
    assert result["control"]
    assert result["parameters"] > 0
    assert result["budget"] == {"profile": "quick", "steps": 0, "batch_size": 0, "precision": "32-true"}


def test_the_recipe_in_a_run_makes_the_same_cell(tmp_path):
    recipe = replace(TINY, models={"cfc*": {"time_scale": 2.0}}, summary='say "hi"')
    one = cell(load_task(recipe), tmp_path, "mean")
    run_cell(one)
    again = load_task(parse_recipe((one.directory / "recipe.toml").read_text(), "tiny"))
    assert again.recipe == recipe
    assert cell(again, tmp_path, "mean").fingerprint() == result_of(one.directory)["fingerprint"]
    assert cell(again, tmp_path, "mean").is_done()


def test_a_diverged_run_is_strict_json_without_a_value(tmp_path):
    task = spirals()
    values = task.data.values.clone()
    values[steps_of_part(task, "train")[0]] = float("nan")
    one = cell(with_data(task, values=values), tmp_path)
    made = run_cell(one)
    result = strict(one.directory / "result.json")
    assert result["value"] is made["value"] is None
    assert result["budget"]["diverged"]
    assert one.is_done()


def test_a_diverged_run_is_reported_as_such(tiny, capsys, monkeypatch):
    monkeypatch.setattr(
        grid_module, "run_cell", lambda one, callbacks, group: run_cell(one, (*callbacks, Break(0)), group)
    )
    run_grid(tiny)
    assert f"tiny, {MODEL}, fold 1 of 3: diverged" in capsys.readouterr().out


def test_a_diverged_run_that_another_process_finished_meanwhile_is_reported_as_such(tiny, capsys, monkeypatch):
    run_cell(cell(load_task(load_recipe(tiny.tasks[0])), tiny.out), (Break(0),))
    looks, is_done = iter([False]), Cell.is_done
    monkeypatch.setattr(Cell, "is_done", lambda one: next(looks, None) is None and is_done(one))
    run_grid(tiny)
    assert f"tiny, {MODEL}, fold 1 of 3: diverged" in capsys.readouterr().out


def test_what_is_done_is_skipped_and_a_result_made_in_another_way_is_named_and_kept(tiny, capsys, monkeypatch):
    assert len(run_grid(tiny)) == 1
    (result,) = tiny.out.rglob("result.json")
    before = result.stat().st_mtime_ns, result.read_bytes()
    capsys.readouterr()
    assert run_grid(tiny) == []
    assert f"tiny, {MODEL}, fold 1 of 3 is done" in capsys.readouterr().out
    for change, what in (
        ({"profile": Profile.PAPER}, "profile quick there, paper here"),
        ({"precision": Precision.FLOAT64}, "precision 32-true there, 64-true here"),
    ):
        with pytest.raises(ValueError, match=rf"{result} was made with other settings: {what}; .*--out"):
            run_grid(replace(tiny, **change))
    newer = replace(nacre.model_info(MODEL), version=99)
    with monkeypatch.context() as patch:
        patch.setattr("nacre.train.cell.model_info", lambda name: newer)
        with pytest.raises(ValueError, match="version of the model 1 there, 99 here"):
            run_grid(tiny)
    assert json.loads(result.read_bytes())["version"] == nacre.model_info(MODEL).version
    assert len(run_grid(replace(tiny, folds=2))) == 1
    assert (result.stat().st_mtime_ns, result.read_bytes()) == before


def test_a_damaged_result_is_named(tmp_path):
    one = cell(waves(), tmp_path)
    one.directory.mkdir(parents=True)
    for contents in ("", "{", "[]", "{}"):
        (one.directory / "result.json").write_text(contents)
        with pytest.raises(
            ValueError, match="result.json is damaged: .*; delete .*fold0-seed0 and train it again"
        ):
            run_cell(one)


def test_controls_come_first_then_model_after_model_over_all_tasks(tmp_path):
    tasks = [spirals(), waves()]
    grid = Grid([], ["sdpa", "nac"], folds=2, seeds=(0, 7), out=tmp_path)
    order = [(c.model, c.task.recipe.name, c.seed, c.fold) for c in cells(grid, tasks, ["sdpa", "nac"])]
    expected = [(m, t.recipe.name) for m in CONTROLS for t in tasks if m in controls_for(t.data)]
    assert {("linear", "tiny"), ("linear", "waves"), ("majority", "waves")} <= set(expected)
    expected += [(m, t) for m in ("sdpa", "nac") for t in ("tiny", "waves")]
    assert order == [(m, t, seed, fold) for m, t in expected for seed in (0, 7) for fold in (0, 1)]
    without = cells(replace(grid, controls=False), tasks, ["sdpa", "nac"])
    assert {c.model for c in without} == {"sdpa", "nac"}


def test_controls_are_run_unless_told_otherwise(tiny):
    results = run_grid(replace(tiny, controls=True))
    assert [r["model"] for r in results][-1] == MODEL
    assert all(r["control"] for r in results[:-1])
    assert {"mean", "linear", "time-only"} <= {r["model"] for r in results}


def test_patterns_name_models_each_once_and_controls_are_named_in_full():
    assert expand_models(["cfc-*", "cfc-fc", "lin*"]) == ["cfc-fc", "cfc-ncp", "linear-attention"]
    assert expand_models(["linear", "mean"]) == ["linear", "mean"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": ["cfc-fd"]}, "no model 'cfc-fd'; did you mean 'cfc-fc'?"),
        ({"models": ["zzz*"]}, "no model 'zzz\\*'; there are cfc-fc"),
        ({"tasks": ["spirals"]}, "unknown task 'spirals'; did you mean 'spiral'?"),
        ({"folds": 4}, "folds must be at most 3 for tiny, got 4"),
        ({"folds": 0}, "folds must be at least 1, got 0"),
    ],
)
def test_names_and_numbers_are_checked_before_anything_is_run(tiny, change, message):
    with pytest.raises(ValueError, match=message):
        run_grid(replace(tiny, **change))
    assert not tiny.out.exists()


def test_a_cell_that_fails_is_reported_and_the_others_finish(tiny, monkeypatch, capsys):
    def some_fail(one, callbacks, group):
        if one.fold == 1:
            raise RuntimeError("out of luck")
        return run_cell(one, callbacks, group)

    monkeypatch.setattr(grid_module, "run_cell", some_fail)
    with pytest.raises(ValueError, match=rf"(?s)1 of the cells failed:.*tiny, {MODEL}, fold 2 of 3: out of luck"):
        run_grid(replace(tiny, folds=None))
    assert "failed" in capsys.readouterr().out
    assert {p.parent.name for p in tiny.out.rglob("result.json")} == {"fold0-seed0", "fold2-seed0"}


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


def test_a_cell_that_another_process_holds_is_skipped(tiny, capsys):
    one = cell(load_task(load_recipe(tiny.tasks[0])), tiny.out)
    one.directory.mkdir(parents=True)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, one.directory / ".lock"], **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        assert run_grid(tiny) == []
        assert "is at work in another process" in capsys.readouterr().out
        assert files_below(one.directory) == {".lock"}
        with pytest.raises(LockedElsewhere, match="fold0-seed0"):
            run_cell(one)
        holder.kill()  # the lock goes with the process
    assert len(run_grid(tiny)) == 1


def test_two_runs_of_a_cell_never_hold_it_at_once(tmp_path):
    one = cell(waves(), tmp_path)
    one.directory.mkdir(parents=True)
    with one.lock(), pytest.raises(LockedElsewhere), one.lock():
        pass
    with one.lock():
        pass


def test_a_cell_is_free_again_after_an_error(tmp_path):
    one = cell(waves(), tmp_path, "no such model")
    with pytest.raises(ValueError, match="no such model"):
        run_cell(one)
    with (one.directory / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_control_that_no_task_can_use_is_refused_before_anything_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="majority makes no sense for these tasks; their controls are mean, pers"):
        run_grid(Grid(["spiral"], [MODEL, "majority"], Profile.QUICK))
    assert list(tmp_path.iterdir()) == []
