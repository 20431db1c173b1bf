"""`nacre tune`: the search itself, what interrupts it, and what it writes."""

import contextlib
import csv
import io
import json
import shutil
import tomllib
from dataclasses import replace

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from nacre.tasks.recipe import Profile, load_recipe
from nacre.train.lightning_module import Training
from nacre.train.run_cell import run_cell
from nacre.train.tuning import figures, trial, tune
from nacre.train.tuning.figures import figures_of
from nacre.train.tuning.space import recipe_at, space_of, start_of
from nacre.train.tuning.storage import ERROR, outcome, propose, quietly
from nacre.train.tuning.trial import Pruned
from nacre.train.tuning.tune import Tune, run_tuning
from support.hypothesis import DEEP
from support.train import MODEL, TINY_TOML, cell, files_below, nacre, read_log, spirals

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """A finished search of five trials, its study, and what was printed."""
    place = tmp_path_factory.mktemp("search")
    (place / "tiny.toml").write_text(TINY_TOML % 6)
    only = ("lr", "d_model", "layer.mode")
    search = Tune(str(place / "tiny.toml"), MODEL, 5, Profile.QUICK, only=only, out=place / "out")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        study = run_tuning(search)
    return search, study, said.getvalue()


@pytest.mark.slow
def test_a_search_leaves_a_recipe_that_trains_a_report_and_figures(found, tmp_path, monkeypatch):
    search, study, said = found
    path = search.out / f"tiny-tuned-{MODEL}.toml"
    files = {"study.db", "trials.csv", "search.json", "report.md", "history.png", path.name}
    assert files_below(search.out) >= files
    recipe = load_recipe(path)
    tuned = recipe_at(load_recipe(search.task), MODEL, study.best_params)
    assert replace(recipe, name="tiny").digest == tuned.digest
    assert path.read_text().startswith("# Found by `nacre tune`: trial ")
    assert tomllib.loads(path.read_text())["models"][MODEL]["mode"] in ("default", "no_gate", "pure")
    assert f"best validation loss {study.best_value:.4g}" in said
    assert said.count("trial ") == 5
    assert f"study tiny-{MODEL}-quick in sqlite" in said.replace("\n", " ")
    monkeypatch.chdir(tmp_path)
    assert nacre(monkeypatch, "train", path, "-m", MODEL, "--profile", "quick", "--folds", 1, "--no-controls") == 0
    log = read_log(tmp_path / "runs" / path.stem / MODEL / "fold0-seed0")
    assert min(row["valid_loss"] for row in log) == pytest.approx(study.best_value, rel=1e-6)


@pytest.mark.slow
def test_the_table_of_trials_is_that_of_the_study(found):
    search, study, _ = found
    with (search.out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    losses = [t.value for t in study.trials]
    assert [float(row["validation_loss"]) for row in rows] == losses
    assert [float(row["lr"]) for row in rows] == [t.params["lr"] for t in study.trials]
    assert {row["state"] for row in rows} <= {"finished", "pruned"}
    assert all(int(row["parameters"]) > 0 for row in rows if row["state"] == "finished")
    assert "the recipe as it was" in (search.out / "report.md").read_text()
    result = json.loads((search.out / "search.json").read_bytes())
    finished = [t.value for t in study.trials if outcome(t) == "finished"]
    assert (result["best"], result["median"], result["recipe"]) == (min(losses), np.median(finished), losses[0])
    assert result["outcomes"]["finished"] == len(finished)
    assert sum(result["outcomes"].values()) == 5
    assert result["provenance"].keys() >= {"commit", "versions", "command"}


@pytest.mark.slow
def test_the_first_trial_is_the_recipe_and_its_loss_that_of_a_run(found, tmp_path):
    search, study, _ = found
    one = cell(spirals(quick_steps=6), tmp_path)
    run_cell(one)
    assert study.trials[0].value == min(row["valid_loss"] for row in read_log(one.directory))
    recipe = load_recipe(search.task)
    assert study.trials[0].params == start_of(recipe, MODEL, space_of(recipe, MODEL, search.only))


def interrupt_in(monkeypatch, number, round_):
    """Ctrl-C in a round of the trial of a number."""
    calls = {"trial": -1}
    real = tune.try_recipe

    def interrupted(context, recipe, on_round):
        calls["trial"] += 1

        def watched(n, loss):
            if (calls["trial"], n) == (number, round_):
                raise KeyboardInterrupt
            return on_round(n, loss)

        return real(context, recipe, watched)

    monkeypatch.setattr(tune, "try_recipe", interrupted)


@pytest.mark.slow
def test_an_interrupted_search_goes_on_with_the_same_values_from_the_checkpoint(search, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_in(patch, 1, 4)
        with pytest.raises(KeyboardInterrupt):
            run_tuning(search)
    directories = {path.parent for path in search.out.rglob("log.csv")}
    (stopped,) = [d for d in directories if not (d / trial.TRIED).exists()]
    steps = [row["step"] for row in read_log(stopped)]
    steps_trained = []
    with monkeypatch.context() as patch:
        patch.setattr(Training, "on_train_batch_start", lambda self, *_: steps_trained.append(self.global_step))
        study = run_tuning(replace(search, trials=2))
    assert steps_trained == [3, 4, 5]  # of six, one a round; Ctrl-C came before the fourth was saved
    study = run_tuning(search)
    states = [t.state for t in study.trials]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]
    assert study.trials[2].params == study.trials[1].params
    assert [outcome(t) for t in study.trials] == ["finished", "interrupted", "finished", "finished"]
    log = read_log(stopped)
    assert [row["step"] for row in log][: len(steps)] == steps
    assert len(log) == 6
    with (search.out / "trials.csv").open() as file:
        assert [row["state"] for row in csv.DictReader(file)][1] == "interrupted"
    whole = run_tuning(replace(search, out=search.out.parent / "whole", trials=2))
    assert [t.value for t in whole.trials] == [study.trials[0].value, study.trials[2].value]


@pytest.mark.slow
def test_a_finished_search_runs_nothing_and_a_longer_one_adds_new_values(found, tmp_path, monkeypatch):
    search, study, _ = found
    shutil.copytree(search.out, tmp_path / "out")
    search = replace(search, out=tmp_path / "out")
    with monkeypatch.context() as patch:
        patch.setattr(tune, "try_recipe", None)
        assert len(run_tuning(search).trials) == 5
    longer = run_tuning(replace(search, trials=7))
    assert [t.value for t in longer.trials[:5]] == [t.value for t in study.trials]
    assert len({tuple(t.params.values()) for t in longer.trials}) == 7


@pytest.mark.slow
def test_a_search_depends_on_its_seed_alone(found, tmp_path):
    search, study, _ = found
    same, other = (
        run_tuning(replace(search, out=tmp_path / str(seed), seed=seed, trials=trials)).trials
        for seed, trials in ((0, 3), (1, 2))
    )
    assert [(t.params, t.value) for t in same] == [(t.params, t.value) for t in study.trials[:3]]
    assert other[1].params != study.trials[1].params


@pytest.mark.slow
def test_a_failing_trial_is_reported_and_counted_and_the_search_goes_on(search, monkeypatch, capsys):
    real = tune.try_recipe
    calls = []

    def fails_once(context, recipe, on_round):
        calls.append(recipe)
        if len(calls) == 2:
            raise MemoryError("no memory left for this one")
        return real(context, recipe, on_round)

    monkeypatch.setattr(tune, "try_recipe", fails_once)
    study = run_tuning(search)
    assert [outcome(t) for t in study.trials] == ["finished", "failed", "finished"]
    assert study.trials[1].value == study.trials[0].value  # the worst known: no place to go back to
    assert study.trials[1].user_attrs[ERROR] == "no memory left for this one"
    said = capsys.readouterr().out
    assert "failed: no memory left" in said
    assert "1 failed" in said.replace("\n", " ")


def test_a_search_on_spirals_has_no_convolutions_because_their_rows_ask(search, monkeypatch):
    monkeypatch.setattr(tune, "try_recipe", lambda *_: trial.Tried(0.5, 7))
    study = run_tuning(replace(search, only=(), trials=1))
    assert {"dense_layers", "lr"} <= study.trials[0].params.keys()
    assert not [name for name in study.trials[0].params if name.startswith("conv")]


def test_a_search_of_which_all_trials_fail_says_why(search, monkeypatch):
    def fails(context, recipe, on_round):
        raise RuntimeError("the shape is wrong")

    monkeypatch.setattr(tune, "try_recipe", fails)
    with pytest.raises(ValueError, match="no trial gave a value; 3 failed, the last with: the shape is wrong"):
        run_tuning(search)


@pytest.mark.slow
def test_hopeless_trials_are_pruned(search, monkeypatch):
    def fake(context, recipe, on_round):
        hopeless = len(study_of().get_trials(states=[TrialState.COMPLETE])) >= 4
        for number in range(1, 7):
            if on_round(number, 1.0 + 5 * hopeless - 0.1 * number):
                assert number > 1  # warm-up
                raise Pruned
        return trial.Tried(0.4 + 5 * hopeless, 7)

    def study_of():
        return optuna.load_study(study_name=f"tiny-{MODEL}-quick", storage=f"sqlite:///{search.out / 'study.db'}")

    monkeypatch.setattr(tune, "try_recipe", fake)
    study = run_tuning(replace(search, trials=6))
    assert [outcome(t) for t in study.trials] == ["finished"] * 4 + ["pruned"] * 2
    assert [t.value for t in study.trials[4:]] == [pytest.approx(5.8)] * 2  # after two rounds
    assert study.trials[4].params != study.trials[5].params
    assert PNG in figures_of(study, {})["history.png"][:4]


@pytest.mark.slow
def test_the_search_is_better_than_chance():
    def bowl(t):
        x, y = t.suggest_float("x", -1, 1), t.suggest_float("y", 1e-4, 1, log=True)
        return (x - 0.3) ** 2 + (np.log10(y) + 1.5) ** 2 + (t.suggest_categorical("z", ["a", "b"]) == "a")

    best = {}
    for name, make in {
        "gp": lambda s: propose(s, 0, 25, shared=False),
        "random": optuna.samplers.RandomSampler,
    }.items():
        found = []
        for seed in range(3 if DEEP else 1):
            study = optuna.create_study(sampler=make(seed))
            with quietly():
                study.optimize(bowl, 25)
            found.append(study.best_value)
        best[name] = np.mean(found)
    assert best["gp"] < 0.01 < best["random"]


@pytest.mark.slow
def test_figures_tell_what_mattered():
    study = optuna.create_study()
    kinds = {
        "lr": optuna.distributions.FloatDistribution(1e-4, 1e-1, log=True),
        "idle": optuna.distributions.IntDistribution(1, 8),
        "mode": optuna.distributions.CategoricalDistribution(["a", "b"]),
    }
    random = np.random.default_rng(0)
    for _ in range(3):
        study.add_trial(
            optuna.create_trial(params={"lr": 0.01, "idle": 1, "mode": "a"}, distributions=kinds, value=1.0)
        )
    assert set(figures_of(study, {})) == {"history.png"}
    for _ in range(30):
        params = {
            "lr": 10 ** random.uniform(-4, -1),
            "idle": int(random.integers(1, 9)),
            "mode": random.choice(["a", "b"]),
        }
        value = np.log10(params["lr"]) ** 2
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=value))
    shares = figures._importance(study)
    assert next(iter(shares)) == "lr"
    assert shares["lr"] > 0.8
    plots = figures_of(study, {"lr": 0.01, "idle": 1, "mode": "a"})
    assert set(plots) == {"history.png", "importance.png", "slices.png"}
    assert all(data.startswith(PNG) for data in plots.values())


def test_the_command_passes_everything_on(monkeypatch):
    seen = []
    monkeypatch.setattr(tune, "run_tuning", seen.append)
    args = ["tune", "spiral", "-m", "sdpa", "--trials", "7", "--profile", "quick", "--folds", "2", "--only", "lr"]
    args += ["--only", "dropout", "--seed", "3", "--out", "x", "--storage", "sqlite:///y.db", "--study", "z"]
    assert nacre(monkeypatch, *args) == 0
    (got,) = seen
    assert (got.task, got.model, got.trials, got.profile, got.folds) == ("spiral", "sdpa", 7, Profile.QUICK, 2)
    assert (got.only, got.seed, str(got.out), got.storage, got.study) == (
        ["lr", "dropout"],
        3,
        "x",
        "sqlite:///y.db",
        "z",
    )
