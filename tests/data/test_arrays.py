"""`from_arrays`: what went in comes out, in every form of x and y, and bad input is named."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import UNSCORED
from nacre.data.tables.arrays import from_arrays
from support.hypothesis import examples
from support.refused import refused

X = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0], [9.0, 0.0], [1.0, 1.0]]]  # lengths 2, 1, 3


def test_it_logs_and_notes_the_kind_it_found():
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    log = logging.getLogger("nacre")
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        data = from_arrays(X, [0.5, 1.5, 2.5])
        from_arrays(X, [0.5, 1.5, 2.5], kind="regression")
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    assert [record.getMessage() for record in records] == list(data.notes)
    assert "The task is regression" in data.notes[0]


# --- round trips --------------------------------------------------------------------------------------------


@examples(40)
@given(st.data())
def test_a_batch_holds_the_sequences_that_went_in(draw):
    lengths = draw.draw(st.lists(st.integers(1, 6), min_size=2, max_size=6))
    rng = np.random.default_rng(draw.draw(st.integers(0, 99)))
    x = [rng.normal(size=(length, 3)).astype(np.float32) for length in lengths]
    time = [np.cumsum(rng.uniform(0.1, 2, length)) for length in lengths]
    y = [rng.normal(size=(length, 2)).astype(np.float32) for length in lengths]
    data = from_arrays(x, y, time=time, kind="step-regression")
    index = torch.tensor(draw.draw(st.permutations(range(len(lengths)))))
    batch = data.batch(index)
    for row, number in enumerate(index.tolist()):
        length = lengths[number]
        assert batch.key_padding_mask[row].tolist() == [False] * length + [True] * (max(lengths) - length)
        assert batch.x[row, :length].tolist() == x[number].tolist()
        assert batch.time[row, :length].tolist() == time[number].tolist()
        assert batch.y[row, :length].tolist() == y[number].tolist()
        assert batch.x[row, length:].eq(0).all()
        assert batch.y[row, length:].isnan().all()


def test_all_forms_of_x_give_the_same():
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    forms = [x, torch.tensor(x), list(x), x.tolist(), [torch.tensor(item) for item in x], x.astype(int)]
    digests = {from_arrays(form, ["a", "b"]).digest for form in forms}
    assert len(digests) == 1


def test_without_features_there_is_one():
    for x in ([[1.0, 2.0], [3.0]], [np.array([[1.0], [2.0]]), np.array([[3.0]])]):
        data = from_arrays(x, [0, 1])
        assert data.values.tolist() == [[1.0], [2.0], [3.0]]
        assert data.features == ("x",)


def test_each_row_of_the_table_of_y():
    for y, kind, answers in (
        (["b", "a", "b"], "classification", [1, 0, 1]),
        ([7, 3, 7], "classification", [1, 0, 1]),
        (np.array([True, False, True]), "classification", [1, 0, 1]),
        (np.array(["b", "a", "b"], dtype=object), "classification", [1, 0, 1]),
        (torch.tensor([0.5, 1.0, 2.0]), "regression", [[0.5], [1.0], [2.0]]),
        (np.array([[1, 2, 3, 4]] * 3), "regression", [[1, 2, 3, 4]] * 3),
        ([[1, 0], [0], [1, 1, 0]], "step-classification", [1, 0, 0, 1, 1, 0]),
        ([["u", "v"], ["v"], ["u", "u", "v"]], "step-classification", [0, 1, 1, 0, 0, 1]),
        ([[0.5, 0], [1.5], [1, 1, 0]], "step-regression", [[0.5], [0], [1.5], [1], [1], [0]]),
        ([[[1], [2]], [[3]], [[4], [5], [6]]], "step-regression", [[1], [2], [3], [4], [5], [6]]),
    ):
        data = from_arrays(X, y)
        assert data.kind == kind, y
        assert data.y.tolist() == answers, y
        assert data.outputs == (2 if data.kind.has_classes else len(answers[0])), y


def test_kind_decides_where_the_shape_of_y_has_two_meanings():
    x, y = np.zeros((2, 3, 1)), np.array([[0.0, 1, 2], [3, 4, 5]])
    assert from_arrays(x, y).kind == "step-regression"
    data = from_arrays(x, y, kind="regression")
    assert (data.kind, data.targets, tuple(data.y.shape)) == ("regression", ("y0", "y1", "y2"), (2, 3))


def test_steps_of_class_minus_100_are_not_scored():
    data = from_arrays(X, [[4, UNSCORED], [9], [UNSCORED, 4, 4]])
    assert data.classes == ("4", "9")
    assert data.y.tolist() == [0, UNSCORED, 1, UNSCORED, 0, 0]


def test_groups_are_named_in_the_order_of_appearance():
    data = from_arrays(X, [0, 1, 0], group=["z", "a", "z"], features=["p", "q"], name="mine")
    assert (data.groups, data.group.tolist()) == (("z", "a"), [0, 1, 0])
    assert (data.name, data.features, data.form) == ("mine", ("p", "q"), "your own")
    alone = from_arrays(X, [0, 1, 0])
    assert (alone.groups, alone.group.tolist()) == (("0", "1", "2"), [0, 1, 2])


def test_without_stamps_steps_are_counted():
    assert from_arrays(X, [0, 1, 0]).time.tolist() == [0, 1, 0, 0, 1, 2]


def test_equal_stamps_are_steps_of_one_moment():
    data = from_arrays([[1, 2, 3], [4, 5]], [0, 1], time=[[0, 2, 2], [1, 1]])
    assert data.time.tolist() == [0, 2, 2, 1, 1]


def test_the_users_arrays_are_not_shared():
    x = np.ones((2, 3, 1), np.float32)
    data = from_arrays(x, [0, 1])
    x[:] = 9
    assert data.values.eq(1).all()


# --- bad input ----------------------------------------------------------------------------------------------


def test_bad_x():
    for x, message in (
        ([], "x must hold at least one sequence"),
        (5, "x must be an array, a tensor or a list, got int"),
        (np.float64(5), "x must hold one item for each sequence"),
        ([1.0, 2.0, 3.0], "got shape \\(\\) for sequence 0"),
        ([[[1.0]], np.zeros((0, 1)), [[1.0]]], "got shape \\(0, 1\\) for sequence 1"),
        ([[[1.0]], [[1.0, 2.0]], [[1.0]]], "x must have shape \\(1, 1\\) for sequence 1, got \\(1, 2\\)"),
        ([[[1.0], [2.0, 3.0]]], "x: item 0 is not an array of one shape"),
        ([[[1.0]], [["a"]], [[1.0]]], "x must hold numbers, got <U1 in sequence 1"),
        ([[[1.0]], [[1.0], [float("nan")]], [[1.0]]], "x must be finite, got \\[nan\\] in sequence 1, step 1"),
        ([[[1.0]], [[1e300]], [[1.0]]], "x must be finite, got \\[1.e\\+300\\] in sequence 1, step 0"),
    ):
        with refused(message):
            from_arrays(x, [0, 1, 0])


def test_bad_y():
    for y, kind, message in (
        ([0, 1], None, "y must hold 3 items, one for each sequence, got 2"),
        ([1, 1, 1], None, "y must hold two classes or more, got '1'"),
        ([[UNSCORED] * 2, [UNSCORED], [UNSCORED] * 3], None, "two classes or more, got none"),
        ([0.5, float("nan"), 1], None, "y must be finite, got \\[nan\\] at answer 1"),
        ([0.5, 1e300, 1], None, "y must be finite, got \\[1.e\\+300\\] at answer 1"),
        ([[1.0, 2, 3, 4], [1, 2, 3, float("inf")], [1, 2, 3, 4]], None, "y must be finite, .* at answer 1"),
        ([[1, 2], [1], [1, 2]], None, "got shapes \\(2,\\), \\(1,\\), \\(2,\\)"),
        ([[1, 2], 1, [1, 2, 3]], None, "one answer for each sequence, or one for each step"),
        ([[1, 0], [1, 0], [1, 0, 0]], "step-classification", "1 of them in sequence 1, got shape \\(2,\\)"),
        ([0, 1, 0], "step-classification", "2 of them in sequence 0, got shape \\(\\)"),
        ([[1, 2]] * 3, "classification", "y must hold one class for each answer in classification, got 2"),
        ([0.5, 1, 2], "classification", "y must hold text, bools or whole numbers in classification, got 0.5"),
        (["a", "b", "a"], "regression", "y must hold numbers"),
        ([0, 1, 0], "clasification", "kind must be one of .* did you mean 'classification'"),
        ([0, 1, 0], "forecasting", "kind must be one of"),
    ):
        with refused(message):
            from_arrays(X, y, kind=kind)


def test_bad_time():
    for time, message in (
        ([[0, 1], [0]], "time must hold 3 items"),
        ([[0, 1], [0], [0, 1]], "time must have shape \\(3,\\) for sequence 2, got \\(2,\\)"),
        ([[0, 1], [0], [0, 2, 1]], "time must not go back .* got 1.0 after 2.0 in sequence 2, step 2"),
        ([[0, 1], [float("nan")], [0, 1, 2]], "time must be finite, got nan in sequence 1, step 0"),
        ([0, 1, 2], "time must be \\[n, T\\]"),
    ):
        with refused(message):
            from_arrays(X, [0, 1, 0], time=time)


def test_bad_names():
    with pytest.raises(ValueError, match="group must hold 3 labels, one for each sequence, got 2"):
        from_arrays(X, [0, 1, 0], group=["a", "b"])
    with pytest.raises(ValueError, match="features must be 2 different names"):
        from_arrays(X, [0, 1, 0], features=["a", "a"])
    with pytest.raises(ValueError, match="features must be 2 different names"):
        from_arrays(X, [0, 1, 0], features="ab")
    with pytest.raises(ValueError, match="name must be fit for a file name, got 'a/b'"):
        from_arrays(X, [0, 1, 0], name="a/b")
