"""Errors in the paper's units are those of values that were scaled as the paper scales them."""

import os

import numpy as np
import pytest
import torch

from nacre.tasks.paper_units import paper_metrics
from nacre.tasks.recipe import Profile, load_recipe
from nacre.tasks.task import load_task
from nacre.train.run_cell import run_cell
from support.pages import DOCS, text_of
from support.train import cell, drive, forecasts, result_of, task_of, waves


def test_forecasts_are_measured_on_a_scale_from_0_to_1():
    task = forecasts()
    data, split = task.data, task.splits[0]
    known = torch.cat([split.train, split.valid])
    prediction = torch.randn(len(split.test), data.outputs, generator=torch.Generator().manual_seed(0))
    truth = data.y[split.test]
    found = paper_metrics(data, known, prediction, truth)
    windows = [(int(data.start[i]), int(data.length[i])) for i in known]
    seen = np.concatenate([data.values[s : s + n, data.target_column].double().numpy() for s, n in windows])
    scaled = [(x.double().numpy() - seen.min()) / (seen.max() - seen.min()) for x in (prediction, truth)]
    assert found["minmax mse"] == pytest.approx(((scaled[0] - scaled[1]) ** 2).mean(), rel=1e-9)
    assert found["raw mse"] == pytest.approx((prediction - truth).square().mean().item(), rel=1e-6)


def test_results_hold_them_and_classes_have_none(tmp_path):
    names = {"raw mse", "minmax mse"}
    for task, wanted in ((forecasts(), names), (task_of(drive()), {"raw mse"}), (waves(), set())):
        one = cell(task, tmp_path, "majority" if not wanted else "mean" if wanted != names else "persistence")
        run_cell(one)
        metrics = result_of(one.directory)["metrics"]
        assert names & metrics.keys() == wanted
        if wanted:
            assert metrics["raw mse"] == pytest.approx(metrics["raw rmse"] ** 2)


@pytest.mark.skipif("NACRE_DATA" not in os.environ, reason="needs real data in $NACRE_DATA")
def test_persistence_stands_where_the_page_says(tmp_path):
    page = text_of(DOCS / "harness.md")
    for task, place in (("ettm1", "last value, has {:.2g} on ETTm1"), ("jena", " and {:.2g} on Jena")):
        one = cell(load_task(load_recipe(task).at(Profile.STANDARD)), tmp_path, "persistence")
        run_cell(one)
        assert place.format(result_of(one.directory)["metrics"]["minmax mse"]) in page
