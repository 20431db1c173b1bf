"""Person activity in both forms: merged tags, windows, groups."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import Kind
from nacre.data.sets.person_activity import ACTIVITIES, TAGS, _windows, load_person_activity
from nacre.data.splits import SplitBy, make_splits
from support.datasets import publish
from support.refused import refused

START = 633790226051280000  # ticks
REAL = os.environ.get("NACRE_DATA", "")
real = pytest.mark.skipif(not REAL, reason="needs $NACRE_DATA")


def official(persons="ABCDE", rows=6):
    """Rows as lists of texts: recording i of person p has rows + i rows, 0.05 s apart; x is the row."""
    made = []
    for person in persons:
        for number in range(1, 6):
            for row in range(rows + number):
                tag = list(TAGS)[row % 4]
                activity = ACTIVITIES[(row + number) % 11]
                quoted = f"'{activity}'" if " " in activity else activity
                ticks = START + number * 10**10 + row * 500_000 + 7
                made.append([f"{person}{number:02d}", tag, str(ticks), "27.05.2009 14:03:25:127", f"{row}.5",
                             "2.25", "-0.5", quoted])  # fmt: skip
    return made


def text(rows):
    return "\n".join(",".join(row) for row in rows).encode() + b"\n"


@pytest.fixture
def write(monkeypatch, tmp_path):
    """Write files of one form, and make their checksums the known ones."""

    def put(form, *contents):
        return publish(monkeypatch, tmp_path, "person-activity", *contents, form=form)

    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    return put


def test_the_official_form(write):
    data = load_person_activity(write(0, text(official())), window=4, stride=2)
    assert (data.name, data.kind, data.form) == (
        "person-activity", Kind.STEP_CLASSIFICATION, "official, five persons"
    )  # fmt: skip
    assert data.features == ("x", "y", "z", "ankle left", "ankle right", "chest", "belt")
    assert data.classes == ACTIVITIES
    assert len(data.groups) == 25
    assert data.groups[:6] == ("A01", "A02", "A03", "A04", "A05", "B01")
    first = data.batch(torch.tensor([0]))
    assert first.x[0, 1].tolist() == [1.5, 2.25, -0.5, 0, 1, 0, 0]
    assert first.time[0].tolist() == [0, 0.05, 0.1, 0.15]
    assert [data.classes[i] for i in first.y[0]] == [ACTIVITIES[i] for i in (1, 2, 3, 4)]
    assert data.notes == ()


def test_the_stand_in_gives_the_same_but_for_the_rounded_time(write):
    contents = []
    for person in "AB":
        rows = official(person)
        lines = [",Sequence Name,Tag identificator,timestamp,date,x,y,z,activity"]
        for index, row in enumerate(rows):
            rounded = [row[0], row[1], f"{float(row[2]):.15g}", *row[3:7], row[7].strip("'")]
            lines.append(",".join([str(index), *rounded]))
        contents.append("\n".join(lines).encode())
    stand_in = load_person_activity(write(1, *contents), window=4, stride=2)
    assert stand_in.form == "stand-in: persons A and B only, of five; times rounded to 0.1 ms"
    assert stand_in.groups == tuple(f"{p}{i:02d}" for p in "AB" for i in range(1, 6))
    whole = load_person_activity(write(0, text(official())), window=4, stride=2)
    n, rows = len(stand_in), len(stand_in.values)
    assert torch.equal(stand_in.values, whole.values[:rows])
    assert torch.equal(stand_in.y, whole.y[:rows])
    assert torch.equal(stand_in.start, whole.start[:n])
    torch.testing.assert_close(stand_in.time, whole.time[:rows], rtol=0, atol=1.1e-4)


def test_time_starts_anew_in_every_recording(write):
    data = load_person_activity(write(0, text(official())), window=4, stride=4)
    firsts = [int(data.start[data.group == i].min()) for i in range(25)]
    assert data.time[firsts].tolist() == [0.0] * 25
    assert data.time.max().item() == 0.5  # the longest has 11 rows


def test_ticks_keep_all_their_digits(write):
    rows = official()
    rows[1][2] = str(int(rows[0][2]) + 1)  # 100 ns later; a float64 of the whole number would lose it
    assert load_person_activity(write(0, text(rows))).time[1].item() == 1e-7


def test_rows_are_put_in_order_of_time_and_equal_times_keep_the_order_of_the_file(write):
    rows = official()
    rows[2][2] = rows[1][2]
    rows[4], rows[5] = rows[5], rows[4]
    data = load_person_activity(write(0, text(rows)))
    assert data.values[:7, 0].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert bool((data.time[:7].diff() >= 0).all())
    assert data.notes == ("rows out of order, put in order of time: 1",)


def test_recordings_in_any_order_of_the_file_come_out_in_order_of_name(write):
    rows = official()
    turned = rows[50:] + rows[:50]
    plain = load_person_activity(write(0, text(rows)))
    assert load_person_activity(write(0, text(turned))).digest == plain.digest


def test_each_fold_scores_one_recording_of_every_person(write):
    data = load_person_activity(write(0, text(official(rows=40))))
    for number, split in enumerate(make_splits(data, SplitBy.GROUP)):
        scored = sorted({data.groups[i] for i in data.group[split.test].tolist()})
        assert scored == [f"{person}0{number + 1}" for person in "ABCDE"]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 12), st.data())
def test_windows_cover_every_row_and_stay_inside_a_recording(rows, window, data):
    stride = data.draw(st.integers(1, window))
    recording = np.repeat(np.arange(len(rows)), rows)
    start, length, group = _windows(recording, window, stride)
    covered = np.zeros(len(recording), dtype=bool)
    for first, count, index in zip(start, length, group, strict=True):
        assert set(recording[first : first + count]) == {index}
        assert count == min(window, rows[index])
        covered[first : first + count] = True
    assert covered.all()
    offset = np.cumsum(rows) - rows
    for index, count in enumerate(rows):
        mine = (start[group == index] - offset[index]).tolist()
        regular = list(range(0, max(count - window, 0) + 1, stride))
        assert mine[: len(regular)] == regular
        assert len(mine) == len(set(mine)) <= len(regular) + 1


def change(row, column, value):
    rows = official()
    rows[row][column] = value
    return rows


def test_bad_rows_are_named(write):
    rows = official()
    for damaged, message in (
        (change(2, 4, "here"), "line 3: wanted a number in timestamp, x, y and z, got A01"),
        (change(3, 2, ""), "line 4: wanted a number"),
        (change(1, 1, "010-000-024-034"), "line 2: wanted one of the four tags"),
        (change(0, 7, "dancing"), "line 1: wanted one of the eleven activities, got .*dancing"),
        ([*rows[:-1], rows[-1][:5]], "line [0-9]+: wanted a number"),
        ([row for row in rows if row[0] != "C04"], "missing or unknown: C04"),
        ([*rows, ["A06", *rows[0][1:]]], "missing or unknown: A06"),
        ([["<html>"]], "line 1: wanted a number"),
        ([[]], "has no rows"),
    ):
        with refused(f"ConfLongDemo_JSI.txt.*{message}"):
            load_person_activity(write(0, text(damaged)))


def test_a_stride_that_skips_rows_is_refused():
    with pytest.raises(ValueError, match="stride must be at most window = 4"):
        load_person_activity(window=4, stride=5)


@real
def test_the_real_stand_in(monkeypatch, tmp_path):
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    data = load_person_activity()
    assert data.values.shape == (57_623, 7)
    assert data.answers(torch.arange(len(data))).shape == (57_623,)
    counts = {group: int((data.group == i).sum()) for i, group in enumerate(data.groups)}
    assert list(counts) == [f"{p}{i:02d}" for p in "AB" for i in range(1, 6)]
    assert counts["A01"] == (5_830 - 32 + 15) // 16 + 1
    assert data.y.bincount(minlength=11)[ACTIVITIES.index("lying")].item() == 10_597 + 10_106
    assert data.time.max().item() == pytest.approx(218.6086, abs=1e-3)
    assert all(len(split.test) > 500 for split in make_splits(data, SplitBy.GROUP))
