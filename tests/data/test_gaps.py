"""Gaps in a series: what is seen, what is asked, what is guessed, and which windows belong together."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nacre.data.sets.gaps import gaps, load_ettm1_gaps, load_jena_gaps
from nacre.data.sets.series import Series, forecasting
from nacre.data.splits import SplitBy, make_splits
from nacre.tasks.controls import controls_for, create_control
from nacre.tasks.metrics import answers_of
from support.datasets import HOUR, MADE, hourly

REAL = os.environ.get("NACRE_DATA")


def cut(series, **options):
    settings = {"target": "b", "hours": 24, "seen": 0.25, "every": 12, "seed": 0, **options}
    return gaps(series, MADE, **settings)


def test_rows_are_seen_or_asked():
    series = hourly()
    data = cut(series)
    assert data.features == ("a", "b", "seen", "guess")
    x, y = data.values.view(-1, 24, 4), data.y.view(-1, 24)
    seen = x[..., 2] == 1
    assert (seen.sum(1) == 6).all()
    assert (x[~seen][:, :3] == 0).all()
    assert torch.equal(y.isnan(), seen)
    row = (data.time / 1.0).long().view(-1, 24)  # hours since the first row
    truth = torch.from_numpy(series.values)[row]
    assert torch.equal(x[seen][:, :2], truth[seen])
    assert torch.equal(y[~seen], truth[..., 1][~seen])
    for one in range(len(x)):
        known = seen[one].nonzero().squeeze(1)
        want = np.interp(np.arange(24), known, truth[one, known, 1])
        np.testing.assert_allclose(x[one, :, 3], want, rtol=1e-6, atol=1e-6)


def test_leak_what_a_window_does_not_see_is_in_its_answers_only():
    series = hourly()
    data = cut(series)
    for one in range(0, len(data), 7):  # windows overlap: a row may be seen by another one
        rows = slice(24 * one, 24 * one + 24)
        hidden = data.time[rows][data.values[rows, 2] == 0].long().numpy()  # hours are rows of the series
        values = series.values.copy()
        values[hidden] = np.nan
        poisoned = cut(replace(series, values=values))
        assert len(hidden) == 18
        assert torch.equal(poisoned.values[rows], data.values[rows])
        assert poisoned.y[rows].isnan().all()


def test_what_is_seen_depends_on_the_seed_and_differs_from_window_to_window():
    first, again, other = cut(hourly()), cut(hourly()), cut(hourly(), seed=1)
    assert first.digest == again.digest != other.digest
    seen = first.values[:, 2].view(-1, 24)
    assert len(seen.unique(dim=0)) > len(seen) - 2


def test_no_window_spans_two_weeks_or_a_hole_and_weeks_are_groups():
    data = cut(hourly(hole=100))
    first, last = data.time.view(-1, 24)[:, 0], data.time.view(-1, 24)[:, -1]
    assert (last - first == 23).all()
    week = (first // (7 * 24)).long()
    assert torch.equal(week, (last // (7 * 24)).long())
    assert torch.equal(data.group, week)
    assert not ((first <= 100) & (last >= 100)).any()
    for split in make_splits(data, SplitBy.GROUP, 3):
        parts = [set(week[part].tolist()) for part in (split.train, split.valid, split.test)]
        assert sum(map(len, parts)) == len(set.union(*parts))


def test_the_guess_is_a_control():
    data = cut(hourly())
    assert controls_for(data) == ["mean", "persistence", "interpolation", "linear", "time-only"]
    control, index = create_control("interpolation", data), torch.arange(4)
    control.fit(data, torch.arange(10))
    want = data.values[:96, 3:][data.values[:96, 2] == 0]
    assert torch.equal(control.predict(data, index), want)
    assert control.predict(data, index).shape == answers_of(data, index).shape


def test_a_series_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="made: no 24 hours without a gap within a week in its 20 rows"):
        cut(Series("made", np.zeros((20, 2), np.float32), np.arange(20) * HOUR, HOUR, ("a", "b"), 1, "b"))


def test_forecasts_of_which_rows_are_lost():
    series = hourly(days=20, hole=200)
    whole, half = (forecasting(series, MADE, 24, 6, keep) for keep in (1.0, 0.5))
    assert whole.window == half.window == (24, 1.0)
    assert 0.4 < len(half.values) / len(whole.values) < 0.6
    last_whole = whole.time[whole.start + whole.length - 1]
    for one in range(len(half)):
        rows = slice(int(half.start[one]), int(half.start[one] + half.length[one]))
        end = half.time[rows][-1]
        same = (last_whole == end).nonzero().squeeze(1)
        assert len(same) == 1  # a window that the whole series has, too
        assert torch.equal(half.y[one], whole.y[same[0]])
        kept = half.time[(half.time > end - 24) & (half.time <= end)]
        assert torch.equal(half.time[rows], kept)  # all rows of its time that are left
    assert forecasting(series, MADE, 24, 6, 0.5).digest == half.digest
    assert forecasting(series, MADE, 24, 6, 0.5, seed=1).digest != half.digest


def test_the_linear_control_of_lost_rows_sees_straight_lines():
    series = hourly(days=20)
    line = Series("made", np.stack([np.arange(480)] * 2, 1).astype(np.float32), *list(vars(series).values())[2:])
    data = forecasting(line, MADE, 24, 6, 0.5)
    control = create_control("linear", data)
    control.fit(data, torch.arange(100))
    rest = torch.arange(100, len(data))
    torch.testing.assert_close(control.predict(data, rest), data.y[rest], rtol=1e-3, atol=1e-2)


@pytest.mark.skipif(not REAL, reason="needs $NACRE_DATA")
@pytest.mark.parametrize("load", [load_ettm1_gaps, load_jena_gaps])
def test_real_series(load):
    data = load(Path(REAL))
    assert len(data) > 500
    assert data.values.isfinite().all()
    assert 0.9 < data.y.isnan().logical_not().float().mean() < 0.99
