"""Grids of made-up runs, as `nacre train` leaves them."""

import json
from pathlib import Path

import numpy as np

SPACING = 0.25  # hours


def fields(model="nac", fold=0, seed=0, value=0.03, task="ettm1", **changes):
    """What a result file holds; `changes` replace fields, and those of `budget` and `data` by their own names."""
    budget = {"profile": "quick", "steps": 300, "batch_size": 64, "steps_taken": 0, "best_step": 280}
    budget["stopped_early"] = False
    data = {"name": task, "form": "official", "digest": "d" * 64, "files": {}, "notes": []}
    data |= {"train": 4000, "valid": 1000, "test": 1000}
    for part in (budget, data):
        part |= {name: changes.pop(name) for name in list(changes) if name in part}
    metric = changes.pop("metric", "mse")
    return {
        **{"format": 1, "task": task, "column": task, "model": model, "fold": fold, "seed": seed, "folds": 5},
        **{"kind": "forecasting", "metric": metric, "better": "lower", "value": value},
        **{"metrics": {metric: value}, "valid": {metric: value}, "parameters": 33000, "seconds": 61.2},
        **{"budget": budget, "data": data, "split": f"split{fold}", "recipe": "c" * 64},
        **{"confusion": None, "classes": [], "targets": ["+1"], "provenance": {}, "control": False},
        **changes,
    }


def write_run(root, model="nac", fold=0, seed=0, value=0.03, **changes) -> Path:
    """One run; returns its directory."""
    data = fields(model, fold, seed, value, **changes)
    directory = Path(root) / data["task"] / model / f"fold{fold}-seed{seed}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "result.json").write_text(json.dumps(data))
    return directory


def write_folds(root, model, values, **changes):
    """One run for each value, on folds 0, 1, ...; None leaves a fold out."""
    runs = enumerate(values)
    return [write_run(root, model, fold, value=value, **changes) for fold, value in runs if value is not None]


def write_log(directory, steps=(50, 100, 150), train=(1.0, 0.5, 0.3), valid=(1.1, 0.6, 0.4)):
    """A training log."""
    rows = [f"{s},{a},{b},{b}" for s, a, b in zip(steps, train, valid, strict=True)]
    (directory / "log.csv").write_text("\n".join(["step,train_loss,valid_loss,valid_mse", *rows]) + "\n")


def write_predictions(directory, shift=0.0, windows=120, horizon=24, first=0):
    """Windows of a slow wave, and answers that are off by `shift`."""
    start = np.arange(first, first + windows)
    truth = 10 + 5 * np.sin((start[:, None] + np.arange(horizon)) / 12)
    arrays = {
        "prediction": truth + shift,
        "truth": truth,
        "start": start,
        "step": np.float64(SPACING),
        "unit": "hours",
    }
    np.savez(directory / "predictions.npz", **arrays)
