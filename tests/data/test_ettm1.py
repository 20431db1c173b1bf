"""ETTm1, and the windows it shares with Jena."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import Kind
from nacre.data.sets.ettm1 import COLUMNS, load_ettm1
from nacre.data.sets.series import window_starts
from nacre.data.splits import SplitBy, make_splits
from support.datasets import publish
from support.refused import refused

HEADER = "date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT"
real = pytest.mark.skipif("NACRE_DATA" not in os.environ, reason="needs $NACRE_DATA")


@pytest.fixture
def write(monkeypatch, tmp_path):
    """Write a table as ETTm1.csv, and make its checksum the known one."""

    def put(lines, header=HEADER):
        return publish(monkeypatch, tmp_path, "ettm1", "\n".join([header, *lines, ""]).encode())

    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    return put


def rows(count, step=15):
    stamps = np.datetime64("2016-07-01T00:00:00") + np.arange(count) * np.timedelta64(step, "m")
    numbers = [",".join(str(100 * column + row) for column in range(7)) for row in range(count)]
    return [f"{str(stamp).replace('T', ' ')},{line}" for stamp, line in zip(stamps, numbers, strict=True)]


def test_windows_and_targets(write):
    data = load_ettm1(write(rows(12)), lookback=4, horizon=3)
    assert (data.name, data.kind, data.form) == ("ettm1", Kind.FORECASTING, "official, complete")
    assert len(data) == 12 - 7 + 1  # the final window included
    assert data.features == COLUMNS
    assert data.target_column == 6
    assert data.targets == ("OT+1", "OT+2", "OT+3")
    assert data.groups == ("ettm1",)
    assert data.notes == ()
    batch = data.batch(torch.tensor([0, 5]))
    assert batch.x.dtype == batch.y.dtype == torch.float32
    assert batch.x[1, :, 1].tolist() == [105, 106, 107, 108]
    assert batch.y.tolist() == [[604, 605, 606], [609, 610, 611]]
    assert batch.time.dtype == torch.float64
    assert batch.time[0].tolist() == [0, 0.25, 0.5, 0.75]
    assert int(data.stop.max()) == 12


def test_rows_are_kept_once(write):
    data = load_ettm1(write(rows(100)), lookback=40, horizon=2)
    assert data.values.shape == (100, 7)
    assert data.y.shape == (59, 2)


def test_a_window_never_straddles_a_gap(write):
    lines = rows(20)
    data = load_ettm1(write(lines[:8] + lines[9:]), lookback=3, horizon=2)
    assert data.start.tolist() == [0, 1, 2, 3, *range(8, 15)]
    assert data.notes == ("gaps in time: 1; windows across them, left out: 4",)


@given(st.lists(st.sampled_from([10, 10, 10, 10, 7, 20]), max_size=40), st.integers(1, 12))
def test_window_starts_are_all_runs_of_regular_rows(steps, size):
    seconds = np.cumsum([0, *steps])
    slow = [i for i in range(len(seconds) - size + 1) if all(s == 10 for s in np.diff(seconds[i : i + size]))]
    assert window_starts(seconds, 10, size).tolist() == slow


def test_bad_rows_are_named(write):
    lines = rows(12)
    for changed, message in (
        ([*lines[:3], lines[2], *lines[3:]], "line 5: time 2016-07-01 00:30:00 does not come after"),
        ([lines[1], lines[0], *lines[2:]], "line 3: time 2016-07-01 00:00:00 does not come after"),
        ([lines[0], lines[1].replace(",101,", ",,"), *lines[2:]], "line 3: 'HULL' must be a number"),
        ([lines[0].replace(",0,", ",x,"), *lines[1:]], "line 2: 'HUFL' must be a number, got 'x'"),
        ([*lines[:-1], "2016-07-01 02:45:00,1,2"], "line 13: 'MUFL' must be a number, got 'nan'"),
        ([*lines[:-1], lines[-1].replace("2016-", "16-")], "line 13: time '16-07-01 .* not written as"),
        ([], "header and no rows"),
    ):
        with refused(f"ETTm1.csv.*{message}"):
            load_ettm1(write(changed), lookback=2, horizon=1)


def test_other_tables_and_sizes_are_refused(write):
    with refused("columns must start date, HUFL.*got date, HULL"):
        load_ettm1(write(rows(12), HEADER.replace("HUFL,HULL", "HULL,HUFL")))
    with refused("ETTm1.csv is no table with a header"):
        load_ettm1(write(["1,2", "1,2,3,4,5,6,7,8,9,10,11"], header="a,b"))
    for name in ("lookback", "horizon"):
        with refused(f"{name} must be at least 1"):
            load_ettm1(write(rows(12)), **{name: 0})


def test_windows_longer_than_the_data_are_refused(write):
    with pytest.raises(ValueError, match=r"lookback \+ horizon = 13 is longer than any stretch .* 12 rows"):
        load_ettm1(write(rows(12)), lookback=10, horizon=3)
    assert len(load_ettm1(write(rows(12)), lookback=9, horizon=3)) == 1


def test_a_second_load_gives_the_same(write):
    folder = write(rows(30))
    first, second = (load_ettm1(folder, 4, 2) for _ in range(2))
    assert first.digest == second.digest
    assert len(list((folder / "cache" / "parsed").iterdir())) == 1


@real
def test_the_real_file(monkeypatch, tmp_path):
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    data = load_ettm1()
    assert data.values.shape == (69_680, 7)
    assert len(data) == 69_680 - 72 + 1
    assert data.values[:, 6].min().item() == pytest.approx(-4.221, abs=1e-3)
    assert data.values[:, 6].max().item() == pytest.approx(46.007, abs=1e-3)
    assert data.time[-1].item() == 0.25 * 69_679
    assert data.y[-1, -1] == data.values[-1, 6]
    assert len(make_splits(data, SplitBy.TIME)) == 5
