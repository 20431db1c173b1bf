"""`nacre tune`: the search itself, what interrupts it, and what it writes."""

import csv
import json
import time
import tomllib
from dataclasses import replace

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from nacre.lock import Busy
from nacre.tasks.recipe import Profile, load_recipe
from nacre.train.cell import CHECKPOINTS
from nacre.train.module import Training
from nacre.train.run import run_cell
from nacre.train.tuning import plots, storage, trial, tune
from nacre.train.tuning.plots import plots_of
from nacre.train.tuning.space import recipe_at, space_of, start_of
from nacre.train.tuning.storage import ERROR, adopt, open_study, outcome, propose, quietly
from nacre.train.tuning.trial import Pruned, Setting, try_recipe
from nacre.train.tuning.tune import Tune, run_tuning
from train_examples import MODEL, TINY_TOML, cell, files_below, nacre, read_log, spirals, with_data

PNG = b"\x89PNG"


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Works in an empty folder that holds a small recipe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY_TOML % 6)
    return Tune("tiny.toml", MODEL, 3, Profile.QUICK, only=("lr", "d_model", "layer.mode"), out=tmp_path / "out")


def go_on(number, loss):
    return False


def setting(tmp_path, **changes):
    return replace(Setting(spirals(quick_steps=12), MODEL, Profile.QUICK, 1, 0, tmp_path), **changes)


@pytest.mark.slow
def test_a_search_leaves_a_recipe_that_trains_a_report_and_pictures(tiny, capsys, monkeypatch):
    study = run_tuning(replace(tiny, trials=5))
    said = capsys.readouterr().out
    assert files_below(tiny.out) >= {
        "study.db",
        "trials.csv",
        "report.md",
        "history.png",
        f"tiny-tuned-{MODEL}.toml",
    }
    recipe = load_recipe(tiny.out / f"tiny-tuned-{MODEL}.toml")
    assert (
        replace(recipe, name="tiny").digest == recipe_at(load_recipe("tiny.toml"), MODEL, study.best_params).digest
    )
    assert f"best validation loss {study.best_value:.4g}" in said
    assert said.count("trial ") == 5
    path = tiny.out / f"tiny-tuned-{MODEL}.toml"
    assert nacre(monkeypatch, "train", path, "-m", MODEL, "--profile", "quick", "--folds", 1, "--no-controls") == 0
    log = read_log(tiny.out.parent / "runs" / f"tiny-tuned-{MODEL}" / MODEL / "fold0-seed0")
    assert min(row["valid_loss"] for row in log) == pytest.approx(study.best_value, rel=1e-6)


def test_the_table_of_trials_is_that_of_the_study(tiny):
    study = run_tuning(tiny)
    with (tiny.out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["validation_loss"]) for row in rows] == [t.value for t in study.trials]
    assert [float(row["lr"]) for row in rows] == [t.params["lr"] for t in study.trials]
    assert {row["state"] for row in rows} == {"finished"}
    assert all(int(row["parameters"]) > 0 for row in rows)
    assert "the recipe as it was" in (tiny.out / "report.md").read_text()
    search = json.loads((tiny.out / "search.json").read_bytes())
    losses = [t.value for t in study.trials]
    assert (search["best"], search["median"], search["recipe"]) == (min(losses), np.median(losses), losses[0])
    assert search["outcomes"] == {"finished": 3}
    assert search["provenance"]["commit"]


def test_the_first_trial_is_the_recipe_and_its_loss_that_of_a_run(tiny, tmp_path):
    study = run_tuning(replace(tiny, trials=1))
    run_cell(cell(spirals(quick_steps=6), tmp_path / "runs"))
    log = read_log(tmp_path / "runs" / "tiny" / MODEL / "fold0-seed0")
    assert study.trials[0].value == min(row["valid_loss"] for row in log)
    assert study.trials[0].params == start_of(
        load_recipe("tiny.toml"), MODEL, space_of(load_recipe("tiny.toml"), MODEL, tiny.only)
    )


def test_leak_the_test_part_decides_nothing(tmp_path):
    one = setting(tmp_path / "one")
    y = one.task.data.y.clone()
    y[one.task.data.rows(one.task.splits[0].test)] = 1e6
    values = one.task.data.values.clone()
    values[one.task.data.rows(one.task.splits[0].test)] = -1e6
    other = setting(tmp_path / "other", task=with_data(one.task, y=y, values=values))
    recipe = one.task.recipe
    assert try_recipe(one, recipe, go_on) == try_recipe(other, recipe, go_on)


def test_a_recipe_is_judged_by_the_mean_of_the_best_rounds_of_its_folds(tmp_path):
    both = setting(tmp_path, folds=2)
    recipe = both.task.recipe
    tried = try_recipe(both, recipe, go_on)
    best = [min(row["valid_loss"] for row in read_log(both.cell(recipe, f).directory)) for f in (0, 1)]
    assert tried.value == pytest.approx(np.mean(best))
    assert best[0] != best[1]
    assert try_recipe(setting(tmp_path / "b"), recipe, go_on).value == pytest.approx(best[0])


def test_rounds_are_told_in_order_of_the_first_fold_only(tmp_path):
    told = []
    one = setting(tmp_path, folds=2)
    try_recipe(one, one.task.recipe, lambda number, loss: bool(told.append((number, loss))))
    log = read_log(one.cell(one.task.recipe, 0).directory)
    assert told == [(i, pytest.approx(row["valid_loss"])) for i, row in enumerate(log, 1)]
    again = []
    try_recipe(one, one.task.recipe, lambda number, loss: bool(again.append((number, loss))))
    assert again == told  # read, not trained


def test_a_trial_that_is_stopped_trains_no_further_and_leaves_no_checkpoint(tmp_path):
    one = setting(tmp_path)
    with pytest.raises(Pruned):
        try_recipe(one, one.task.recipe, lambda number, loss: number == 2)
    directory = one.cell(one.task.recipe, 0).directory
    assert len(read_log(directory)) == 2
    assert not (directory / CHECKPOINTS).exists()
    assert not (directory / trial.TRIED).exists()


def test_a_trial_that_diverged_from_the_start_is_an_error(tmp_path):
    one = setting(tmp_path, task=spirals(quick_steps=12))
    values = one.task.data.y * float("inf")
    one = replace(one, task=with_data(one.task, y=values))
    with pytest.raises(RuntimeError, match="diverged"):
        try_recipe(one, one.task.recipe, go_on)


def test_a_trial_at_work_elsewhere_is_left_alone(tmp_path):
    one = setting(tmp_path)
    held = one.cell(one.task.recipe, 0)
    held.directory.mkdir(parents=True)
    with held.alone(), pytest.raises(Busy):
        try_recipe(one, one.task.recipe, go_on)


def interrupt_in(monkeypatch, number, round_):
    """Ctrl-C in a round of the trial of a number."""
    calls = {"trial": -1}
    real = tune.try_recipe

    def interrupted(setting, recipe, on_round):
        calls["trial"] += 1

        def watched(n, loss):
            if (calls["trial"], n) == (number, round_):
                raise KeyboardInterrupt
            return on_round(n, loss)

        return real(setting, recipe, watched)

    monkeypatch.setattr(tune, "try_recipe", interrupted)


def test_an_interrupted_search_goes_on_with_the_same_values_from_the_checkpoint(tiny, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_in(patch, 1, 4)
        with pytest.raises(KeyboardInterrupt):
            run_tuning(tiny)
    directories = {path.parent for path in tiny.out.rglob("log.csv")}
    (stopped,) = [d for d in directories if not (d / trial.TRIED).exists()]
    steps = [row["step"] for row in read_log(stopped)]
    steps_trained = []
    with monkeypatch.context() as patch:
        patch.setattr(Training, "on_train_batch_start", lambda self, *_: steps_trained.append(self.global_step))
        study = run_tuning(replace(tiny, trials=2))
    assert steps_trained == [3, 4, 5]  # of six, one a round; Ctrl-C came before the fourth was saved
    study = run_tuning(tiny)
    states = [t.state for t in study.trials]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE]
    assert study.trials[2].params == study.trials[1].params
    assert [outcome(t) for t in study.trials] == ["finished", "interrupted", "finished", "finished"]
    log = read_log(stopped)
    assert [row["step"] for row in log][: len(steps)] == steps
    assert len(log) == 6
    with (tiny.out / "trials.csv").open() as file:
        assert [row["state"] for row in csv.DictReader(file)][1] == "interrupted"
    whole = run_tuning(replace(tiny, out=tiny.out.parent / "whole", trials=2))
    assert [t.value for t in whole.trials] == [study.trials[0].value, study.trials[2].value]


@pytest.mark.slow
def test_a_finished_search_runs_nothing_and_a_longer_one_adds_new_values(tiny, monkeypatch):
    first = [t.value for t in run_tuning(tiny).trials]
    with monkeypatch.context() as patch:
        patch.setattr(tune, "try_recipe", None)
        assert len(run_tuning(tiny).trials) == 3
    longer = run_tuning(replace(tiny, trials=6))
    assert [t.value for t in longer.trials[:3]] == first
    assert len({tuple(t.params.values()) for t in longer.trials}) == 6


@pytest.mark.slow
def test_a_search_depends_on_its_seed_alone(tiny, tmp_path):
    runs = [
        run_tuning(replace(tiny, out=tmp_path / name, seed=seed)) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    points = [[t.params for t in study.trials] for study in runs]
    assert points[0] == points[1] != points[2]
    assert [t.value for t in runs[0].trials] == [t.value for t in runs[1].trials]


def test_a_failing_trial_is_reported_and_counted_and_the_search_goes_on(tiny, monkeypatch, capsys):
    real = tune.try_recipe
    calls = []

    def fails_once(setting, recipe, on_round):
        calls.append(recipe)
        if len(calls) == 2:
            raise MemoryError("no memory left for this one")
        return real(setting, recipe, on_round)

    monkeypatch.setattr(tune, "try_recipe", fails_once)
    study = run_tuning(tiny)
    assert [outcome(t) for t in study.trials] == ["finished", "failed", "finished"]
    assert study.trials[1].value == study.trials[0].value  # the worst known: no place to go back to
    assert study.trials[1].user_attrs[ERROR] == "no memory left for this one"
    said = capsys.readouterr().out
    assert "failed: no memory left" in said
    assert "1 failed" in said.replace("\n", " ")


def test_a_search_of_which_all_trials_fail_says_why(tiny, monkeypatch):
    def fails(setting, recipe, on_round):
        raise RuntimeError("the shape is wrong")

    monkeypatch.setattr(tune, "try_recipe", fails)
    with pytest.raises(ValueError, match="no trial gave a value; 3 failed, the last with: the shape is wrong"):
        run_tuning(tiny)


def test_hopeless_trials_are_pruned(tiny, monkeypatch):
    def fake(setting, recipe, on_round):
        hopeless = len(study_of().get_trials(states=[TrialState.COMPLETE])) >= 4
        for number in range(1, 7):
            if on_round(number, 1.0 + 5 * hopeless - 0.1 * number):
                assert number > 1  # warm-up
                raise Pruned
        return trial.Tried(0.4 + 5 * hopeless, 7)

    def study_of():
        return optuna.load_study(study_name=f"tiny-{MODEL}-quick", storage=f"sqlite:///{tiny.out / 'study.db'}")

    monkeypatch.setattr(tune, "try_recipe", fake)
    study = run_tuning(replace(tiny, trials=6))
    assert [outcome(t) for t in study.trials] == ["finished"] * 4 + ["pruned"] * 2
    assert [t.value for t in study.trials[4:]] == [pytest.approx(5.8)] * 2  # after two rounds
    assert study.trials[4].params != study.trials[5].params
    assert PNG in plots_of(study, {})["history.png"][:4]


def test_a_study_of_another_search_is_named_and_left_alone(tiny):
    run_tuning(replace(tiny, trials=1))
    other = replace(tiny, only=("lr", "d_model"))
    message = r"study 'tiny-cfc-fc-quick' in sqlite.* another search: layer.mode was default.*is not searched"
    with pytest.raises(ValueError, match=message):
        run_tuning(other)
    with pytest.raises(ValueError, match="seed was 0, is 3"):
        run_tuning(replace(tiny, seed=3))
    assert len(run_tuning(replace(other, study="mine", trials=1)).trials) == 1
    optuna.create_study(storage=f"sqlite:///{tiny.out / 'study.db'}", study_name="theirs").add_trial(
        optuna.create_trial(value=1.0)
    )
    with pytest.raises(ValueError, match="nacre did not make it"):
        run_tuning(replace(tiny, study="theirs"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "nak"}, "unknown model 'nak'"),
        ({"task": "spirral"}, "unknown task 'spirral'"),
        ({"trials": 0}, "trials must be"),
        ({"folds": 9}, "folds must be at most 3 for tiny, got 9"),
        ({"only": ("speed",)}, "only must name what can be searched, got 'speed'"),
        ({"storage": "nonsense"}, "storage must be a URL such as sqlite:///study.db"),
        ({"storage": "nosuchdb://x/y"}, "storage must be a URL such as .*, got 'nosuchdb://x/y'"),
        (
            {"storage": "sqlite:////no/such/folder/x.db"},
            "storage sqlite:////no/such/folder/x.db cannot be used: .*unable",
        ),
        (
            {"storage": "mysql+pymysql://me:secret@127.0.0.1/x"},
            r"storage mysql\+pymysql://me:\*\*\*@127.0.0.1/x needs",
        ),
    ],
)
def test_bad_input_is_named_before_anything_is_run(tiny, monkeypatch, change, message):
    monkeypatch.setattr(tune, "try_recipe", None)
    with pytest.raises(ValueError, match=message):
        run_tuning(replace(tiny, **change))


def test_a_damaged_study_file_is_named(tiny):
    tiny.out.mkdir()
    (tiny.out / "study.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(ValueError, match=r"storage sqlite:///.*study.db cannot be used: .*not a database"):
        run_tuning(tiny)


@pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed to be used with Study.optimize")
def test_trials_of_a_process_that_died_are_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_BEAT", 1)
    monkeypatch.setattr(storage, "_GRACE", 1)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    sampler = propose(0, 0, 3, shared=False)
    study = open_study(url, "s", {"x": 1}, sampler)
    with quietly():
        dead = study.ask({"lr": optuna.distributions.FloatDistribution(0.1, 1.0)})
    study._storage.record_heartbeat(dead._trial_id)
    adopt(study)
    assert [t.state for t in study.trials] == [TrialState.RUNNING]
    time.sleep(2.5)
    adopt(study)
    adopt(study)  # once is enough
    assert [t.state for t in study.trials] == [TrialState.FAIL, TrialState.WAITING]
    with quietly():
        again = study.ask({"lr": optuna.distributions.FloatDistribution(0.1, 1.0)})
    assert again.params == dead.params


def test_a_search_that_goes_on_and_processes_that_share_one_draw_anew():
    draws = {propose(0, size, 9, shared=False)._rng.rng.randint(1 << 30) for size in (0, 3, 3)}
    assert len(draws) == 2
    seeds = {propose(0, 5, 9, shared=shared)._rng.rng.randint(1 << 30) for shared in (False, False, True)}
    assert len(seeds) == 2


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
        for seed in range(3):
            study = optuna.create_study(sampler=make(seed))
            with quietly():
                study.optimize(bowl, 25)
            found.append(study.best_value)
        best[name] = np.mean(found)
    assert best["gp"] < 0.01 < best["random"]


def test_pictures_tell_what_mattered():
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
    assert set(plots_of(study, {})) == {"history.png"}
    for _ in range(30):
        params = {
            "lr": 10 ** random.uniform(-4, -1),
            "idle": int(random.integers(1, 9)),
            "mode": random.choice(["a", "b"]),
        }
        value = np.log10(params["lr"]) ** 2
        study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=value))
    shares = plots._importance(study)
    assert next(iter(shares)) == "lr"
    assert shares["lr"] > 0.8
    pictures = plots_of(study, {"lr": 0.01, "idle": 1, "mode": "a"})
    assert set(pictures) == {"history.png", "importance.png", "slices.png"}
    assert all(data.startswith(PNG) for data in pictures.values())


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


def test_the_recipe_file_says_where_it_comes_from(tiny):
    run_tuning(replace(tiny, trials=2))
    text = (tiny.out / f"tiny-tuned-{MODEL}.toml").read_text()
    assert text.startswith("# Found by `nacre tune`: trial ")
    assert tomllib.loads(text)["models"][MODEL]["mode"] in ("default", "no_gate", "pure")
