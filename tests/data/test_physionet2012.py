"""Mortality in intensive care, on small files in the challenge's format."""

import shutil
import tarfile
import zipfile
from contextlib import suppress

import numpy as np
import pytest
import torch

from nacre.data.files.listing import check_data
from nacre.data.sets.physionet2012 import load_physionet2012
from nacre.data.splits import SplitBy, make_splits
from nacre.tasks.recipe import parse_recipe
from nacre.tasks.sources import load_data
from nacre.tasks.task import load_task
from support.pages import blocks
from support.refused import refused

OUTCOMES = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death\n"
FIRST = """00:00,Age,54
00:00,Gender,0
00:00,Height,-1
00:00,ICUType,4
00:00,Weight,80.6
00:07,GCS,15
00:07,HR,73
00:07,HR,75
11:30,,-1
12:30,HR,77
12:30,Weight,-1
13:00,Weight,-1
47:59,Weight,79

"""
SECOND = "00:00,Age,76\n00:00,Gender,1\n00:00,Height,175.3\n00:00,ICUType,2\n00:00,Weight,-1\n"


def write(folder, name, patients, died):
    """A set with its outcomes: the lines of each patient, and 0 or 1."""
    (folder / f"set-{name}").mkdir(parents=True)
    for record, lines in patients.items():
        text = f"Time,Parameter,Value\n00:00,RecordID,{record}\n{lines}"
        (folder / f"set-{name}" / f"{record}.txt").write_text(text)
    rows = "".join(f"{record},6,1,5,-1,{answer}\n" for record, answer in zip(patients, died, strict=True))
    (folder / f"Outcomes-{name}.txt").write_text(f"{OUTCOMES}{rows}\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "physionet2012", "a", {132539: FIRST, 132540: SECOND}, [0, 1])
    write(tmp_path / "physionet2012", "c", {200001: FIRST, 200002: FIRST, 200003: SECOND}, [1, 0, 0])
    return tmp_path


def of(data, patient, name):
    """Values of a feature in the rows of a patient."""
    return data.batch(torch.tensor([patient])).x[0, : data.length[patient], data.features.index(name)].numpy()


def test_rows_are_stamps_and_statics_are_the_same_in_all(folder):
    data, _ = load_data({"name": "physionet2012", "sets": ["a"]}, folder)
    assert (data.kind, data.classes, data.y.tolist()) == ("classification", ("survived", "died"), [0, 1])
    assert (data.groups, data.group.tolist(), data.test) == (("132539", "132540"), [0, 1], None)
    time = data.batch(torch.tensor([0])).time[0]
    np.testing.assert_allclose(time, [0, 7 / 60, 12.5, 47 + 59 / 60])
    nan = np.nan
    for name, wanted in {
        "HR": [nan, 74, 77, nan],  # the mean of 73 and 75
        "GCS": [nan, 15, nan, nan],
        "Weight": [80.6, nan, nan, 79],
        "Weight at admission": [80.6] * 4,
        "Age": [54] * 4,
        "Gender": [0] * 4,
        "Height": [nan] * 4,
        "ICUType=4": [1] * 4,
        "ICUType=2": [0] * 4,
    }.items():
        np.testing.assert_array_equal(of(data, 0, name), np.float32(wanted), name)
    assert [data.features[i] for i in data.one_hot] == [f"ICUType={i}" for i in range(1, 5)]
    assert {data.features[i] for i in data.static} == {*data.features} - {"HR", "GCS", "Weight"}
    left_out, unnamed, missing = data.notes
    assert left_out.startswith("Left out Albumin, ALP, ")
    assert unnamed == "Left out 1 lines that name no variable."
    assert "HR 60.0 %" in missing


def test_a_patient_without_observations_is_one_row_at_admission(folder):
    data = load_physionet2012(folder, sets=["a"])
    assert data.length.tolist() == [4, 1]
    assert data.batch(torch.tensor([1])).time.tolist() == [[0]]
    assert of(data, 1, "Age") == [76]
    assert np.isnan(of(data, 1, "Weight at admission")).all()


def test_the_policy_is_that_of_the_recipe(folder):
    flags, last, events = (load_physionet2012(folder, sets=["a"], missing=m) for m in ("flags", "last", "events"))
    assert (flags.missing, last.missing) == ("flags", "last")
    assert torch.equal(flags.values.isnan(), last.values.isnan())
    first = events.batch(torch.tensor([0]))
    said = [events.features[int(i)] for i in first.x[0, :, 0]]
    assert said == ["Age", "Gender", "Weight at admission", "ICUType=4", "Weight", "GCS", "HR", "HR", "Weight"]
    assert events.length.tolist() == [9, 4]
    with refused("missing must be one of 'flags', 'last', 'events', got 'error'"):
        load_physionet2012(folder, missing="error")


def test_set_c_is_the_official_test_part(folder):
    write(folder / "physionet2012", "b", {142673: FIRST, 142674: SECOND}, [1, 0])
    data = load_physionet2012(folder)
    assert data.test is not None
    assert data.test.tolist() == [False] * 4 + [True] * 3
    assert make_splits(data, SplitBy.OFFICIAL, 4)[0].test.tolist() == [4, 5, 6]
    assert load_physionet2012(folder, sets=("c", "a")).groups[0] == "132539"
    assert load_physionet2012(folder, sets=["c"]).test is None


@pytest.mark.parametrize("ending", [".tar.gz", ".zip"])
def test_archives_are_read_in_place(folder, ending):
    plain = load_physionet2012(folder, sets=["a"])
    root = folder / "physionet2012"
    if ending == ".zip":
        shutil.make_archive(str(root / "set-a"), "zip", root, "set-a")
    else:
        with tarfile.open(root / "set-a.tar.gz", "w:gz") as archive:
            archive.add(root / "set-a" / "132540.txt", "set-a/132540.txt")
            archive.add(root / "set-a" / "132539.txt", "../../132539.txt")  # nothing is ever extracted
    shutil.rmtree(root / "set-a")
    there = {*folder.rglob("*")}
    packed = load_physionet2012(folder, sets=["a"])
    assert {*folder.rglob("*")} == there
    assert packed.digest == plain.digest
    assert packed.files == plain.files
    assert {*packed.files} == {"Outcomes-a.txt", "the sums of set-a"}
    whole = (root / f"set-a{ending}").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"PK", b"\x1f\x8b", b""):
        (root / f"set-a{ending}").write_bytes(damaged)
        with refused(rf"set-a{ending} (is damaged|lacks)", case=str(damaged[:9])):
            load_physionet2012(folder, sets=["a"])
    for place in range(0, len(whole), 7):  # no other error, whichever byte is wrong
        (root / f"set-a{ending}").write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with suppress(ValueError):
            load_physionet2012(folder, sets=["a"])


def test_what_is_missing_is_named(folder, tmp_path):
    lacks = r'physionet2012 lacks set-b and Outcomes-b.txt; get .* leave it out: sets = \["a", "c"\]'
    with pytest.raises(FileNotFoundError, match=lacks):
        load_physionet2012(folder)
    root = folder / "physionet2012"
    (root / "set-a" / "132540.txt").unlink()
    with refused("set-a lacks 1 of the 2 patients of Outcomes-a.txt, such as 132540.txt"):
        load_physionet2012(folder, sets=["a"])
    (root / "Outcomes-a.txt").unlink()
    with pytest.raises(FileNotFoundError, match="lacks Outcomes-a.txt; get what is missing"):
        load_physionet2012(folder, sets=["a"])
    for sets in ("a", [], ["a", "a"]):
        with refused("sets must be a list of different sets"):
            load_physionet2012(folder, sets=sets)
    with refused("sets must be one of 'a', 'b', 'c', got 'd'"):
        load_physionet2012(folder, sets=["a", "d"])


def test_what_is_not_there_is_fetched_into_the_cache(folder, tmp_path, monkeypatch, capsys):
    write(folder / "physionet2012", "b", {142673: FIRST}, [1])
    asked = []

    def refuse(url, **_):
        import requests

        asked.append(url)
        raise requests.ConnectionError("no network here")

    monkeypatch.setattr("requests.get", refuse)
    empty, cache = tmp_path / "empty", tmp_path / "cache" / "physionet2012"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match="set-a.tar is missing and could not be fetched from https://phys"):
        load_physionet2012(empty, sets=["a"])
    assert asked == ["https://physionet.org/files/challenge-2012/1.0.0/set-a.tar.gz"]
    for name in "abc":  # as if it had been
        with tarfile.open(cache / f"set-{name}.tar.gz", "w:gz") as archive:
            archive.add(folder / "physionet2012" / f"set-{name}", f"set-{name}")
        shutil.copy(folder / "physionet2012" / f"Outcomes-{name}.txt", cache)
    assert load_physionet2012(empty).digest == load_physionet2012(folder).digest
    check_data(["physionet2012"])
    assert "official test part: 3 sequences" in capsys.readouterr().out
    assert len(asked) == 1


def test_the_recipe_of_the_page_makes_a_network(folder):
    write(folder / "physionet2012", "b", {142673 + i: (FIRST, SECOND)[i % 2] for i in range(8)}, [0, 0, 1, 1] * 2)
    (text,) = (block for block in blocks("datasets.md", "toml") if "physionet2012" in block)
    for missing in ("flags", "last", "events"):
        recipe = parse_recipe(text.replace('missing = "flags"', f'missing = "{missing}"'), "icu")
        task = load_task(recipe, folder)
        assert task.splits[0].test.tolist() == [10, 11, 12]
        batch = task.data.batch(task.splits[0].train)
        network = task.network("sdpa", 0, 0)
        assert network(batch.x, batch.time, batch.key_padding_mask).isfinite().all()


def test_patients_without_an_outcome_are_left_out(folder):
    (folder / "physionet2012" / "Outcomes-a.txt").write_text(f"{OUTCOMES}132539,6,1,5,-1,0\n")
    data = load_physionet2012(folder, sets=["a"])
    assert data.groups == ("132539",)
    assert "Left out 1 patients without an outcome." in data.notes


def test_damage_is_named_with_its_file_and_line(folder):
    root = folder / "physionet2012"
    path = root / "set-a" / "132539.txt"
    good = path.read_text()
    for old, new, message in (
        ("Time,Parameter", "Stamp,Parameter", "line 1: wanted Time,Parameter,Value, got 'Stamp,"),
        ("RecordID,132539", "RecordID,132540", "line 2: wanted 00:00,RecordID,132539"),
        ("12:30,HR,77", "12:30,HR", "line 12: wanted Time,Parameter,Value, got '12:30,HR'"),
        ("12:30,HR,77", "12:60,HR,77", "line 12: wanted a stamp such as 07:30, got '12:60'"),
        ("47:59", "48:01", "line 15: 48:01 is after the first 48 hours"),
        ("GCS", "gcs", "line 8: the challenge has no parameter 'gcs'"),
        ("GCS,15", "GCS,x", "line 8: could not convert string to float"),
        ("GCS,15", "GCS,inf", "line 8: GCS cannot be inf"),
        ("ICUType,4", "ICUType,5", "line 6: ICUType cannot be 5"),
        (good, "", "line 1: wanted Time,Parameter,Value, got ''"),
        (good, "x" * 1_000_001, "has 1,000,001 bytes, wanted at most 1,000,000 for a patient"),
    ):
        path.write_text(good.replace(old, new))
        with refused(rf"132539\.txt.*{message}", case=new[:20]):
            load_physionet2012(folder, sets=["a"])
    path.write_text(good)
    for text, message in (
        ("RecordID,Died\n", "line 1: the header lacks In-hospital_death"),
        (OUTCOMES, "holds no patients"),
        (f"{OUTCOMES}132539,6,1,5,-1,2\n", "line 2: wanted a new RecordID and an In-hospital_death of 0 or 1"),
        (f"{OUTCOMES}132539,6,1,5\n", "line 2: wanted a new RecordID"),
    ):
        (root / "Outcomes-a.txt").write_text(text)
        with refused(rf"Outcomes-a.txt.*{message}"):
            load_physionet2012(folder, sets=["a"])


def test_bombs_and_doubles_in_archives_are_refused(folder):
    root = folder / "physionet2012"
    text = (root / "set-a" / "132539.txt").read_bytes()
    shutil.rmtree(root / "set-a")
    for members, message in (
        ({"set-a/132539.txt": b"0" * 2_000_000}, "has 2,000,000 bytes, wanted at most"),
        ({"set-a/132539.txt": text, "x/132539.txt": text}, "there are two files of patient 132539"),
    ):
        with zipfile.ZipFile(root / "set-a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, contents in members.items():
                archive.writestr(name, contents)
        with refused(message):
            load_physionet2012(folder, sets=["a"])
