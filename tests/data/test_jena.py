"""Jena climate in both forms, with the hiccups of the station."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import Kind
from nacre.data.sets.jena import COLUMNS, _last_before, load_jena
from support.datasets import jena_file, publish
from support.refused import refused

WIND = COLUMNS.index("wv (m/s)")
REAL = os.environ.get("NACRE_DATA", "")
real = pytest.mark.skipif(not REAL, reason="needs $NACRE_DATA")


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))


def load(tmp_path, data, lookback=2, horizon=1):
    (tmp_path / "jena_climate_2009_2016.csv").write_bytes(data)
    return load_jena(tmp_path, lookback, horizon)


def test_the_official_form(tmp_path):
    data = load(tmp_path, jena_file(range(0, 100, 10)), lookback=4, horizon=3)
    assert (data.name, data.kind) == ("jena", Kind.FORECASTING)
    assert data.form == "official 2009-2016 (checksum not known to nacre)"
    assert data.features == COLUMNS
    assert len(data) == 4
    assert data.target_column == 1
    assert data.targets == ("T+1", "T+2", "T+3")
    assert data.y[-1].tolist() == [107, 108, 109]
    assert data.time[:3].tolist() == pytest.approx([0, 1 / 6, 1 / 3])
    assert data.notes == ()


def test_days_come_before_months(tmp_path):
    data = load(tmp_path, jena_file(range(11 * 1440, 14 * 1440, 10)))  # the 12th, 13th and 14th of January
    assert len(data) == 3 * 144 - 2
    assert data.notes == ()


def test_the_stand_in_gives_the_same_numbers(tmp_path, monkeypatch):
    minutes = range(0, 100, 10)
    official = load(tmp_path, jena_file(minutes))
    text = jena_file(
        minutes, stamp="%Y-%m-%d %H:%M:%S", first="date", more=("rain (mm)", "SWDR (W/m\ufffd)", "OT")
    )
    publish(monkeypatch, tmp_path / "other" / "weather_jena2020", "jena", text, form=1)
    stand_in = load_jena(tmp_path / "other", 2, 1)
    assert stand_in.form == "stand-in: the year 2020 of the same station"
    assert stand_in.digest == official.digest


def test_lost_readings_become_the_last_one_before(tmp_path):
    changes = [(3, WIND, -9999), (4, WIND, -9999), (7, WIND + 1, -9999)]
    data = load(tmp_path, jena_file(range(0, 100, 10), changes))
    assert data.values[:, WIND].tolist() == [1100, 1101, 1102, 1102, 1102, 1105, 1106, 1107, 1108, 1109]
    assert data.values[7, WIND + 1].item() == 1206
    assert data.notes == ("lost readings (-9999) replaced by the last one before: 3",)


@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, -9999.0]), min_size=3, max_size=3), min_size=1, max_size=20)
)
def test_last_before_is_what_a_loop_does(rows):
    values = np.array(rows)
    slow = values.copy()
    for row in range(1, len(slow)):
        for column in range(3):
            if slow[row, column] == -9999:
                slow[row, column] = slow[row - 1, column]
    assert np.array_equal(_last_before(values, values == -9999), slow)


def test_rows_before_the_first_reading_are_left_out(tmp_path):
    data = load(tmp_path, jena_file(range(0, 100, 10), [(0, WIND, -9999), (1, WIND, -9999), (5, 0, -9999)]))
    assert data.values[0, WIND].item() == 1102
    assert data.time[0].item() == 0
    assert len(data.values) == 8
    assert "rows before the first reading of every column, left out: 2" in data.notes
    assert "lost readings (-9999) replaced by the last one before: 1" in data.notes


def test_rows_without_a_temperature_are_left_out_and_windows_keep_clear_of_them(tmp_path):
    data = load(tmp_path, jena_file(range(0, 100, 10), [(4, 1, -9999)]))
    assert data.values[:, 1].tolist() == [100, 101, 102, 103, 105, 106, 107, 108, 109]
    assert data.start.tolist() == [0, 1, 4, 5, 6]
    assert "rows without a temperature, left out: 1" in data.notes


def test_of_equal_times_the_first_row_stays(tmp_path):
    data = load(tmp_path, jena_file([0, 10, 20, 20, 30, 40]))
    assert data.values[:, 0].tolist() == [0, 1, 2, 4, 5]
    assert data.notes == ("rows with the time of an earlier one, left out: 1",)
    assert len(data) == 3


def test_a_block_that_comes_again_is_left_out(tmp_path):
    data = load(tmp_path, jena_file([0, 10, 20, 30, 10, 20, 30, 40, 50]))
    assert data.values[:, 0].tolist() == [0, 1, 2, 3, 7, 8]
    assert data.time.tolist() == pytest.approx([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6])
    assert data.notes == (
        "rows out of order, put in order of time: 2",
        "rows with the time of an earlier one, left out: 3",
    )


def test_windows_never_straddle_a_gap_or_an_odd_step(tmp_path):
    for minutes in ([0, 10, 20, 50, 60, 70], [0, 10, 20, 25, 35, 45]):
        data = load(tmp_path, jena_file(minutes))
        assert data.start.tolist() == [0, 3], minutes
        assert data.notes == ("gaps in time: 1; windows across them, left out: 2",), minutes


def no_wind(text):
    for value in (1100, 1101, 1102, 1103):
        text = text.replace(f",{value}.0".encode(), b",-9999")
    return text


def test_a_file_of_unknown_checksum_must_have_the_right_structure(tmp_path):
    text = jena_file([0, 10, 20, 30])
    for damaged, message in (
        (text[:-60], "must be a number|is not written as"),
        (text.replace(b"T (degC)", b"T (K)"), "columns must start Date Time, p"),
        (text.replace(b"01.01.2009 00:30:00", b"2009-01-01 00:30"), "line 4: time .* not written as"),
        (no_wind(text), "'wv .m/s.' holds no reading at all"),
    ):
        with refused(f"jena_climate_2009_2016.csv.*({message})"):
            load(tmp_path, damaged)


@real
def test_the_real_stand_in(monkeypatch):
    monkeypatch.setenv("NACRE_DATA", REAL)
    data = load_jena()
    assert data.form == "stand-in: the year 2020 of the same station"
    assert len(data.values) == 52_695
    assert len(data) == 52_695 - 2 * 71
    assert data.values.min(0).values[WIND].item() >= 0
    assert data.notes == (
        "rows with the time of an earlier one, left out: 1",
        "lost readings (-9999) replaced by the last one before: 1",
        "gaps in time: 1; windows across them, left out: 71",
    )
