"""`nacre tune`: Bayesian optimisation of a recipe for a model, resumable, on one machine or many. Needs optuna."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import FrozenTrial
from rich.console import Console
from rich.progress import Progress

from nacre._util.checks import whole
from nacre._util.locks import LockedElsewhere
from nacre._util.progress import bars
from nacre.models._registry import model_folder, model_info
from nacre.models._search_space import Choice, Dimension, Real
from nacre.tasks.recipe import Profile, load_recipe
from nacre.tasks.task import load_task
from nacre.train.tuning import storage
from nacre.train.tuning.report import introduce, write_report
from nacre.train.tuning.space import recipe_at, space_of
from nacre.train.tuning.storage import ERROR, TrialOutcome, loss_of, outcome
from nacre.train.tuning.trial import Pruned, SearchContext, try_recipe

_FAILS = (ValueError, RuntimeError, MemoryError, LockedElsewhere)  # of one trial; the search goes on


@dataclass(frozen=True)
class Tune:
    """What to search."""

    task: str  # or a recipe file
    model: str = "nac"
    trials: int = 30  # in all, those of earlier sessions and other machines included
    profile: Profile = Profile.STANDARD
    folds: int = 1  # how many a recipe is judged on
    only: Sequence[str] = ()  # names of what to search; empty for all
    seed: int = 0  # of weights and search
    out: Path | None = None  # None for tuning/TASK/MODEL
    storage: str | None = None  # URL where Optuna keeps trials; None for a file in `out`
    study: str | None = None  # its name in the storage; None for one made of task, model and profile
    data_dir: Path | None = None


def run_tuning(tune: Tune) -> optuna.Study:
    """Search until the study has its trials; print and write a report and the best recipe.

    Every trial is judged by its validation loss; the test part of no fold is looked at.

    Raises:
        ValueError: If something makes no sense, the storage cannot be used, or no trial gave a value.
    """
    whole("trials", tune.trials, 1)
    model_info(tune.model)  # refuses unknown names
    recipe = load_recipe(tune.task).at(tune.profile)
    task = load_task(recipe, tune.data_dir)
    space = space_of(recipe, tune.model, tune.only, convolutions=task.data.query_only is None)
    if whole("folds", tune.folds, 1) > len(task.splits):
        raise ValueError(f"folds must be at most {len(task.splits)} for {recipe.name}, got {tune.folds}")
    out = tune.out or Path("tuning") / recipe.name / model_folder(tune.model)
    out.mkdir(parents=True, exist_ok=True)
    context = SearchContext(task, tune.model, tune.profile, tune.folds, tune.seed, out, space)
    url = tune.storage or f"sqlite:///{out / 'study.db'}"
    console = Console()
    try:
        study = _begin(tune, context, url, console)
        try:
            _search(study, context, tune.trials, console)
        finally:  # also if the search was interrupted
            write_report(study, context, console)
    except storage.LOST as error:
        why = storage.first_line(error)
        raise ValueError(f"storage {storage.shown(url)} was lost: {why}; start again to go on") from None
    errors = [t.user_attrs[ERROR] for t in study.get_trials(deepcopy=False) if ERROR in t.user_attrs]
    if errors and not storage.finished(study):
        raise ValueError(f"no trial gave a value; {len(errors)} failed, the last with: {errors[-1]}")
    return study


def _begin(tune: Tune, context: SearchContext, url: str, console: Console) -> optuna.Study:
    """The study, new or resumed."""
    recipe, shared = context.task.recipe, tune.storage is not None
    name = tune.study or f"{recipe.name}-{tune.model}-{tune.profile}"
    mark = context.describe() | {"recipe": recipe.digest, "data": context.task.data.digest}
    mark["space"] = mark.pop("space")  # last: the first difference of two searches is what a message names
    study = storage.open_study(url, name, mark, storage.propose(tune.seed, 0, tune.trials, shared=shared))
    introduce(context, f"{name} in {storage.shown(url)}", console)
    if study.trials:
        study.sampler = storage.propose(tune.seed, len(study.trials), tune.trials, shared=shared)
    else:
        study.enqueue_trial(context.start)
    return study


def _search(study: optuna.Study, context: SearchContext, trials: int, console: Console) -> None:
    with bars(console) as progress:
        bar = progress.add_task("trials", total=trials, loss="")
        while True:
            storage.adopt(study)
            found = study.get_trials(deepcopy=False)
            over = sum(outcome(trial) not in (TrialOutcome.OPEN, TrialOutcome.INTERRUPTED) for trial in found)
            running = sum(trial.state is optuna.trial.TrialState.RUNNING for trial in found)
            progress.update(bar, completed=over)
            if over + running >= trials:
                break
            objective = _Objective(study, context, progress)
            with storage.quietly():
                study.optimize(objective, 1, catch=_NoLoss, callbacks=[lambda _, trial: _tell(trial, console)])
    if running:
        console.print(f"trials still at work in other processes: {running}; run again for a report with them")


def _tell(trial: FrozenTrial, console: Console) -> None:
    """Print the outcome of a trial."""
    text = str(outcome(trial))
    if outcome(trial) is TrialOutcome.FINISHED:
        text = f"[bold]validation loss {loss_of(trial):.4g}[/]"
    elif outcome(trial) is TrialOutcome.FAILED:
        text = f"[red]failed[/]: {trial.user_attrs[ERROR]}"
    seconds = trial.duration.total_seconds() if trial.duration else 0.0
    console.print(f"trial {trial.number}: {text}, {seconds:.0f} s", highlight=False)


@dataclass(frozen=True)
class _Objective:
    """Optuna's objective: from a trial's values to its loss.

    Pruned and failed trials get a loss, too. The Gaussian process sees only trials that have one, and would
    propose the same values again and again.
    """

    study: optuna.Study
    context: SearchContext
    progress: Progress

    def __call__(self, trial: optuna.Trial) -> float:
        point = {name: _suggest(trial, name, dimension) for name, dimension in self.context.space.items()}
        recipe = recipe_at(self.context.task.recipe, self.context.model, point)
        bar = self.progress.add_task(f"trial {trial.number}", total=None, loss="")
        losses: list[float] = []

        def on_round(number: int, loss: float) -> bool:
            losses.append(loss)
            self.progress.update(bar, completed=number, loss=f"round {number}, loss {loss:.4g}")
            trial.report(loss, number)
            return trial.should_prune()

        try:
            tried = try_recipe(self.context, recipe, on_round)
        except Pruned:
            trial.set_user_attr(storage.STOPPED, True)
            return self._known([loss for loss in losses if math.isfinite(loss)], min)
        except _FAILS as error:
            trial.set_user_attr(ERROR, str(error) or type(error).__name__)
            return self._known([], max)
        finally:
            self.progress.remove_task(bar)
        trial.set_user_attr("parameters", tried.parameters)
        return tried.value

    def _known(self, losses: list[float], of: Callable[[list[float]], float]) -> float:
        """One of these losses, or of those of other trials; without any, the trial has none, either."""
        done = self.study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
        losses = losses or [loss_of(trial) for trial in done]
        if not losses:
            raise _NoLoss
        return of(losses)


class _NoLoss(Exception):
    """No trial has a loss yet that a failed one could be given."""


def _suggest(trial: optuna.Trial, name: str, dimension: Dimension) -> float | int | str | bool:
    if isinstance(dimension, Choice):
        return trial.suggest_categorical(name, dimension.options)  # pyright: ignore[reportReturnType]
    if isinstance(dimension, Real):
        return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)
    return trial.suggest_int(name, dimension.low, dimension.high, step=dimension.step, log=dimension.log)
