"""Studies: whether they belong to a search, who takes over what died, and storages that cannot be used."""

import time
from dataclasses import replace

import optuna
import pytest
from optuna.trial import TrialState

from nacre.train.tuning import storage, tune
from nacre.train.tuning.storage import adopt, open_study, propose, quietly
from nacre.train.tuning.trial import Tried
from nacre.train.tuning.tune import run_tuning


@pytest.mark.slow
def test_a_study_of_another_search_is_named_and_left_alone(search):
    run_tuning(replace(search, trials=1))
    other = replace(search, only=("lr", "d_model"))
    message = r"study 'tiny-cfc-fc-quick' in sqlite.* another search: layer.mode was default.*is not searched"
    with pytest.raises(ValueError, match=message):
        run_tuning(other)
    with pytest.raises(ValueError, match="seed was 0, is 3"):
        run_tuning(replace(search, seed=3))
    assert len(run_tuning(replace(other, study="mine", trials=1)).trials) == 1
    optuna.create_study(storage=f"sqlite:///{search.out / 'study.db'}", study_name="theirs").add_trial(
        optuna.create_trial(value=1.0)
    )
    with pytest.raises(ValueError, match="nacre did not make it"):
        run_tuning(replace(search, study="theirs"))


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
def test_bad_input_is_named_before_anything_is_run(search, monkeypatch, change, message):
    monkeypatch.setattr(tune, "try_recipe", None)
    with pytest.raises(ValueError, match=message):
        run_tuning(replace(search, **change))


# Optuna's own heartbeat thread may meet the damaged file first, and says so in its way.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_storage_that_is_lost_in_the_midst_of_a_search_is_named(search, monkeypatch):
    def spoil(context, recipe, on_round):
        (context.out / "study.db").write_bytes(b"no longer a database" * 1000)
        return Tried(1.0, 1)

    monkeypatch.setattr(tune, "try_recipe", spoil)
    with pytest.raises(ValueError, match=r"storage sqlite:///.*study.db was lost: .*; start again to go on"):
        run_tuning(search)


def test_a_damaged_study_file_is_named(search):
    search.out.mkdir()
    (search.out / "study.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(ValueError, match=r"storage sqlite:///.*study.db cannot be used: .*not a database"):
        run_tuning(search)


@pytest.mark.slow
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
