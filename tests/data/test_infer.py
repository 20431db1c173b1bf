"""The kind of task that a target column asks for, row by row of the table, and classes out of labels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.tables.targets import classes_of, infer_kind
from support.refused import refused

TWO_GROUPS = np.repeat([0, 1], 100)
MANY_GROUPS = np.repeat(np.arange(50), 4)
ONE_GROUP = np.zeros(200, int)
TEXT = np.array(["calm", "storm"], dtype=object)


def test_each_row_of_the_table():
    for target, group, kind in (
        (TEXT[TWO_GROUPS], TWO_GROUPS, "classification"),
        (TWO_GROUPS == 1, TWO_GROUPS, "classification"),
        (TWO_GROUPS, TWO_GROUPS, "classification"),
        (TWO_GROUPS * 1.0, TWO_GROUPS, "classification"),
        (MANY_GROUPS % 20, MANY_GROUPS, "classification"),
        (MANY_GROUPS % 21, MANY_GROUPS, "regression"),
        (MANY_GROUPS * 0.5, MANY_GROUPS, "regression"),
        (TEXT[np.arange(200) % 2], TWO_GROUPS, "step-classification"),
        (np.arange(200) % 2 == 0, TWO_GROUPS, "step-classification"),
        (np.arange(200) % 20, TWO_GROUPS, "step-classification"),
        (np.arange(200) % 20 * 1.0, TWO_GROUPS, "step-classification"),
        (np.arange(200) % 21, TWO_GROUPS, "forecasting"),
        (np.arange(200) * 0.5, TWO_GROUPS, "forecasting"),
        (np.arange(200) % 20, ONE_GROUP, "step-classification"),
        (np.arange(200) * 0.5, ONE_GROUP, "forecasting"),
        (np.array([0, 1, 0]), np.zeros(3, int), "step-classification"),  # two numbers are always few
        (np.arange(29) % 3, np.zeros(29, int), "forecasting"),  # three are not, in 29 rows
        (np.arange(30) % 3, np.zeros(30, int), "step-classification"),
    ):
        found, why = infer_kind("label", target, group)
        assert found == kind, (target, group)
        assert "'label'" in why


def test_one_single_value_is_refused():
    for target in (TEXT[:1].repeat(4), np.ones(4), np.zeros(4, bool)):
        for group in (np.zeros(4, int), np.arange(4)):
            with refused(f"target 'label' holds one value only, {target[0]}"):
                infer_kind("label", target, group)


def test_groups_may_be_mixed():
    group = np.array([0, 1, 0, 1])
    assert infer_kind("y", np.array(["a", "b", "a", "b"]), group)[0] == "classification"
    assert infer_kind("y", np.array(["a", "b", "b", "a"]), group)[0] == "step-classification"


@given(st.lists(st.integers(-50, 50), min_size=1) | st.lists(st.text(max_size=3), min_size=1))
def test_classes_name_their_labels_in_order(labels):
    array = np.array(labels, dtype=object if isinstance(labels[0], str) else int)
    classes, names = classes_of(array)
    assert names == tuple(str(label) for label in sorted(set(labels)))
    assert [names[number] for number in classes] == [str(label) for label in labels]


def test_classes_of_whole_floats_and_bools():
    assert classes_of(np.array([10.0, 9.0]))[1] == ("9", "10")
    assert classes_of(np.array([True, False]))[1] == ("False", "True")
