"""Splits: who trains, who validates, who is scored."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import Dataset, Kind
from nacre.data.splits import SplitBy, make_splits
from support.datasets import sequences
from support.refused import refused


def windows(rows=400, lookback=10, horizon=4, groups=1):
    """Forecasting windows over `groups` series of so many rows each."""
    values = torch.arange(float(rows * groups)).unsqueeze(1)
    per = torch.arange(rows - lookback - horizon + 1)
    start = torch.cat([per + g * rows for g in range(groups)])
    return Dataset(
        name="series",
        kind=Kind.FORECASTING,
        values=values,
        time=torch.arange(rows * groups, dtype=torch.float64),
        start=start,
        length=torch.full((len(start),), lookback),
        y=torch.stack([values[s + lookback : s + lookback + horizon, 0] for s in start]),
        group=torch.arange(groups).repeat_interleave(len(per)),
        groups=tuple(f"g{i}" for i in range(groups)),
        features=("v",),
        targets=tuple(f"v+{i}" for i in range(horizon)),
        target_column=0,
    )


def parts(split):
    return split.train.tolist(), split.valid.tolist(), split.test.tolist()


@given(st.lists(st.integers(0, 9), min_size=12, max_size=60).filter(lambda g: len(set(g)) >= 3), st.integers(3, 5))
def test_leak_groups_are_never_in_two_parts_and_everyone_is_scored_once(group, folds):
    data = sequences(group)
    if len(set(group)) < folds:
        with pytest.raises(ValueError, match="folds must be 3 to"):
            make_splits(data, SplitBy.GROUP, folds)
        return
    splits = make_splits(data, SplitBy.GROUP, folds)
    for split in splits:
        train, valid, test = ({group[i] for i in part} for part in parts(split))
        assert train.isdisjoint(valid | test)
        assert valid.isdisjoint(test)
        assert sorted(chain(*parts(split))) == list(range(len(group)))
    assert sorted(i for split in splits for i in split.test.tolist()) == list(range(len(group)))


def test_the_fold_after_the_scored_one_validates():
    splits = make_splits(sequences(list(range(8))), SplitBy.GROUP, 4)
    assert [split.valid.tolist() for split in splits] == [splits[(i + 1) % 4].test.tolist() for i in range(4)]


def test_groups_of_a_class_are_dealt_to_folds_in_turn():
    classes = [0, 1] * 10  # without care, 4 folds would each hold one class only
    for split in make_splits(sequences(list(range(20)), classes), SplitBy.GROUP, 4):
        assert {classes[i] for i in split.test.tolist()} == {0, 1}


@given(st.integers(60, 200), st.integers(1, 12), st.integers(1, 6), st.integers(2, 5), st.integers(1, 3))
def test_leak_no_row_is_in_two_parts_of_a_split_by_time(rows, lookback, horizon, folds, groups):
    data = windows(rows, lookback, horizon, groups)
    smallest = min(rows * 8 // 10 // folds, rows - round(rows * 0.8))  # rows of a block, or of the test part
    if smallest < lookback + horizon:
        with pytest.raises(ValueError, match="is empty"):
            make_splits(data, SplitBy.TIME, folds, 0.2)
        return
    splits = make_splits(data, SplitBy.TIME, folds, 0.2)
    stop = data.stop
    for split in splits:
        used = [{row for i in part for row in range(int(data.start[i]), int(stop[i]))} for part in parts(split)]
        assert used[0].isdisjoint(used[1] | used[2])
        assert used[1].isdisjoint(used[2])
        for group in range(groups):  # what is scored comes after all that was learned from, in every series
            mine = [[row for row in part if row // rows == group] for part in used]
            assert min(mine[2]) > max(mine[0] + mine[1])


def test_splits_by_time_share_their_test_part_and_validate_on_every_block():
    splits = make_splits(windows(), SplitBy.TIME, 5, 0.25)
    assert len({tuple(split.test.tolist()) for split in splits}) == 1
    assert splits[0].test[0] == 300  # the first window that begins in the last quarter
    assert splits[0].valid[0] == 0
    assert splits[4].valid[-1] == 300 - 14
    assert len({i for split in splits for i in split.valid.tolist()}) == 5 * (60 - 13)


def test_the_official_test_part_is_scored_in_every_fold():
    test = torch.arange(50) % 5 == 0
    splits = make_splits(sequences(list(range(50)), test=test), SplitBy.OFFICIAL, 4)
    assert all(torch.equal(split.test, test.nonzero().squeeze(1)) for split in splits)
    assert sorted(i for split in splits for i in split.valid.tolist()) == (~test).nonzero().squeeze(1).tolist()
    for split in splits:
        assert sorted(chain(*parts(split))) == list(range(50))


def test_data_without_an_official_test_part_says_so():
    with pytest.raises(ValueError, match="no official test part; split by 'group'"):
        make_splits(sequences(list(range(9))), SplitBy.OFFICIAL)


def test_a_class_that_training_lacks_is_named():
    with pytest.raises(ValueError, match=r"fold 2 is scored on 'c', which never occurs in its training part"):
        make_splits(sequences(list(range(9)), [0, 1, 0, 1, 0, 1, 0, 1, 2]), SplitBy.GROUP, 3)


def test_windows_longer_than_a_block_leave_a_part_empty():
    with pytest.raises(ValueError, match="part of fold 0 is empty; use fewer folds or shorter windows"):
        make_splits(windows(rows=60, lookback=12, horizon=4), SplitBy.TIME, 4, 0.2)


def test_the_digest_depends_on_who_is_where():
    by_group = make_splits(sequences(list(range(9))), SplitBy.GROUP, 3)
    again = make_splits(sequences(list(range(9))), SplitBy.GROUP, 3)
    assert [s.digest for s in by_group] == [s.digest for s in again]
    assert len({s.digest for s in by_group}) == 3


def test_bad_numbers_are_named():
    for name, value in (("folds", 1), ("test_share", 0.0), ("test_share", 0.95)):
        with refused(f"{name} must .*got {value}"):
            make_splits(windows(), SplitBy.TIME, **{name: value})
