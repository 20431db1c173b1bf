"""`Dataset`: batches, rows and answers against plain loops over ragged, overlapping sequences."""

import dataclasses
import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import UNSCORED, Dataset, Kind
from support.hypothesis import examples
from support.refused import refused

ROWS = 14
HORIZON = 2
SPANS = st.lists(
    st.integers(0, ROWS - HORIZON - 1).flatmap(
        lambda start: st.tuples(st.just(start), st.integers(1, ROWS - HORIZON - start))
    ),
    min_size=1,
    max_size=8,
)
KINDS = list(Kind)
PARTS = ("values", "time", "start", "length", "y", "group")


def some(kind, spans=((0, 4), (2, 5), (9, 1), (3, 2)), seed=0):
    """Sequences (first row, length) of one table of 14 rows; some of the answers are not scored."""
    random = torch.Generator().manual_seed(seed)
    count = ROWS if kind.each_step else len(spans)
    left_out = torch.rand(count, generator=random) < 0.3
    if kind.has_classes:
        y = torch.randint(0, 3, (count,), generator=random).masked_fill(left_out, UNSCORED)
    else:
        y = torch.randn(count, HORIZON, generator=random)
        y = (y > 0).float() if kind is Kind.MULTI_LABEL else y
        y[left_out, 1] = math.nan  # one number missing is enough
    start, length = torch.tensor(spans).unbind(1)
    return Dataset(
        name="some",
        kind=kind,
        values=torch.randn(ROWS, 3, generator=random),
        time=torch.rand(ROWS, generator=random, dtype=torch.float64).cumsum(0),
        start=start,
        length=length,
        y=y,
        group=torch.arange(len(spans)) // 2,
        groups=tuple("abcd"),
        features=("u", "v", "w"),
        classes=("x", "y", "z") if kind.has_classes else (),
        targets=() if kind.has_classes else ("p", "q"),
    )


def same(got, want):
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


# --- batch --------------------------------------------------------------------------------------------------


@given(kind=st.sampled_from(KINDS), spans=SPANS, seed=st.integers(0, 9), data=st.data())
@examples(150)
def test_a_batch_holds_its_sequences_and_padding_behind_them(kind, spans, seed, data):
    order = data.draw(st.lists(st.integers(0, len(spans) - 1), min_size=1, max_size=6))  # some twice
    table = some(kind, spans, seed)
    batch = table.batch(torch.tensor(order))
    longest = max(spans[i][1] for i in order)
    assert batch.x.shape == (len(order), longest, 3)
    assert batch.time.shape == batch.key_padding_mask.shape == (len(order), longest)
    for place, i in enumerate(order):
        start, length = spans[i]
        rows = slice(start, start + length)
        same(batch.x[place, :length], table.values[rows])
        same(batch.time[place, :length], table.time[rows])
        assert batch.key_padding_mask[place].tolist() == [False] * length + [True] * (longest - length)
        assert (batch.x[place, length:] == 0).all()
        assert (batch.time[place, length:] == table.time[start + length - 1]).all()
        assert batch.group[place] == table.group[i]
        if not kind.each_step:
            same(batch.y[place], table.y[i])
        else:
            same(batch.y[place, :length], table.y[rows])
            pads = batch.y[place, length:]
            assert (pads == UNSCORED).all() if kind.has_classes else pads.isnan().all()


def test_a_sequence_in_a_batch_is_the_sequence_alone():
    for kind, i in product(KINDS, range(4)):
        table = some(kind)
        batch, alone = table.batch(torch.arange(4)), table.batch(torch.tensor([i]))
        length = int(table.length[i])
        assert not alone.key_padding_mask.any(), kind
        same(batch.x[i, :length], alone.x[0])
        same(batch.time[i, :length], alone.time[0])
        same(batch.y[i, :length] if kind.each_step else batch.y[i], alone.y[0])


def test_dtypes_of_a_batch():
    batch = some(Kind.STEP_CLASSIFICATION).batch(torch.tensor([0, 1]))
    assert batch.query_only is None
    assert [part.dtype for part in batch[:-1]] == [
        torch.float32,
        torch.float64,
        torch.bool,
        torch.int64,
        torch.int64,
    ]


def test_rows_that_only_ask():
    table = some(Kind.STEP_CLASSIFICATION, [(0, 3), (2, 2)])
    asks = torch.arange(len(table.values)) % 2 == 0
    asking = dataclasses.replace(table, query_only=asks)
    batch = asking.batch(torch.tensor([0, 1]))
    assert batch.query_only.tolist() == [[True, False, True], [True, False, False]]  # padding asks nothing
    assert asking.known_values(torch.tensor([0, 1])).tolist() == table.values[[1, 3]].tolist()
    assert table.known_values(torch.tensor([1])).tolist() == table.values[[2, 3]].tolist()
    assert asking.digest != table.digest != dataclasses.replace(table, query_only=~asks).digest


def test_padding_hides_numbers_that_are_not_finite():
    table = some(Kind.CLASSIFICATION, [(0, 3), (0, 1)])
    table.values[0] = math.nan  # last row of the second sequence, which its padding is made of
    batch = table.batch(torch.tensor([0, 1]))
    assert (batch.x[1, 1:] == 0).all()


# --- rows, answers, stop ------------------------------------------------------------------------------------


def rows_by_hand(spans, index):
    return sorted({row for i in index for row in range(spans[i][0], spans[i][0] + spans[i][1])})


@given(spans=SPANS, data=st.data())
@examples(60)
def test_rows_of_overlapping_sequences_come_once_and_in_order(spans, data):
    index = data.draw(st.lists(st.integers(0, len(spans) - 1), max_size=6))  # none, or some twice
    table = some(Kind.CLASSIFICATION, spans)
    assert table.rows(torch.tensor(index, dtype=torch.int64)).tolist() == rows_by_hand(spans, index)


@given(kind=st.sampled_from(KINDS), spans=SPANS, seed=st.integers(0, 9), data=st.data())
@examples(150)
def test_answers_are_those_that_are_scored(kind, spans, seed, data):
    index = data.draw(st.lists(st.integers(0, len(spans) - 1), min_size=1, max_size=6))
    table = some(kind, spans, seed)
    wanted = rows_by_hand(spans, index) if kind.each_step else index
    y = table.y.tolist()
    if kind.has_classes:
        expected = [y[i] for i in wanted if y[i] != UNSCORED]
    else:
        left_out = all if kind is Kind.FORECASTING else any  # a forecast counts if one of its numbers is known
        expected = [y[i] for i in wanted if not left_out(math.isnan(number) for number in y[i])]
    found = table.answers(torch.tensor(index))
    assert (
        found.nan_to_num(7e7).tolist() == torch.tensor(expected).to(found).nan_to_num(7e7).view_as(found).tolist()
    )


def test_stop_counts_targets_only_in_forecasting():
    for kind in KINDS:
        ahead = HORIZON if kind is Kind.FORECASTING else 0
        assert some(kind).stop.tolist() == [4 + ahead, 7 + ahead, 10 + ahead, 5 + ahead], kind


# --- what it is ---------------------------------------------------------------------------------------------


def test_what_the_kinds_ask_for():
    assert [k for k in Kind if k.has_classes] == ["classification", "step-classification"]
    assert [k for k in Kind if k.each_step] == ["step-classification", "step-regression"]


def test_length_and_outputs():
    for kind in KINDS:
        table = some(kind)
        assert len(table) == 4
        assert table.outputs == (3 if kind.has_classes else 2), kind


def test_the_digest_depends_on_every_number():
    table = some(Kind.REGRESSION)
    for part in PARTS:
        digests = {table.digest}
        for place in range(len(getattr(table, part))):
            changed = getattr(table, part).clone()
            changed[place] = changed[place].nan_to_num() + 1
            digests.add(dataclasses.replace(table, **{part: changed}).digest)
        assert len(digests) == 1 + len(getattr(table, part)), part


def test_the_digest_depends_on_numbers_alone():
    table = some(Kind.REGRESSION)
    assert some(Kind.REGRESSION).digest == table.digest
    words = dataclasses.replace(table, name="other", notes=("note",), form="else", files={"a": "b"}, time_unit="s")
    assert words.digest == table.digest
    stored = table.values.t().contiguous().t()  # the same numbers, column after column in memory
    assert dataclasses.replace(table, values=stored).digest == table.digest


# --- errors -------------------------------------------------------------------------------------------------


def test_no_sequences_are_refused():
    nothing = torch.zeros(0, dtype=torch.int64)
    with pytest.raises(ValueError, match="some: no sequences; the data is shorter than one window"):
        dataclasses.replace(some(Kind.CLASSIFICATION), start=nothing, length=nothing, group=nothing, y=nothing)


def test_parts_that_do_not_fit_are_refused():
    for kind, part in product(KINDS, PARTS):
        table = some(kind)
        for other in (getattr(table, part)[:-1], torch.cat([getattr(table, part), getattr(table, part)[:1]])):
            with refused("some: values, time, y, start, length and group do not fit", case=f"{kind} {part}"):
                dataclasses.replace(table, **{part: other})


def test_names_of_features_must_be_as_many_as_columns():
    with pytest.raises(ValueError, match="some: 3 columns but 2 names"):
        dataclasses.replace(some(Kind.CLASSIFICATION), features=("u", "v"))
