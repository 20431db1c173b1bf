"""Estimate what the whole table of the standard profile costs, from a few training steps of each model and task.

Writes results/standard-estimate.json: python tools/estimate_grid.py [--model NAME ...] [--task NAME ...].
One thread, fold 0. What was measured of the same commit stays in nacre's cache: an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from measured import provenance, write_result
from torch import Tensor

import nacre
from nacre._util.files import cache_folder, write_atomic
from nacre._util.text import json_text
from nacre.data.batches import POOL, Augmented, Indexed, Rounds, steps_of_epoch
from nacre.data.files.catalogue import CATALOG
from nacre.data.files.store import find
from nacre.tasks.augment import augmentation_of
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Profile, Recipe, list_recipes, load_recipe
from nacre.tasks.task import Task, load_task
from nacre.train.fit import Budget, budget_of, looked_at
from nacre.train.lightning_module import Training

FILE = "standard-estimate.json"
TASKS = [name for name in list_recipes() if name != "event-mnist-11"]  # no column of the table
LIMIT = 2.0  # seconds that the steps of a cell are timed for; a step that takes longer is the only one
PLACES = (3, 1, 5)  # sixths: of the batches in order of length, the middle one first


def load(recipe: Recipe, drives: Path | None) -> Task | None:
    """The task, or None if its data is not on this machine."""
    name = recipe.data["name"].removesuffix("-gaps")
    if name in CATALOG and CATALOG[name].forms and find(name) is None:
        return None
    try:
        return load_task(recipe, drives if name == "carracing" else None)
    except FileNotFoundError:
        return None


def typical_batches(task: Task) -> list[Tensor]:
    """Indices of three training batches: one of middle length, a short one and a long one."""
    train, size = task.splits[0].train, task.recipe.training.batch_size
    length = task.data.length
    rounds = Rounds(length[train], train, size, 1, 0)
    batches = [rounds.batch_of(step) for step in range(min(POOL, steps_of_epoch(len(train), size)))]
    batches.sort(key=lambda batch: int(length[batch].sum()))
    return [batches[len(batches) * place // 6] for place in PLACES]


def seconds_of(action: Callable[[Tensor], object], batches: list[Tensor]) -> list[float]:
    """How long an action takes on these batches, after a first time on the first one.

    It ends early after `LIMIT`. Where the first time alone takes longer, that is all there is.
    """
    first = timed(action, batches[0])
    if first > LIMIT:
        return [first]
    times: list[float] = []
    for batch in batches:
        times.append(timed(action, batch))
        if sum(times) > LIMIT:
            break
    return times


def timed(action: Callable[[Tensor], object], batch: Tensor) -> float:
    """Seconds that an action takes on a batch."""
    start = time.perf_counter()
    action(batch)
    return time.perf_counter() - start


def actions(
    task: Task, network: TaskNetwork, steps: int
) -> tuple[Callable[[Tensor], object], Callable[[Tensor], object]]:
    """A training step as `fit` takes it, and a forward pass as in scoring; both get their batch, too."""
    recipe, data = task.recipe.training, task.data
    optimizer: Any = Training(network, recipe, 0, steps).configure_optimizers()["optimizer"]
    augmentation = augmentation_of(recipe.augment, data) if recipe.augment else None
    source = Indexed(data) if augmentation is None else Augmented(data, augmentation, 0)

    def train(index: Tensor) -> None:
        batch = source[index]
        optimizer.zero_grad()
        loss = network.loss(network(batch.x, batch.time, batch.key_padding_mask), batch.y)
        aux: Tensor | None = network.layer.aux_loss  # pyright: ignore[reportAssignmentType]
        (loss if aux is None else loss + aux).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
        optimizer.step()

    @torch.no_grad()
    def score(index: Tensor) -> None:
        batch = data.batch(index)
        network(batch.x, batch.time, batch.key_padding_mask)

    return train, score


def scored_sequences(task: Task, budget: Budget) -> int:
    """Sequences that a cell scores: those of validation in every round and at the end, and the test part."""
    split = task.splits[0]
    valid = len(looked_at(split.valid, budget))
    other = len(split.transfer) if task.data.metrics is not None else 0
    return (budget.rounds + 1) * valid + len(split.test) + other


def measure(task: Task, model: str) -> dict[str, Any]:
    """What a cell costs at most: that of all its steps, and of all that it scores."""
    budget = budget_of(task.recipe.training, Profile.STANDARD, len(task.splits[0].train))
    steps, scored = budget.rounds * budget.steps, scored_sequences(task, budget)
    batches = typical_batches(task)
    network = task.network(model, 0, 0)
    train, score = actions(task, network, steps)
    times = seconds_of(train, batches)
    step = statistics.mean(times)
    network.eval()
    sequence = timed(score, batches[0]) / len(batches[0])
    return {
        "task": task.recipe.name,
        "model": model,
        "folds": len(task.splits),
        "steps": steps,
        "scored": scored,
        "timed": len(times),
        "step_seconds": round(step, 5),
        "sequence_seconds": round(sequence, 7),
        "cell_seconds": round(steps * step + scored * sequence, 1),
    }


def measured_before(origin: dict[str, Any]) -> list[dict[str, Any]]:
    """What an earlier run measured of this commit on this machine."""
    path = cache_folder() / FILE
    if not path.is_file():
        return []
    found = json.loads(path.read_bytes())
    return found["results"] if found["provenance"] == origin else []


def missing_cells(
    tasks: list[str], models: list[str], done: list[dict[str, Any]]
) -> Iterator[tuple[str, list[str]]]:
    """By task, the models that are not measured yet."""
    known = {(row["task"], row["model"]) for row in done}
    for task in tasks:
        todo = [model for model in models if (task, model) not in known]
        if todo:
            yield task, todo


def main(arguments: list[str] | None = None) -> None:
    """Measure what is not measured yet, and write.

    The file under results/ comes last: until then the checkout stays as clean as it was.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", action="append", choices=nacre.list_models(), help="only this one; all, if none"
    )
    parser.add_argument("--task", action="append", choices=TASKS, help="only this one; all, if none")
    parser.add_argument("--anew", action="store_true", help="measure all, whatever was measured before")
    parser.add_argument("--drives", type=Path, help="folder of recorded drives, for carracing")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    origin = provenance()
    rows = [] if options.anew else measured_before(origin)
    cache_folder().mkdir(parents=True, exist_ok=True)
    for name, models in missing_cells(options.task or TASKS, options.model or nacre.list_models(), rows):
        task = load(load_recipe(name).at(Profile.STANDARD), options.drives)
        if task is None:
            sys.stdout.write(f"{name}: no data, left out\n")
            continue
        for model in models:
            rows.append(measure(task, model))
            sys.stdout.write(f"{name}, {model}: {rows[-1]['cell_seconds']:,.0f} s\n")
            sys.stdout.flush()
            write_atomic(cache_folder() / FILE, json_text({"provenance": origin, "results": rows}).encode())
    write_result(FILE, {"provenance": origin, "profile": str(Profile.STANDARD), "results": rows})


if __name__ == "__main__":
    main()
