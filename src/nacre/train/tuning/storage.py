"""Studies of Optuna: where their trials are kept, and whether they belong to this search. Needs optuna."""

import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any

import optuna
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

_BEAT, _GRACE = 15, 60  # seconds between heartbeats of a trial, and without one until it counts as interrupted
_CONNECT = 10  # seconds that a server has to answer
_OPENINGS = 3  # attempts to make the tables of an empty database, which others may be making, too
_MARK = "nacre"  # what a study searches, among its user attributes
ERROR, STOPPED = "error", "stopped"  # user attributes of a trial: why it failed, whether it was pruned
STARTUP = 10  # random trials before the first Gaussian process, at most
LOST = (SQLAlchemyError, optuna.exceptions.StorageInternalError)  # what a storage raises that does not answer


@contextmanager
def quietly() -> Iterator[None]:
    """Without Optuna's warnings that heartbeats, importance and some samplers are experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def open_study(url: str, name: str, mark: dict[str, Any], sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """The study of a name, new or as it was left.

    Args:
        url: Where trials are kept, as SQLAlchemy writes it: "sqlite:///study.db", "postgresql://user@host/name".
        name: Name of the study.
        mark: What is searched, plain data.
        sampler: Proposes trials.

    Raises:
        ValueError: If the storage cannot be reached, or the study was made for another search.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # A trial's first rounds are of little use for comparison, and so are the first trials.
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2)
    study = optuna.create_study(
        storage=_storage(url), study_name=name, sampler=sampler, pruner=pruner, load_if_exists=True
    )
    is_new = not study.trials  # asked first: a process marks the study before it adds a trial
    found = study.user_attrs.get(_MARK)
    if found is None and is_new:
        study.set_user_attr(_MARK, mark)
    elif found != json.loads(json.dumps(mark)):
        raise ValueError(
            f"study {name!r} in {shown(url)} was made for another search: {_difference(found, mark)}; give "
            "another --study, or another --out"
        )
    return study


def _storage(url: str) -> RDBStorage:
    """The storage, with a heartbeat for each trial."""
    try:
        # Many processes that send a query once in minutes need no connection in between.
        server = {"poolclass": NullPool, "connect_args": {"connect_timeout": _CONNECT}}
        options = server if make_url(url).get_backend_name() == "postgresql" else {}
        with quietly():
            for _ in range(_OPENINGS - 1):
                with suppress(IntegrityError):  # another process made the same tables at the same moment
                    return RDBStorage(url, options, heartbeat_interval=_BEAT, grace_period=_GRACE)
                time.sleep(1)
            return RDBStorage(url, options, heartbeat_interval=_BEAT, grace_period=_GRACE)
    except ArgumentError:
        raise ValueError(
            f"storage must be a URL such as sqlite:///study.db or postgresql://user@host/name, got {url!r}"
        ) from None
    except ImportError as error:
        raise ValueError(
            f"storage {shown(url)} needs a driver that is not installed ({error.__cause__ or error}); for "
            "PostgreSQL: pip install 'psycopg[binary]'"
        ) from None
    except (SQLAlchemyError, RuntimeError) as error:  # no such server, no database, or one of another Optuna
        raise ValueError(f"storage {shown(url)} cannot be used: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """What an error says, without the statement and the stack that databases add."""
    return str(error.__cause__ or error).splitlines()[0]


def shown(url: str) -> str:
    """A storage URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


def _difference(found: dict[str, Any] | None, mark: dict[str, Any]) -> str:
    """The first difference of two searches, in words."""
    if found is None:
        return "nacre did not make it"
    for key, value in mark.items():
        there = found.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            changed = [name for name in {**there, **value} if there.get(name) != value.get(name)]
            if changed:
                name = changed[0]
                return f"{name} was {there.get(name, 'not searched')}, is {value.get(name, 'not searched')}"
        elif there != value:
            return f"{key} was {there}, is {value}"
    return "it searches something else"


def propose(seed: int, study_size: int, trials: int, *, shared: bool) -> optuna.samplers.GPSampler:
    """Gaussian process and expected improvement, after some random trials.

    Args:
        seed: Seed of the search.
        study_size: Trials that are there: a resumed study must not draw the same random trials again.
        trials: Trials that are wanted in all; a third of them, at most ten, are random.
        shared: Whether other processes may work on the same study: each has a seed of its own then.
    """
    worker = os.getpid() if shared else 0
    with quietly():
        return optuna.samplers.GPSampler(
            seed=(seed * 1_000_003 + study_size * 7919 + worker) % 2**32,
            n_startup_trials=max(3, min(STARTUP, trials // 3)),
            warn_independent_sampling=False,
        )


def adopt(study: optuna.Study) -> None:
    """Queue interrupted trials again, with the same values: their checkpoints may be there."""
    with quietly():
        optuna.storages.fail_stale_trials(study)
    trials = study.get_trials(deepcopy=False)
    known = {_key(t.params) for t in trials if outcome(t) is not TrialOutcome.INTERRUPTED}
    known |= {_key(t.system_attrs.get("fixed_params", {})) for t in trials if t.state is TrialState.WAITING}
    for trial in trials:
        if outcome(trial) is TrialOutcome.INTERRUPTED and trial.params and _key(trial.params) not in known:
            study.enqueue_trial(trial.params)
            known.add(_key(trial.params))


def _key(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


class TrialOutcome(StrEnum):
    """What became of a trial."""

    FINISHED = "finished"
    PRUNED = "pruned"  # complete for Optuna, with its best loss: the Gaussian process avoids these values
    FAILED = "failed"  # complete as well, with the worst loss known, if one is known
    INTERRUPTED = "interrupted"
    OPEN = "open"  # at work, or waiting


def outcome(trial: FrozenTrial) -> TrialOutcome:
    """What became of a trial."""
    if ERROR in trial.user_attrs and trial.state.is_finished():
        return TrialOutcome.FAILED
    if trial.state is TrialState.COMPLETE:
        return TrialOutcome.PRUNED if STOPPED in trial.user_attrs else TrialOutcome.FINISHED
    return TrialOutcome.INTERRUPTED if trial.state is TrialState.FAIL else TrialOutcome.OPEN


def finished(study: optuna.Study) -> list[FrozenTrial]:
    """Trials that trained to their end, in order."""
    return [t for t in study.get_trials(deepcopy=False) if outcome(t) is TrialOutcome.FINISHED]


def loss_of(trial: FrozenTrial) -> float:
    """The loss of a trial that has one."""
    assert trial.value is not None
    return trial.value
