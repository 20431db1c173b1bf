"""Controls on data of which values are missing: fitted on what was observed, and on nothing else."""

import dataclasses
import math

import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.missing import Missing
from nacre.tasks.controls import controls_for
from nacre.tasks.controls.observed import summaries_of_observed
from nacre.tasks.metrics import answers_of
from support.controls import example, fitted


def holes(kind, share=0.6):
    data = example(kind)
    gone = torch.rand(data.values.shape, generator=torch.Generator().manual_seed(3)) < share
    values = data.values.masked_fill(gone, math.nan)
    y = data.y
    if kind is Kind.FORECASTING:
        y = y.masked_fill(torch.rand(y.shape, generator=torch.Generator().manual_seed(4)) < 0.3, math.nan)
    return dataclasses.replace(data, values=values, y=y, missing=Missing.FLAGS)


@pytest.mark.parametrize("kind", list(Kind))
def test_leak_every_control_takes_missing_values_and_sees_training_rows_only(kind):
    data, train = holes(kind), torch.arange(30)
    test = torch.arange(45, 60)  # windows of a forecast overlap before
    elsewhere = torch.ones(len(data.values), dtype=torch.bool)
    elsewhere[data.rows(train)], elsewhere[data.rows(test)] = False, False
    poisoned = data.values.clone()
    poisoned[elsewhere] = 1e9
    for name in controls_for(data):
        found = fitted(name, data, train).predict(data, test)
        assert found.isfinite().all(), name
        assert len(found) == len(answers_of(data, test)), name
        again = fitted(name, dataclasses.replace(data, values=poisoned), train).predict(data, test)
        assert torch.equal(again, found), name


def test_summaries_are_those_of_the_observed_values():
    data = holes(Kind.REGRESSION)
    found = summaries_of_observed(data, torch.arange(len(data))).unflatten(1, (5, 3))
    for i in range(len(data)):
        for column in range(3):
            values = [v for v in data.batch(torch.tensor([i])).x[0, :, column].double().tolist() if v == v]
            assert found[i, 4, column] == len(values)
            if values:
                mean = sum(values) / len(values)
                spread = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
                wanted = torch.tensor([mean, spread, values[0], values[-1]]).double()
                torch.testing.assert_close(found[i, :4, column], wanted)
            else:
                assert found[i, :4, column].isnan().all()


def test_a_forecast_of_which_numbers_are_unknown_is_fitted_for_each_number():
    data = holes(Kind.FORECASTING, share=0.0)
    whole = dataclasses.replace(data, y=torch.where(data.y.isnan(), torch.zeros(()), data.y))
    train, test = torch.arange(150), torch.arange(160, 170)
    found = fitted("linear", data, train).predict(data, test)
    other = whole.y.clone()
    other[:, 0] = data.y[:, 0].nan_to_num(0.0)
    only = train[~data.y[train, 0].isnan()]
    alone = fitted("linear", dataclasses.replace(whole, y=other), only).predict(whole, test)
    asked = ~data.y[test].isnan().all(1)
    torch.testing.assert_close(found[:, 0], alone[asked, 0], rtol=1e-4, atol=1e-4)
