"""From raw recordings to tables: right, whole, resumable; bad files are refused, or counted on request."""

import os
from pathlib import Path

import numpy as np
import pytest

from nacre.bearings import extract as module
from nacre.bearings.extract import Extraction, extract
from nacre.data.rigs.author_csv import read_author_csv
from nacre.data.rigs.feature_table import FeatureTable, read_table, write_table
from nacre.data.rigs.readers import BadFile
from nacre.data.rigs.rig import PRONOSTIA
from nacre.signals.features import WINDOW_FEATURES, WindowFeatures, windows_of
from support.bearings import vibration, write_hust, write_pronostia, write_xjtu
from support.refused import refused


def run(tmp_path, *places, **options):
    return extract(Extraction(list(places), tmp_path / "out", **({"jobs": 1} | options)))


def test_bearing_tables_hold_the_features_of_every_window(tmp_path):
    folder = write_pronostia(tmp_path / "raw" / "Bearing1_1", 7)
    (table,) = run(tmp_path, folder)
    assert (table.rig, table.name, table.rate, table.rpm, table.load) == (
        "pronostia",
        "Bearing1_1",
        25_600,
        1800,
        4000,
    )
    assert len(table.seconds) == 7 * 4
    # Snapshots are ten seconds apart, windows within them 500 samples.
    assert table.seconds[:5] == pytest.approx([0, 500 / 25_600, 1000 / 25_600, 1500 / 25_600, 10.0])
    assert table.file.tolist() == np.repeat(np.arange(7), 4).tolist()
    assert table.names[:10] == tuple(f"horizontal_{name}" for name in WINDOW_FEATURES)
    assert table.names[10:14] == tuple(f"horizontal_{name}" for name in ("bpfo", "bpfi", "bsf", "ftf"))
    windows = windows_of(vibration(2560, 3 / 7, seed=2).round(3))
    wanted = WindowFeatures(25_600.0)(windows).numpy()
    np.testing.assert_allclose(table.values[8:12, :10], wanted[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table.values[8:12, 14:24], wanted[:, 1], rtol=1e-9, atol=1e-12)
    # The first temperature is as old as the first sample; the file covers a minute.
    assert np.isfinite(table.temperature).all()
    assert 60 <= table.temperature.min() <= table.temperature.max() <= 66


@pytest.mark.slow
def test_bearing_wear_shows_in_all_formats_and_with_two_processes(tmp_path):
    write_pronostia(tmp_path / "raw" / "Bearing1_1", 6)
    write_xjtu(tmp_path / "raw" / "35Hz12kN" / "Bearing1_4", 2)
    for wear in (0, 9):
        write_hust(tmp_path / "raw" / f"B{wear}00.mat", samples=5000, wear=wear / 9)
    tables = {f"{t.rig} {t.name}": t for t in run(tmp_path, tmp_path / "raw", jobs=2)}
    assert list(tables) == ["hust B000", "hust B900", "pronostia Bearing1_1", "xjtu-sy Bearing1_4"]
    for name in ("pronostia Bearing1_1", "xjtu-sy Bearing1_4"):
        rms, bpfo = (tables[name].column(f"horizontal_{what}") for what in ("rms", "bpfo"))
        half = len(rms) // 2
        assert rms[half:].mean() > 1.3 * rms[:half].mean()
        assert bpfo[half:].mean() > 1.3 * bpfo[:half].mean()
    assert tables["xjtu-sy Bearing1_4"].seconds[-1] == pytest.approx(60 + 500 * 63 / 25_600)
    assert (
        tables["hust B900"].column("vertical_rms").mean() > 2 * tables["hust B000"].column("vertical_rms").mean()
    )
    assert "horizontal_bpfo" not in tables["hust B900"].names  # neither bearing nor speed is known
    assert np.isnan(tables["hust B900"].temperature).all()


def test_bearing_a_night_shift_goes_on_after_midnight(tmp_path):
    (table,) = run(tmp_path, write_pronostia(tmp_path / "Bearing1_1", 4, began=(23, 59, 45, 0)))
    assert table.seconds[::4] == pytest.approx([0, 10, 20, 30])


def test_bearing_an_interrupted_extraction_goes_on(tmp_path, monkeypatch):
    folder = write_pronostia(tmp_path / "raw" / "Bearing1_1", 7)
    monkeypatch.setattr(module, "_FILES", 2)
    whole = run(tmp_path / "whole", folder)[0]
    done, real = [], module.rows_of

    def rows_of(recording, number, extractors):
        if number == 5 and len(done) == 5:
            raise KeyboardInterrupt
        done.append(number)
        return real(recording, number, extractors)

    monkeypatch.setattr(module, "rows_of", rows_of)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, folder)
    assert not list((tmp_path / "out").rglob("*.parquet"))
    again = run(tmp_path, folder)[0]
    assert done == [0, 1, 2, 3, 4, 4, 5, 6]  # of the third pair nothing was kept
    np.testing.assert_array_equal(again.values, whole.values)
    assert [path.name for path in (tmp_path / "out" / "pronostia").iterdir()] == ["Bearing1_1.parquet"]
    run(tmp_path, folder)
    assert len(done) == 8, "a table that is there is not made again"


def test_bearing_a_file_that_has_changed_is_read_again(tmp_path, monkeypatch):
    folder = write_pronostia(tmp_path / "raw" / "Bearing1_1", 4)
    monkeypatch.setattr(module, "_FILES", 2)
    bad = folder / "acc_00004.csv"
    text = bad.read_text()
    bad.write_text("")
    with pytest.raises(BadFile, match="acc_00004.csv holds no numbers"):
        run(tmp_path, folder)
    bad.write_text(text)
    assert len(run(tmp_path, folder)[0].seconds) == 16


def test_bearing_bad_files_are_left_out_on_request_and_counted(tmp_path, capsys):
    folder = write_pronostia(tmp_path / "raw" / "Bearing1_1", 6)
    (folder / "acc_00002.csv").unlink()
    with pytest.raises(BadFile, match=r"1 snapshots are missing \(acc_00002.csv\); get them, or leave them out"):
        run(tmp_path, folder)
    (folder / "acc_00004.csv").write_text("1,2\n")
    (table,) = run(tmp_path, folder, skip_bad=True)
    assert len(table.seconds) == 4 * 4
    assert table.seconds[::4] == pytest.approx([0, 20, 40, 50])  # what is left out leaves a gap
    assert len(table.skipped) == 2
    assert "acc_00004.csv has 2 columns" in table.skipped[0]
    assert table.skipped[1] == "acc_00002.csv is missing"
    assert " 2 " in next(line for line in capsys.readouterr().out.splitlines() if "Bearing1_1" in line)
    for path in folder.glob("acc_*"):
        path.write_text("")
    with pytest.raises(BadFile, match="no file of Bearing1_1 could be used"):
        extract(Extraction([folder], tmp_path / "none", skip_bad=True, jobs=1))


def test_bearing_a_file_that_was_mended_or_added_later_is_read(tmp_path):
    folder = write_pronostia(tmp_path / "raw" / "Bearing1_1", 4)
    bad = folder / "acc_00003.csv"
    text = bad.read_text()
    bad.write_text("")
    assert len(run(tmp_path, folder, skip_bad=True)[0].seconds) == 12
    bad.write_text(text)
    (table,) = run(tmp_path, folder)
    assert len(table.seconds) == 16
    assert table.skipped == ()
    longer = write_pronostia(tmp_path / "longer" / "Bearing1_1", 5)
    (folder / "acc_00005.csv").write_text((longer / "acc_00005.csv").read_text())
    assert len(run(tmp_path, folder)[0].seconds) == 20


def test_bearing_all_bad_files_are_named_and_the_good_ones_are_done(tmp_path):
    write_pronostia(tmp_path / "raw" / "Bearing1_1", 2)
    bad = write_pronostia(tmp_path / "raw" / "Bearing1_2", 8)
    for path in sorted(bad.glob("acc_*"))[1:]:
        path.write_text("")
    with pytest.raises(BadFile) as caught:
        run(tmp_path, tmp_path / "raw")
    lines = str(caught.value).splitlines()
    assert "acc_00002.csv holds no numbers" in lines[0]
    assert lines[5:] == ["and 2 more", "--skip-bad leaves such files out, and counts them"]


@pytest.mark.skipif(not os.environ.get("NACRE_DATA"), reason="needs $NACRE_DATA")
def test_parity_of_official_snapshots_with_the_authors_file(tmp_path):
    """Their windows lead across the joints of snapshots; the first four of Bearing2_7 lie within the first one."""
    folder = Path(os.environ["NACRE_DATA"]) / "bearings"
    tables = {each.name: each for each in run(tmp_path, folder / "pronostia_official_excerpt")}
    assert {name: len(each.seconds) for name, each in tables.items()} == {
        "Bearing1_1": 16, "Bearing1_4": 16, "Bearing2_7": 48,
    }  # fmt: skip
    theirs = read_author_csv(
        folder / "author_features_nac" / "tf_features_pronostia" / "Bearing2_7_features.csv.gz", PRONOSTIA
    )
    mine = tables["Bearing2_7"]
    for name in theirs.names:
        np.testing.assert_allclose(mine.column(name)[:4], theirs.column(name)[:4], rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(mine.seconds[:4], theirs.seconds[:4])
    assert mine.seconds[::4] == pytest.approx(np.arange(12) * 10.0, abs=0.01)


# --- tables -------------------------------------------------------------------------------------------------


def table(**changes):
    parts = {
        "rig": "mine",
        "name": "a",
        "seconds": np.arange(3.0),
        "names": ("x", "y"),
        "values": np.arange(6.0).reshape(3, 2),
        "temperature": np.array([20.0, np.nan, 21.0]),
        "file": np.array([0, 0, 1]),
        "files": ("1", "2"),
        "rate": 100.0,
    }
    return FeatureTable(**(parts | changes))


def test_bearing_tables_come_back_as_they_were_written(tmp_path):
    path = write_table(tmp_path / "new" / "a.parquet", table(rpm=30.0, skipped=("3 is missing",)))
    back = read_table(path)
    for name, value in vars(table(rpm=30.0, skipped=("3 is missing",))).items():
        np.testing.assert_array_equal(getattr(back, name), value)
    assert back.column("y").tolist() == [1, 3, 5]
    with pytest.raises(ValueError, match="mine a has no feature 'z'; it has x, y"):
        back.column("z")


def test_bearing_tables_whose_parts_do_not_fit_are_refused():
    for change in ({"seconds": np.arange(2.0)}, {"names": ("x",)}):
        with refused("mine a: times, features and names do not fit together", case=f"{change}"):
            table(**change)
    with refused("mine a: time must not go back"):
        table(seconds=np.array([0.0, 2.0, 1.0]))


def test_bearing_damaged_tables_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("nacre.data.rigs.feature_table.FORMAT", 2)
    later = write_table(tmp_path / "a.parquet", table()).read_bytes()
    monkeypatch.undo()
    path = write_table(tmp_path / "a.parquet", table())
    whole = path.read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], later):
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"a.parquet is damaged, or no table of features .*nacre data features"
        ):
            read_table(path)
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "gone.parquet")
