"""Values and answers that were not observed, in arrays: flags, events, static features, what is refused."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data import from_arrays
from nacre.data.dataset import UNSCORED, Kind
from nacre.data.missing import Missing
from nacre.data.tables.gaps import as_events, how_much
from reference import missing as slow
from support.hypothesis import examples

NAN = math.nan
X = [[[1.0, NAN], [NAN, 2.0]], [[3.0, NAN]], [[NAN, NAN], [NAN, NAN]]]
Y = [0.5, 1.5, 2.5]


@pytest.mark.parametrize("missing", ["flags", "last"])
def test_values_that_were_not_observed_are_nan(missing):
    x = [[[1, None], [None, 2]], np.array([[3.0, NAN]]), torch.full((2, 2), NAN)]
    data = from_arrays(x, Y, missing=missing)
    wanted = [[1.0, NAN], [NAN, 2.0], [3.0, NAN], [NAN, NAN], [NAN, NAN]]
    torch.testing.assert_close(data.values, torch.tensor(wanted), equal_nan=True)
    assert data.missing is Missing(missing)
    assert data.notes[-1].startswith("Missing: 70.0 % of 10 values (x1 80.0 %, x0 60.0 %); ")


def test_they_are_refused_unless_something_is_said_of_them():
    for x in (X, [[[1.0, None]], [[2.0, 3.0]], [[2.0, 3.0]]]):
        with pytest.raises(ValueError, match="say missing='flags'"):
            from_arrays(x, Y)
    with pytest.raises(ValueError, match="missing must be one of 'error', 'flags', 'last', 'events', got 'drop'"):
        from_arrays(X, Y, missing="drop")


@examples(30)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_events_are_those_of_the_reference(sequences, features, seed):
    random = np.random.default_rng(seed)
    x = [random.normal(size=(random.integers(1, 5), features)) for _ in range(sequences)]
    for rows in x:
        rows[random.random(rows.shape) < 0.5] = NAN
        rows[:, 0] = np.nan if random.random() < 0.3 else 7.0  # static
    x[0][:] = 1.0  # something is seen of every feature
    time = [random.integers(0, 2, len(rows)).cumsum() for rows in x]
    names = [f"x{i}" if features > 1 else "x" for i in range(features)]
    data = from_arrays(x, random.normal(size=sequences), time=time, missing="events", static=names[:1])
    for i in range(sequences):
        batch = data.batch(torch.tensor([i]))
        wanted = slow.events(x[i].tolist(), time[i].tolist(), [0]) or [(0, NAN, time[i][0])]
        found = torch.cat([batch.x[0].double(), batch.time[0].unsqueeze(1)], 1)
        torch.testing.assert_close(found, torch.tensor(wanted).double(), rtol=1e-6, atol=0, equal_nan=True)


def test_names_of_a_category_are_one_event_each():
    data = from_arrays([[[0.0, 1.0, 5.0]], [[0.0, 0.0, 6.0]]], [0.5, 1.5], missing="flags")
    data = as_events(dataclasses.replace(data, one_hot=(0, 1)))
    assert data.values.tolist() == [[1.0, 1.0], [2.0, 5.0], [2.0, 6.0]]


@pytest.mark.parametrize("missing", ["flags", "events"])
def test_what_is_missing_is_counted_over_the_stamps_of_each_sequence(missing):
    data = from_arrays([[[1.0, NAN]], [[2.0, 3.0]]], [0.5, 1.5], missing=missing)  # both at stamp 0
    assert how_much(data).startswith("Missing: 25.0 % of 4 values (x1 50.0 %); ")


def test_static_features_are_the_same_in_every_row():
    x = [[[1.0, NAN], [2.0, 50.0], [3.0, NAN]], [[4.0, NAN]]]
    data = from_arrays(x, [0.5, 1.5], missing="flags", static=["x1"])
    torch.testing.assert_close(data.values[:, 1], torch.tensor([50.0, 50, 50, NAN]), equal_nan=True)
    assert data.static == (1,)
    with pytest.raises(ValueError, match="static: 'x0' changes within sequence 0, to 2.0 at step 1; leave it out"):
        from_arrays(x, [0.5, 1.5], missing="flags", static=["x0"])
    with pytest.raises(ValueError, match=r"static must be a list of names, got 'x1'; write \['x1'\]"):
        from_arrays(x, [0.5, 1.5], missing="flags", static="x1")


@pytest.mark.parametrize(
    ("y", "kind", "wanted"),
    [
        (["calm", None, "storm"], Kind.CLASSIFICATION, [0, 1]),
        ([1, None, 0], Kind.CLASSIFICATION, [1, 0]),
        ([0.5, NAN, 1.5], Kind.REGRESSION, [[0.5], [1.5]]),
        (np.array([0.5, NAN, 1.5]), Kind.REGRESSION, [[0.5], [1.5]]),
        ([[1.0, 2.0], [None, None], [3.0, None]], Kind.REGRESSION, [[1.0, 2.0]]),
    ],
)
def test_sequences_whose_target_is_missing_are_left_out(y, kind, wanted):
    data = from_arrays(np.ones((3, 4, 1)), y, missing="flags")
    assert data.kind is kind
    assert data.y.tolist() == wanted
    assert any("sequences, whose target is missing" in note for note in data.notes)
    assert data.group.tolist() == list(range(len(wanted)))


def test_steps_whose_target_is_missing_are_not_scored():
    x = np.ones((2, 3, 1))
    data = from_arrays(x, [["up", None, "down"], [None, "up", "up"]], missing="flags")
    assert data.y.tolist() == [1, UNSCORED, 0, UNSCORED, 1, 1]
    data = from_arrays(x, [[1.0, NAN, 2.5], [NAN, NAN, NAN]], kind="step-regression", missing="flags")
    torch.testing.assert_close(data.y[:3, 0], torch.tensor([1.0, NAN, 2.5]), equal_nan=True)
    assert len(data) == 1


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        (X, [NAN] * 3, {}, "y is missing everywhere, so there is nothing to learn"),
        (X, [[NAN, 1.0]] * 3, {}, "the target is missing everywhere"),
        ([[[1.0, NAN]], [[2.0, NAN]]], [0.5, 1.5], {}, "nothing was observed of 'x1'; leave such columns out"),
        ([[[1.0, "high"]], [[2.0, "3"]]], [0.5, 1.5], {}, "x must hold numbers"),
        ([[[math.inf]], [[1.0]]], [0.5, 1.5], {}, "x must be finite, got"),
        ([[[1.0]], [[2.0]]], ["a", None], {}, "y must hold two classes or more, got 'a'"),
        (
            np.ones((2, 3, 1)),
            [[1.0, NAN, 2.5]] * 2,
            {"missing": "events"},
            "'events' is for one answer for each seq",
        ),
        ([[[1.0]], [[2.0]]], [0.5, 1.5], {"time": [[NAN], [0.0]]}, "time must be finite"),
    ],
)
def test_bad_input_is_refused(x, y, options, message):
    with pytest.raises(ValueError, match=message):
        from_arrays(x, y, **{"missing": "flags", **options})
