"""`nacre tune`: Bayesian optimisation of a recipe for a model, resumable, on one machine or many. Needs optuna."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial
from rich.console import Console
from rich.progress import Progress

from nacre._util.checks import whole
from nacre._util.locks import LockedElsewhere
from nacre._util.progress import bars
from nacre.models._registry import model_info
from nacre.models._search_space import Choice, Dimension, Real, Space
from nacre.tasks.recipe import Profile, load_recipe
from nacre.tasks.task import load_task
from nacre.train.tuning.report import introduce, write_report
from nacre.train.tuning.space import recipe_at, space_of, start_of
from nacre.train.tuning.storage import (
    ERROR,
    LOST,
    STOPPED,
    Outcome,
    adopt,
    finished,
    first_line,
    loss_of,
    open_study,
    outcome,
    propose,
    quietly,
    shown,
)
from nacre.train.tuning.trial import Pruned, Setting, try_recipe

_FAILS = (ValueError, RuntimeError, MemoryError, LockedElsewhere)  # of one trial; the search goes on


@dataclass(frozen=True)
class Tune:
    """What to search.

    Attributes:
        task: Name of a task, or a recipe file.
        model: Name of the model.
        trials: Trials in all, those of earlier sessions and other machines included.
        profile: How much each trial trains.
        folds: How many folds a recipe is judged on.
        only: Names of what to search; empty for all.
        seed: Seed of weights and search.
        out: Where results go; None for `tuning/TASK/MODEL`.
        storage: URL where Optuna keeps trials; None for a file in `out`.
        study: Name of the study there; None for one made of task, model and profile.
        data_dir: Where data files lie.
    """

    task: str
    model: str = "nac"
    trials: int = 30
    profile: Profile = Profile.PAPER
    folds: int = 1
    only: Sequence[str] = ()
    seed: int = 0
    out: Path | None = None
    storage: str | None = None
    study: str | None = None
    data_dir: Path | None = None


def run_tuning(tune: Tune) -> optuna.Study:
    """Search until the study has its trials; print and write a report and the best recipe.

    Every trial is judged by its validation loss; the test part of no fold is looked at.

    Raises:
        ValueError: If something makes no sense, the storage cannot be used, or no trial gave a value.
    """
    whole("trials", tune.trials, 1)
    model_info(tune.model)  # refuses unknown names
    recipe = load_recipe(tune.task)
    space = space_of(recipe, tune.model, tune.only)
    task = load_task(recipe, tune.data_dir)
    if whole("folds", tune.folds, 1) > len(task.splits):
        raise ValueError(f"folds must be at most {len(task.splits)} for {recipe.name}, got {tune.folds}")
    out = tune.out or Path("tuning") / recipe.name / tune.model
    out.mkdir(parents=True, exist_ok=True)
    setting = Setting(task, tune.model, tune.profile, tune.folds, tune.seed, out)
    url = tune.storage or f"sqlite:///{out / 'study.db'}"
    console = Console()
    try:
        study = _begin(tune, setting, space, url, console)
        try:
            _search(study, setting, space, tune.trials, console)
        finally:  # also of a search that was interrupted
            write_report(study, setting, space, console)
    except LOST as error:
        raise ValueError(f"storage {shown(url)} was lost: {first_line(error)}; start again to go on") from None
    errors = [t.user_attrs[ERROR] for t in study.get_trials(deepcopy=False) if ERROR in t.user_attrs]
    if errors and not finished(study):
        raise ValueError(f"no trial gave a value; {len(errors)} failed, the last with: {errors[-1]}")
    return study


def _begin(tune: Tune, setting: Setting, space: Space, url: str, console: Console) -> optuna.Study:
    """The study, new or as it was left, ready to go on."""
    recipe, shared = setting.task.recipe, tune.storage is not None
    name = tune.study or f"{recipe.name}-{tune.model}-{tune.profile}"
    study = open_study(url, name, _mark(setting, space), propose(tune.seed, 0, tune.trials, shared=shared))
    introduce(setting, space, f"{name} in {shown(url)}", console)
    if study.trials:
        study.sampler = propose(tune.seed, len(study.trials), tune.trials, shared=shared)
    else:
        study.enqueue_trial(start_of(recipe, tune.model, space))
    return study


def _mark(setting: Setting, space: Space) -> dict[str, Any]:
    """What two sessions of one search have in common."""
    return {
        "task": setting.task.recipe.name,
        "model": setting.model,
        "profile": str(setting.profile),
        "folds": setting.folds,
        "seed": setting.seed,
        "recipe": setting.task.recipe.digest,
        "data": setting.task.data.digest,
        "space": {name: str(dimension) for name, dimension in space.items()},
    }


def _search(study: optuna.Study, setting: Setting, space: Space, trials: int, console: Console) -> None:
    with bars(console) as progress:
        bar = progress.add_task("trials", total=trials, loss="")
        while True:
            adopt(study)
            found = study.get_trials(deepcopy=False)
            over = sum(outcome(trial) not in (Outcome.OPEN, Outcome.INTERRUPTED) for trial in found)
            running = sum(trial.state is optuna.trial.TrialState.RUNNING for trial in found)
            progress.update(bar, completed=over)
            if over + running >= trials:
                break
            objective = _Objective(study, setting, space, progress)
            with quietly():
                study.optimize(objective, 1, catch=_NoLoss, callbacks=[lambda _, trial: _tell(trial, console)])
    if running:
        console.print(f"trials still at work in other processes: {running}; run again for a report with them")


def _tell(trial: FrozenTrial, console: Console) -> None:
    """Print what became of a trial."""
    text = str(outcome(trial))
    if outcome(trial) is Outcome.FINISHED:
        text = f"[bold]validation loss {loss_of(trial):.4g}[/]"
    elif outcome(trial) is Outcome.FAILED:
        text = f"[red]failed[/]: {trial.user_attrs[ERROR]}"
    seconds = trial.duration.total_seconds() if trial.duration else 0.0
    console.print(f"trial {trial.number}: {text}, {seconds:.0f} s", highlight=False)


@dataclass(frozen=True)
class _Objective:
    """What Optuna calls: a trial's values in, its loss out.

    Pruned and failed trials get a loss, too. The Gaussian process sees only trials that have one, and would
    propose the same values again and again.
    """

    study: optuna.Study
    setting: Setting
    space: Space
    progress: Progress

    def __call__(self, trial: optuna.Trial) -> float:
        point = {name: _suggest(trial, name, dimension) for name, dimension in self.space.items()}
        recipe = recipe_at(self.setting.task.recipe, self.setting.model, point)
        bar = self.progress.add_task(f"trial {trial.number}", total=None, loss="")
        losses: list[float] = []

        def on_round(number: int, loss: float) -> bool:
            losses.append(loss)
            self.progress.update(bar, completed=number, loss=f"round {number}, loss {loss:.4g}")
            trial.report(loss, number)
            return trial.should_prune()

        try:
            tried = try_recipe(self.setting, recipe, on_round)
        except Pruned:
            trial.set_user_attr(STOPPED, True)
            return self._known([loss for loss in losses if math.isfinite(loss)], min)
        except _FAILS as error:
            trial.set_user_attr(ERROR, str(error) or type(error).__name__)
            return self._known([], max)
        finally:
            self.progress.remove_task(bar)
        trial.set_user_attr("parameters", tried.parameters)
        return tried.value

    def _known(self, losses: list[float], of: Callable[[list[float]], float]) -> float:
        """One of these losses, or of all that other trials had; without any, the trial has none, either."""
        done = self.study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
        losses = losses or [loss_of(trial) for trial in done]
        if not losses:
            raise _NoLoss
        return of(losses)


class _NoLoss(Exception):
    """Nothing is known about how bad a loss can be."""


def _suggest(trial: optuna.Trial, name: str, dimension: Dimension) -> float | int | str | bool:
    if isinstance(dimension, Choice):
        return trial.suggest_categorical(name, dimension.options)  # pyright: ignore[reportReturnType]
    if isinstance(dimension, Real):
        return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)
    return trial.suggest_int(name, dimension.low, dimension.high, step=dimension.step, log=dimension.log)
