"""Bearings as a data set: rows, sequences and labels against plain loops, and where tables are looked for."""

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.rigs.feature_table import write_table
from nacre.data.rigs.labels import physics_label
from nacre.data.rigs.rig import RIGS
from nacre.data.sets.bearings import find_tables, load_bearings
from nacre.signals.features import HOP, PAPER
from support.bearings import AWAY, AXES, HOME, feature_table, feature_tables, write_tables
from support.hypothesis import examples
from support.refused import refused


def write_author_csv(path, numbers):
    rows = [f'"{[n + i for i in range(7)]}","{[2 * n + i for i in range(7)]}",0.0' for n in numbers]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["Horizontal,Vertical,Time", *rows]) + "\n")


def plain_inputs(each, window):
    row = dict(zip(each.names, each.values[window].tolist(), strict=True))
    result = []
    for axis in AXES:
        energy, frequency, entropy, kurtosis, skewness, mean, std = (row[f"{axis}_{name}"] for name in PAPER)
        shape = [math.log(x + math.sqrt(x * x + 1)) for x in (kurtosis, skewness)]
        rms = math.sqrt(mean**2 + std**2)
        logs = [math.log10(x + 1e-8) for x in (energy, std, rms)]
        result += [logs[0], frequency, entropy, *shape, mean, *logs[1:]]
    return result


def plain_rows(each, average):
    """(features, seconds, windows, last window) of each row."""
    rows = []
    for snapshot in sorted(set(each.file.tolist())):
        windows = [i for i, file in enumerate(each.file) if file == snapshot]
        parts = max(1, round(len(windows) / average))
        small, large = divmod(len(windows), parts)
        for part in range(parts):
            size = small + (part < large)
            mine, windows = windows[:size], windows[size:]
            inputs = np.mean([plain_inputs(each, i) for i in mine], 0)
            rows.append((inputs, each.seconds[mine[-1]], len(mine), mine[-1]))
    return rows


def life_of(each):
    """Seconds to the failure, where the table does not know better."""
    return each.seconds[-1] + (RIGS[each.rig].period or 1 / each.rate)


def check_against_loops(data, some, steps, average):
    """Every sequence of a data set is made of rows of one bearing, in order, and there are no others."""
    place = 0
    for group, each in enumerate(some):
        rows = plain_rows(each, average)
        for end in range(steps - 1, len(rows)):
            features, seconds, windows, _ = zip(*rows[end - steps + 1 : end + 1], strict=True)
            mine = slice(int(data.start[place]), int(data.start[place] + data.length[place]))
            np.testing.assert_allclose(data.values[mine], np.stack(features), rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(data.time[mine], seconds)
            assert data.y[place, 0] == pytest.approx(seconds[-1] / life_of(each), rel=1e-6)
            assert data.group[place] == group
            assert data.metrics.seconds[place] == seconds[-1]
            assert data.metrics.windows[place] == windows[-1]
            assert data.metrics.bearing[place] == each.name
            place += 1
    assert place == len(data)


@examples(25)
@given(st.lists(st.integers(1, 9), min_size=4, max_size=7), st.integers(2, 4), st.integers(1, 6))
def test_bearing_sequences_equal_a_plain_loop(windows, steps, average):
    short = feature_tables(windows[2:], AWAY[1:])  # perhaps too short for a sequence
    some = sorted([*feature_tables(windows, HOME), *short], key=lambda each: (each.rig, each.name))
    with TemporaryDirectory() as folder:
        data = load_bearings(write_tables(Path(folder), some), steps=steps, average=average)
    kept = [each for each in some if len(plain_rows(each, average)) >= steps]
    assert data.groups == tuple(f"{each.rig} {each.name}" for each in kept)
    check_against_loops(data, kept, steps, average)


def test_bearing_metrics_know_the_lives(tmp_path):
    some = feature_tables()
    some[3] = replace(some[3], life=5000.0)
    data = load_bearings(write_tables(tmp_path, some), steps=3)
    wanted = {
        "hust I601": ("HUST", np.nan),
        "pronostia Bearing1_1": ("PRONOSTIA", 80 + 3 * HOP / 25_600),
        "pronostia Bearing1_3": ("PRONOSTIA", 5000.0),
        "pronostia Bearing2_1": ("PRONOSTIA conditions 2 and 3", 80 + 3 * HOP / 25_600),
        "xjtu-sy Bearing1_1": ("XJTU-SY", 480 + 3 * HOP / 25_600),
    }
    for name, (part, life) in wanted.items():
        mine = (data.group == data.groups.index(name)).numpy()
        assert set(data.metrics.part[mine]) == {part}
        np.testing.assert_allclose(data.metrics.life[mine], life)


def test_bearing_a_rig_of_your_own_is_transfer_and_has_lives(tmp_path):
    own = replace(feature_table("xjtu-sy", "Bearing1_1"), rig="mine", name="Bearing1_9", rpm=None, load=None)
    for label in ("fraction", "physics"):
        data = load_bearings(write_tables(tmp_path, [*feature_tables(known=HOME), own]), label, steps=3)
        mine = data.group == data.groups.index("mine Bearing1_9")
        assert data.transfer.tolist() == mine.tolist()
        assert set(data.metrics.part[mine.numpy()]) == {"mine"}
        assert data.metrics.life[mine.numpy()] == pytest.approx(own.seconds[-1] + 1 / own.rate)


def test_bearing_transfer_is_all_but_the_first_condition_of_pronostia(tmp_path):
    data = load_bearings(write_tables(tmp_path, feature_tables()), steps=3)
    for part, name in enumerate(data.groups):
        assert set(data.transfer[data.group == part].tolist()) == {not name.startswith("pronostia Bearing1_")}
    assert 0 < data.transfer.sum() < len(data)


def test_bearing_minutes_left_are_cut_off(tmp_path):
    some = feature_tables()
    write_tables(tmp_path, some)
    rows = [(life_of(each), row[1]) for each in some for row in plain_rows(each, 5)[2:]]
    for most in (0.5, 120.0):
        data = load_bearings(tmp_path, "rul", steps=3, most=most)
        wanted = [min((life - seconds) / 60, most) for life, seconds in rows]
        assert data.y[:, 0].tolist() == pytest.approx(wanted, rel=1e-6), most
        assert (data.y.max() == most) == (most == 0.5)
        assert data.targets == ("minutes left",)


def test_bearing_the_papers_label_is_that_of_the_last_window(tmp_path):
    some = feature_tables()
    data = load_bearings(write_tables(tmp_path, some), "physics", steps=3, average=2)
    wanted = []
    for each in some:
        celsius = [25.0 if math.isnan(degrees) else degrees for degrees in each.temperature]
        time = np.array([1000 * i / each.rate for i in range(len(celsius))])
        label = physics_label(time, np.array(celsius), each.rpm or 1800.0, each.load or 4000.0)
        wanted += [label[last] for *_, last in plain_rows(each, 2)[2:]]
    assert data.y[:, 0].tolist() == pytest.approx(wanted, rel=1e-6)


def test_leak_bearing_neither_time_nor_temperature_is_an_input(tmp_path):
    some = feature_tables()
    warm = [replace(each, temperature=np.linspace(0, 90, len(each.seconds))) for each in some]
    for label in ("fraction", "rul", "physics"):
        plain, other = (
            load_bearings(write_tables(tmp_path / name, those), label, steps=3)
            for name, those in (("plain", some), ("warm", warm))
        )
        assert plain.values.equal(other.values)
        assert plain.y.equal(other.y) == (label != "physics")
        assert not any(word in name for name in plain.features for word in ("time", "second", "temp", "age"))


def test_bearing_tables_of_the_authors_are_read_beside_others(tmp_path):
    write_tables(tmp_path, feature_tables(known=HOME[:2]))
    numbers = [1.0, 4.0, 2.0, 8.0, 5.0, 7.0, 6.0, 3.0, 3.0]  # the last row twice
    write_author_csv(tmp_path / "authors" / "Bearing1_7_features.csv", numbers)
    data = load_bearings(tmp_path, steps=2, average=6)
    assert data.groups[2] == "pronostia Bearing1_7"
    assert data.notes == ("pronostia Bearing1_7: 1 rows that repeat the last one",)
    (last,) = (data.group == 2).nonzero().squeeze(1).tolist()  # two snapshots, of six and of two windows
    energy = data.values[int(data.start[last]) :, 0]
    assert energy.tolist() == pytest.approx(
        [np.log10(numbers[:6]).mean(), np.log10(numbers[6:8]).mean()], rel=1e-5
    )


def test_bearing_the_checksum_of_every_file_is_kept(tmp_path):
    data = load_bearings(write_tables(tmp_path, feature_tables()), steps=3)
    wanted = [hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.rglob("*.parquet")]
    assert sorted(data.files.values()) == sorted(wanted)


def places_of(found):
    return {each.path.parent.parent for each in found}


def test_bearing_tables_are_looked_for_in_the_folder_and_below(tmp_path):
    for number, below in enumerate(("bearings-features", "bearings", ".")):
        folder = tmp_path / str(number)
        write_tables(folder / below, feature_tables())
        found = find_tables(folder)
        assert [(each.table.rig, each.table.name) for each in found] == sorted([*HOME, *AWAY]), below
        assert places_of(found) == {folder / below}, below


def test_bearing_tables_are_looked_for_in_order(tmp_path, monkeypatch):
    here, chosen, cache = (tmp_path / name for name in ("here", "chosen", "cache"))
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("NACRE_CACHE", str(cache))
    monkeypatch.setenv("NACRE_DATA", str(chosen))
    with pytest.raises(FileNotFoundError, match="make some with `nacre data features`") as caught:
        find_tables()
    assert all(str(folder / "bearings-features") in str(caught.value) for folder in (chosen, cache))
    for root in (cache, chosen, Path()):
        for name in ("bearings", "bearings-features"):  # each is preferred to all before it
            write_tables(root / name, feature_tables(known=HOME))
            assert places_of(find_tables()) == {root / name}
    monkeypatch.delenv("NACRE_DATA")
    monkeypatch.chdir(tmp_path)
    assert places_of(find_tables()) == {cache / "bearings-features"}
    with pytest.raises(FileNotFoundError, match=f"no features of bearings in {tmp_path}/none"):
        load_bearings(tmp_path / "none")  # a folder that is named is looked into alone


def test_bearing_only_folders_below_count_as_hidden(tmp_path, monkeypatch):
    for number, name in enumerate((".", "..", ".hidden")):
        folder = tmp_path / str(number)
        (folder / ".hidden").mkdir(parents=True)
        monkeypatch.chdir(folder / ".hidden" if name == ".." else folder)
        write_table(Path(name) / "Bearing1_1.parquet", feature_table(*HOME[0]))
        assert [each.table.name for each in find_tables(Path(name))] == ["Bearing1_1"], name


def test_bearing_parts_of_an_extraction_are_ignored(tmp_path):
    write_tables(tmp_path, feature_tables(known=HOME))
    for hidden in (".Bearing1_4.parts/000.parquet", ".Bearing1_5.parquet"):
        write_table(tmp_path / "pronostia" / hidden, feature_table("pronostia", hidden[1:11]))
    assert [each.table.name for each in find_tables(tmp_path)] == [name for _, name in HOME]


def test_bearing_one_that_is_there_twice_is_refused(tmp_path):
    write_tables(tmp_path, feature_tables(known=HOME))
    write_author_csv(tmp_path / "authors" / "Bearing1_2_features.csv", [1.0, 2.0])
    with pytest.raises(ValueError, match="pronostia Bearing1_2 is there twice") as caught:
        find_tables(tmp_path)
    assert "Bearing1_2.parquet" in str(caught.value)


def test_bearing_too_few_to_train_on_are_refused(tmp_path):
    write_tables(tmp_path, feature_tables(known=[*HOME[:2], *AWAY]))
    with pytest.raises(ValueError, match="holds 2 bearings of pronostia's first condition with 3 rows or more"):
        load_bearings(tmp_path, steps=3)
    write_tables(tmp_path, [feature_table(*HOME[2], (4,) * 2)])
    with pytest.raises(ValueError, match="wanted 3 at least"):
        load_bearings(tmp_path, steps=3)
    assert len(load_bearings(tmp_path, steps=2).groups) == 6


def test_bearing_wrong_options_are_refused(tmp_path):
    write_tables(tmp_path, feature_tables(known=HOME))
    for options, message in (
        ({"label": "x"}, "label must be one of 'fraction', 'rul', 'physics', got 'x'"),
        ({"steps": 1}, "steps must be at least 2, got 1"),
        ({"average": 0}, "average must be at least 1, got 0"),
        ({"label": "rul", "most": 0.0}, "most must lie in"),
    ):
        with refused(message):
            load_bearings(tmp_path, **{"steps": 2, **options})
