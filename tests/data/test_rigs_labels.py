"""Labels and scores: the authors' columns reproduced, the challenge's rules, and what the paper's label leaks."""

import csv
import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nacre.data.rigs.author_csv import read_author_csv, rig_of, times_of_rows
from nacre.data.rigs.labels import life_fraction, physics_label, remaining_minutes
from nacre.data.rigs.life_metrics import (
    monotonicity,
    paper_score,
    phm_accuracy,
    remaining_from_fraction,
    trendability,
)
from nacre.data.rigs.rig import HUST, PRONOSTIA, XJTU
from support.hypothesis import DEEP
from support.refused import refused

DATA = os.environ.get("NACRE_DATA")
curves = st.lists(st.floats(-2, 2), min_size=2, max_size=20)


# --- labels -------------------------------------------------------------------------------------------------


def test_bearing_what_is_used_and_what_is_left_make_the_life():
    seconds = np.linspace(0, 9000, 7)
    used, left = life_fraction(seconds, 9000), remaining_minutes(seconds, 9000)
    np.testing.assert_allclose(left, (1 - used) * 150)
    assert remaining_minutes(seconds, 9000, most=100).tolist() == [100, 100, 100, 75, 50, 25, 0]
    for call in (lambda: life_fraction(seconds, 0.0), lambda: remaining_minutes(seconds, 9000, most=0.0)):
        with pytest.raises(ValueError, match="must lie in"):
            call()


def test_leak_the_papers_label_is_time_and_nothing_else():
    time = np.arange(5000) * 1000 / 25_600
    label = physics_label(time, np.full(5000, 60.0), 1800, 4000)
    assert (label[0], label[-1]) == (0, 1)
    assert np.abs(label - time / time[-1]).max() < 0.001
    assert paper_score(time / time[-1], label) < 0.5  # reading off the clock
    assert paper_score(np.full(5000, 0.5), label) > 100


def test_bearing_warmer_is_slower_in_the_papers_label():
    time = np.arange(100.0)
    warming = physics_label(time, np.linspace(20, 80, 100), 1800, 4000)
    assert warming[50] > 0.6  # most of it happens while it is cold
    with pytest.raises(ValueError, match="pseudo_seconds must rise"):
        physics_label(np.zeros(3), np.zeros(3), 1800, 4000)


@pytest.mark.skipif(not DATA, reason="needs $NACRE_DATA")
def test_parity_of_the_physics_label_with_the_authors_column():
    """To rounding where temperature is constant; where it is not, their integral is another one."""
    folder = Path(DATA) / "bearings" / "author_features_nac" / "tf_features_pronostia"
    for bearing, tolerance in (("1_2", 1e-9), ("3_1", 1e-9), ("1_4", 5e-4), ("1_7", 1e-4), ("2_7", 1e-3)):
        with gzip.open(folder / f"Bearing{bearing}_features.csv.gz", "rt") as file:
            rows = list(csv.DictReader(file))
        time, celsius, wanted = (
            np.array([float(row[name]) for row in rows]) for name in ("Time", "Temperature", "Degradation")
        )
        condition = PRONOSTIA.condition(f"Bearing{bearing}")
        label = physics_label(time, celsius, condition.rpm, condition.load)
        assert np.abs(label - wanted).max() < tolerance, bearing


# --- the authors' files -------------------------------------------------------------------------------------


def write(path, rows, columns="Horizontal,Vertical,Time", compress=False):
    text = "\n".join([columns, *rows]) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if compress else text.encode())
    return path


def row(number, more="0.0"):
    return f'"{[number + i for i in range(7)]}","{[-number - i for i in range(7)]}",{more}'


def test_bearing_author_files_are_read(tmp_path):
    for compress in (False, True):
        path = tmp_path / "tf_features_pronostia" / f"Bearing1_2_features.csv{'.gz' * compress}"
        table = read_author_csv(write(path, [row(float(i)) for i in range(8)], compress=compress), rig_of(path))
        assert (table.rig, table.name, table.rpm, table.life) == ("pronostia", "Bearing1_2", 1800, None)
        assert table.column("horizontal_energy").tolist() == list(range(8)), path
        assert table.column("vertical_std").tolist() == [-i - 6 for i in range(8)], path
        assert table.seconds[[0, 1, 6]] == pytest.approx([0, 500 / 25_600, 10 + 440 / 25_600])
        assert table.file.tolist() == [0] * 6 + [1] * 2


def test_bearing_rows_that_repeat_the_last_one_are_left_out(tmp_path):
    path = write(tmp_path / "Bearing1_3_features.csv", [row(1.0), row(2.0), row(2.0), ""])
    table = read_author_csv(path, PRONOSTIA)
    assert len(table.seconds) == 2
    assert table.skipped == ("1 rows that repeat the last one",)


def test_bearing_lives_of_xjtu_come_from_their_minutes(tmp_path):
    path = tmp_path / "tf_features_xjtu" / "Bearing1_1_features_with_labels.csv"
    rows = [row(float(i), f"{123 - i // 66},0.0") for i in range(140)]
    table = read_author_csv(write(path, rows, "Horizontal,Vertical,RUL,Time"), rig_of(path))
    assert (table.rig, table.name, table.life) == ("xjtu-sy", "Bearing1_1", 123 * 60)
    assert table.seconds[66] == pytest.approx(60 + (66 * 500 - 32_768) / 25_600)
    assert rig_of(tmp_path / "tf_features_hust" / "a.csv") == HUST
    assert times_of_rows(3, HUST)[0] == pytest.approx([0, 500 / 51_200, 1000 / 51_200])
    assert times_of_rows(70, XJTU)[1].tolist() == [0] * 66 + [1] * 4


def test_bearing_damaged_author_files_are_named(tmp_path):
    usual = "Horizontal,Vertical,Time"
    for rows, columns, message in (
        ([], usual, "must have rows with the columns"),
        (["1,2"], "Horizontal,Time", "must have rows with the columns"),
        (['"[1, 2]","[3, 4]",0'], usual, "Horizontal must hold 7 finite numbers"),
        (['"[1, 2","[3, 4]",0'], usual, "Horizontal must hold lists of numbers"),
        ([row(1.0).replace("2.0", "NaN")], usual, "must hold 7 finite numbers"),
        ([row(1.0, "soon")], "Horizontal,Vertical,RUL", "RUL must be minutes, got 'soon'"),
    ):
        with refused(f"a_features.csv.*{message}", case=columns):
            read_author_csv(write(tmp_path / "a_features.csv", rows, columns), PRONOSTIA)
    path = write(tmp_path / "a_features.csv.gz", [row(1.0)] * 50, compress=True)
    path.write_bytes(path.read_bytes()[:-12])
    with refused("a_features.csv.gz is damaged or no CSV file"):
        read_author_csv(path, PRONOSTIA)


@pytest.mark.skipif(not DATA, reason="needs $NACRE_DATA")
def test_bearing_published_files_are_read():
    paths = sorted((Path(DATA) / "bearings" / "author_features_nac").rglob("*.csv.gz"))
    assert len(paths) == 19
    some = ("xjtu/Bearing1_1", "pronostia/Bearing1_2", "pronostia/Bearing1_3")
    tables = [read_author_csv(path, rig_of(path)) for path in paths if DEEP or any(s in str(path) for s in some)]
    assert {t.rig for t in tables} >= {"pronostia", "xjtu-sy"}
    lives = {(t.rig, t.name): t.seconds[-1] for t in tables}
    # Snapshots of the runs, by the challenge: 871 and 2,375, ten seconds each.
    assert lives["pronostia", "Bearing1_2"] == pytest.approx(8700, abs=1)
    assert lives["pronostia", "Bearing1_3"] == pytest.approx(23_740, abs=1)


# --- scores -------------------------------------------------------------------------------------------------


@given(curves)
def test_bearing_the_papers_score_is_the_sum_of_its_terms(errors):
    wanted = sum(math.exp(-e / 13) - 1 if e < 0 else math.exp(e / 10) - 1 for e in errors)
    assert paper_score(errors, [0.0] * len(errors)) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@given(st.floats(1, 1000), st.floats(0, 2000))
def test_bearing_challenge_accuracy_follows_its_rules(actual, predicted):
    percent = 100 * (actual - predicted) / actual
    wanted = math.exp(-math.log(0.5) * percent / 5) if percent <= 0 else math.exp(math.log(0.5) * percent / 20)
    assert phm_accuracy([predicted], [actual])[0] == pytest.approx(wanted, abs=1e-12)


def test_bearing_accuracy_of_what_has_failed_is_refused():
    with pytest.raises(ValueError, match="actual must be positive"):
        phm_accuracy([1.0], [0.0])


@given(st.floats(0.01, 1.0), st.floats(1, 1e5))
def test_bearing_what_is_left_follows_from_what_is_used(share, elapsed):
    left = remaining_from_fraction([share], [elapsed])[0]
    assert elapsed / (elapsed + left) == pytest.approx(share)


@given(curves)
@example([0.0, 2.042507232733981e-159])  # its square underflows
def test_bearing_shapes_of_curves_lie_between_0_and_1(curve):
    time = np.arange(len(curve), dtype=float)
    assert 0 <= monotonicity(curve) <= 1
    assert 0 <= trendability(curve, time) <= 1 + 1e-9
    assert monotonicity([*sorted(set(curve)), 9.0]) == 1
    assert trendability(time * 3 - 1, time) == pytest.approx(1)
    assert trendability(np.full(len(curve), 0.3), time) == 0


def test_bearing_lists_that_do_not_fit_are_refused():
    for call in (paper_score, phm_accuracy, trendability):
        with pytest.raises(ValueError, match="wanted two lists of the same length"):
            call([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="curve must hold two values"):
        monotonicity([1.0])
