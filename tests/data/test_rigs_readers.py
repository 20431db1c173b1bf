"""Raw files of the three rigs: what is read, and how bad files are named."""

import os
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from nacre.data.rigs.readers import (
    BadFile,
    past_midnight,
    read_acceleration,
    read_mat,
    read_minute,
    read_temperature,
)
from nacre.data.rigs.recordings import find_recordings
from support.bearings import vibration, write_hust, write_pronostia, write_xjtu
from support.refused import refused

DATA = os.environ.get("NACRE_DATA")


def test_bearing_pronostia_files_in_both_separators_and_field_orders(tmp_path):
    for number, (separator, first) in enumerate(product((",", ";"), (False, True))):
        folder = write_pronostia(tmp_path / str(number), 2, separator, accelerations_first=first)
        one, two = (read_acceleration(folder / f"acc_0000{number}.csv") for number in (1, 2))
        np.testing.assert_allclose(one.samples, vibration(2560, 0.5, seed=0).round(3), atol=1e-9)
        assert one.start == pytest.approx(9 * 3600 + 39 * 60 + 39.065664), separator
        assert two.start - one.start == pytest.approx(10.0), separator
        assert one.rate == 25_600


def test_bearing_temperatures_of_all_files(tmp_path):
    folder = write_pronostia(tmp_path / "Bearing1_1", 6)
    seconds, degrees = read_temperature([folder / "temp_00001.csv"] * 2)
    assert len(seconds) == len(degrees) == 1200
    assert np.diff(seconds[:600]) == pytest.approx(0.1)
    assert degrees.min() >= 60


def test_bearing_clocks_go_on_after_midnight():
    assert past_midnight(np.array([86_399.0, 1.0, 86_300.0, 5.0])).tolist() == [86_399, 86_401, 172_700, 172_805]


def test_bearing_xjtu_axes_are_found_by_name(tmp_path):
    folder = write_xjtu(tmp_path / "Bearing2_1", 2)
    header, *lines = (folder / "2.csv").read_text().splitlines()
    turned = [",".join(reversed(line.split(","))) for line in (header, *lines)]
    for text in ("\n".join([header, *lines]), "\n".join(turned)):
        (folder / "2.csv").write_text(text)
        shot = read_minute(folder / "2.csv")
        np.testing.assert_allclose(shot.samples, vibration(32_768, 1.0, knocks=107.9, seed=2), atol=1e-6)
        assert (shot.start, shot.rate) == (60.0, 25_600.0)


def test_bearing_hust_one_axis_stands_for_both(tmp_path):
    wanted = vibration(20_000, 0.7, 51_200.0)
    for axes, columns in ((1, [0, 0]), (2, [0, 1])):
        shot = read_mat(write_hust(tmp_path / "N502.mat", axes=axes))
        np.testing.assert_allclose(shot.samples, wanted[:, columns])
        assert shot.rate == 51_200


def test_bearing_hust_a_rate_can_be_given_where_the_file_says_none(tmp_path):
    savemat(tmp_path / "a.mat", {"x": vibration(3000, 0.1).T})
    with pytest.raises(BadFile, match="a.mat does not say how fast it was sampled; give --rate, 51200 for HUST"):
        read_mat(tmp_path / "a.mat")
    assert read_mat(tmp_path / "a.mat", 12_000.0).rate == 12_000
    assert read_mat(tmp_path / "a.mat", 12_000.0).samples.shape == (3000, 2)


# --- finding ------------------------------------------------------------------------------------------------


def test_bearing_recordings_of_all_rigs_are_found(tmp_path):
    names = [f"Bearing1_2/acc_0000{i}.csv" for i in range(1, 7)] + ["Bearing1_2/temp_00001.csv"]
    names += [f"Bearing1_10/acc_0000{i}.csv" for i in (1, 2)]
    for name in (*(f"femto/Learning_set/{name}" for name in names), "35Hz12kN/Bearing1_1/1.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    write_hust(tmp_path / "hust" / "B400.mat")
    found = find_recordings([tmp_path])
    assert [(each.rig.name, each.name, len(each.files)) for each in found] == [
        ("hust", "B400", 1),
        ("pronostia", "Bearing1_2", 6),
        ("pronostia", "Bearing1_10", 2),
        ("xjtu-sy", "Bearing1_1", 1),
    ]
    assert [len(each.temperatures) for each in found] == [0, 1, 0, 0]
    assert [each.name for each in find_recordings([tmp_path / "hust" / "B400.mat"])] == ["B400"]


def test_bearing_minutes_come_in_order_of_their_numbers(tmp_path):
    for number in (1, 2, 10, 11, 9):
        (tmp_path / f"{number}.csv").write_text("")
    (recording,) = find_recordings([tmp_path])
    assert [path.name for path in recording.files] == ["1.csv", "2.csv", "9.csv", "10.csv", "11.csv"]
    assert recording.missing == tuple(f"{number}.csv" for number in range(3, 9))


def test_bearing_nothing_and_too_much_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no recordings in .*; wanted folders with acc_00001.csv"):
        find_recordings([tmp_path])
    for part in ("Test_set", "Full_Test_Set"):
        write_pronostia(tmp_path / part / "Bearing1_3", 1)
    with pytest.raises(ValueError, match="pronostia Bearing1_3 is there 2 times.*give one of them"):
        find_recordings([tmp_path])


@pytest.mark.skipif(not DATA, reason="needs $NACRE_DATA")
def test_bearing_official_files_are_read():
    folder = Path(DATA) / "bearings" / "pronostia_official_excerpt"
    found = find_recordings([folder])
    assert [each.name for each in found] == ["Bearing1_1", "Bearing1_4", "Bearing2_7"]
    for recording in found:
        shots = [recording.read(path) for path in recording.files]
        assert np.diff([shot.start for shot in shots]) == pytest.approx(10.0, abs=0.1)
        assert all(0.1 < shot.samples.std() < 2 for shot in shots)
        if recording.temperatures:
            assert len(read_temperature(recording.temperatures)[0]) >= 600


# --- bad files ----------------------------------------------------------------------------------------------


def swapped(text):
    return "\n".join(",".join(line.split(",")[i] for i in (4, 0, 1, 2, 3, 5)) for line in text.splitlines())


def silent(text):
    return "\n".join(",".join([*line.split(",")[:5], "0.1"]) for line in text.splitlines())


def test_bearing_bad_pronostia_files_are_named(tmp_path):
    path = write_pronostia(tmp_path / "Bearing1_1", 1) / "acc_00001.csv"
    text = path.read_text()
    for changed, message in (
        ("\n".join(text.splitlines()[:1000]), "holds 1,000 samples, its rig records 2,560"),
        (text.replace("\n", ",1\n"), "has 7 columns; wanted hour"),
        (swapped(text), "neither the first four columns nor the last four are hour, .*are columns swapped"),
        (silent(text), "all samples of the vertical axis are 0.1; was its sensor connected"),
        (re.sub(r",[^,]*\n", ",nan\n", text, count=2), "2 samples are NaN .* number 1 of the vertical"),
        (text.replace("9,39,39", "9,39,x", 1), "must hold rows of numbers"),
        ("", "holds no numbers; it may be cut off"),
        ("\xe4\xf6", "is no text"),
    ):
        path.write_text(changed)
        with refused(f"{path}.*{message}", BadFile):
            read_acceleration(path)


def test_bearing_bad_temperatures_are_named(tmp_path):
    path = tmp_path / "temp_00001.csv"
    for text, message in (
        ("8;41;21;6\n", "wanted hour, minute"),
        ("8;61;21;6;70\n", "wanted hour"),
        ("8;4;21;6;nan\n", "a temperature is NaN"),
    ):
        path.write_text(text)
        with refused(f"temp_00001.csv: {message}", BadFile):
            read_temperature([path])


def test_bearing_bad_xjtu_files_are_named(tmp_path):
    path = tmp_path / "1.csv"
    for text, message in (
        ("1,2\n3,4\n", "must begin with Horizontal_vibration_signals,Vertical_vibration_signals, got '1,2'"),
        ("Horizontal,Vertical\n1,2\n3,4\n", "holds 2 samples, its rig records 32,768"),
        ("Horizontal,Vertical\n1,2,3\n", "has 3 columns below its header of 2"),
        ("Horizontal,Horizontal\n1,2\n", "must begin with"),
    ):
        path.write_text(text)
        with refused(f"1.csv {message}", BadFile):
            read_minute(path)


def test_bearing_bad_mat_files_are_named(tmp_path):
    path = tmp_path / "a.mat"
    for content, message in (
        ({}, "must hold one signal of 1,000 samples or more, found none"),
        ({"a": np.zeros(2000), "b": np.zeros(2000)}, "found a, b"),
        ({"a": np.zeros((40, 40))}, r"a has shape \(40, 40\); wanted samples of one axis or two"),
        ({"a": np.zeros(2000), "fs": 100.0}, "all samples of the horizontal axis are 0"),
        ({"a": vibration(2000, 0), "fs": [1.0, 2.0]}, "fs must be one sampling rate in Hz, got"),
    ):
        savemat(path, content)
        with refused(f"a.mat.*{message}", BadFile):
            read_mat(path)


def test_bearing_files_that_are_no_mat_files_are_named(tmp_path):
    whole = write_hust(tmp_path / "a.mat").read_bytes()
    for content in (b"", b"text" * 100, whole[:500], whole[:-100]):
        (tmp_path / "a.mat").write_bytes(content)
        with pytest.raises(BadFile, match="a.mat is damaged or no MAT file"):
            read_mat(tmp_path / "a.mat")
    (tmp_path / "a.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\x00" * 500)
    with pytest.raises(BadFile, match="version 7.3; save it as version 7"):
        read_mat(tmp_path / "a.mat")
