"""Elapsed time and padding of the zoo, decided in one place."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.layer.dynamics import LONGEST
from nacre.layer.inputs import ascending
from nacre.models._base import prepare
from support.hypothesis import examples

NAN = float("nan")


def steps_of(x, time=None, padding=None, time_scale=1.0):
    return prepare(x, time, padding, time_scale)


def test_without_padding_nothing_moves():
    x, time = torch.randn(2, 4, 3), torch.tensor([[5.0, 6.0, 6.0, 9.0], [0.0, 1.0, 4.0, 4.5]])
    steps = steps_of(x, time, time_scale=2.0)
    assert steps.x is x
    assert steps.padding is None
    assert steps.order is None
    assert steps.allowed_keys() is None
    assert steps.valid().all()
    assert steps.time.dtype == torch.float64
    assert steps.elapsed(1.0)[..., 0].tolist() == [[1.0, 0.5, 0.0, 1.5], [1.0, 0.5, 1.5, 0.25]]
    assert steps.elapsed(0.0)[:, 0, 0].tolist() == [0.0, 0.0]
    assert steps.restore(x) is x


def test_padding_goes_to_the_end_and_outputs_come_back():
    x = torch.tensor([[[NAN], [1.0], [NAN], [2.0]], [[3.0], [4.0], [5.0], [NAN]]])
    time = torch.tensor([[NAN, 10.0, -7.0, 14.0], [1.0, 2.0, 4.0, -1.0]])
    padding = torch.tensor([[True, False, True, False], [False, False, False, True]])
    steps = steps_of(x, time, padding)
    assert steps.x[..., 0].tolist() == [[1, 2, 0, 0], [3, 4, 5, 0]]
    assert steps.time.tolist() == [[10, 14, 14, 14], [1, 2, 4, 4]]
    assert steps.elapsed(1.0)[..., 0].tolist() == [[1, 4, 0, 0], [1, 1, 2, 0]]
    assert steps.valid().tolist() == [[True, True, False, False], [True, True, True, False]]
    assert steps.allowed_keys().shape == (2, 1, 1, 4)
    y = torch.arange(1.0, 9.0).view(2, 4, 1)
    assert steps.restore(y)[..., 0].tolist() == [[0, 1, 0, 2], [5, 6, 7, 0]]


def test_no_stamps_count_valid_steps():
    padding = torch.tensor([[True, False, True, False]])
    assert steps_of(torch.zeros(1, 4, 1), None, padding).time.tolist() == [[0, 1, 1, 1]]
    assert steps_of(torch.zeros(1, 3, 1), None, None, time_scale=4.0).time.tolist() == [[0, 0.25, 0.5]]


def test_rows_of_padding_alone_stay_finite():
    x, time = torch.full((1, 3, 2), NAN), torch.full((1, 3), NAN)
    steps = steps_of(x, time, torch.ones(1, 3, dtype=torch.bool))
    assert (steps.x == 0).all()
    assert (steps.time == 0).all()
    assert steps.allowed_keys().all()
    assert (steps.restore(torch.ones(1, 3, 2)) == 0).all()


@examples(50)
@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
def test_there_and_back_is_where_one_was(rows):
    padding = torch.tensor(rows)
    x = torch.randn(len(rows), 6, 2)
    steps = steps_of(x, None, padding)
    assert (steps.padding == steps.padding.sort(dim=1).values).all()
    assert torch.equal(steps.restore(steps.x), x.masked_fill(padding[..., None], 0))


def test_differences_are_taken_before_precision_is_lost():
    time = torch.tensor([[1.7e9, 1.7e9 + 0.001]], dtype=torch.float64)
    elapsed = steps_of(torch.zeros(1, 2, 1), time).elapsed(0.0)
    assert elapsed.dtype == torch.float32
    assert elapsed[0, 1, 0].item() == pytest.approx(0.001, rel=1e-3)


def test_elapsed_time_is_finite_and_not_too_large_to_multiply():
    time = torch.tensor([[-1e300, 0.0, 1.0, 1e39, 1e300]], dtype=torch.float64)
    assert steps_of(torch.zeros(1, 5, 1), time).elapsed(1.0)[0, :, 0].tolist() == [1, LONGEST, 1, LONGEST, LONGEST]
    assert steps_of(torch.zeros(1, 5, 1), time, time_scale=1e-300).elapsed(1.0).isfinite().all()


def test_whole_numbers_are_good_stamps():
    assert steps_of(torch.zeros(1, 2, 1), torch.tensor([[3, 7]])).elapsed(0.0)[0, 1, 0] == 4


def test_stamps_that_go_back_across_padding_are_found():
    time = torch.tensor([[5.0, 99.0, 4.0]])
    padding = torch.tensor([[False, True, False]])
    with pytest.raises(
        ValueError, match=r"got 4.0 after 5.0 at row 0, step 2; sort the steps of each row by time"
    ):
        steps_of(torch.zeros(1, 3, 1), time, padding)


def test_stamps_before_zero_may_have_padding_between_them():
    time, padding = torch.tensor([[-5.0, 0.0, -4.0]]), torch.tensor([[False, True, False]])
    assert steps_of(torch.zeros(1, 3, 1), time, padding).elapsed(0.0)[0, :, 0].tolist() == [0, 1, 0]


def test_what_padding_holds_is_no_stamp():
    for odd in (NAN, float("inf"), -1e30):
        ascending("time", torch.tensor([[1.0, odd, 2.0]]), torch.tensor([[False, True, False]]))
        with pytest.raises(ValueError, match="row 0, step 1"):
            ascending("time", torch.tensor([[1.0, odd, 2.0]]), None)


def test_moving_steps_compiles_to_one_graph():
    def run(x, time, padding):
        steps = steps_of(x, time, padding)
        return steps.restore(steps.x + steps.elapsed(1.0))

    x, time = torch.randn(2, 4, 3), torch.rand(2, 4).cumsum(1)
    for padding in (torch.tensor([[True, False, True, False]] * 2), torch.zeros(2, 4, dtype=torch.bool)):
        compiled = torch.compile(run, fullgraph=True, backend="eager")
        assert torch.equal(compiled(x, time, padding), run(x, time, padding))


def test_a_step_before_the_first_counts_where_there_is_one():
    before = torch.tensor([1.0, NAN, -1e300, 5.0], dtype=torch.float64)
    time = torch.tensor([[4.0, 6.0]] * 4, dtype=torch.float64)
    elapsed = replace(steps_of(torch.zeros(4, 2, 1), time), before=before).elapsed(0.5)
    assert elapsed[..., 0].tolist() == [[3, 2], [0.5, 2], [LONGEST, 2], [0, 2]]
