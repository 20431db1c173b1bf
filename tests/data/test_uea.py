"""Problems of the UEA archive, on small files in its format."""

import zipfile
from contextlib import suppress

import pytest
import torch

from nacre.data.sets.uea import load_uea
from nacre.data.splits import SplitBy, make_splits
from nacre.tasks.sources import load_data
from support.refused import refused

HEAD = """# a comment
@problemName Made
@timeStamps %s
@univariate false
@dimensions 2
@classLabel true a b
@data
"""
PLAIN = HEAD % "false"
TRAIN = "1.0,2.0,3.0:4.0,5.0,6.0:a\n7,8:9,10:b\n1,1:1,1:a\n2,2:2,2:b\n"


def write(folder, train=PLAIN + TRAIN, test=PLAIN + "5,6:7,8:b\n"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Made_TRAIN.ts").write_text(train)
    (folder / "Made_TEST.ts").write_text(test)
    return folder


@pytest.mark.parametrize("below", ["", "Made", "uea/Made"])
def test_sequences_and_classes_are_those_of_the_files(tmp_path, below):
    write(tmp_path / below)
    data, _ = load_data({"name": "uea", "problem": "Made"}, tmp_path)
    assert (data.name, data.kind, data.classes) == ("uea-Made", "classification", ("a", "b"))
    assert data.length.tolist() == [3, 2, 2, 2, 2]
    assert data.y.tolist() == [0, 1, 0, 1, 1]
    assert data.test.tolist() == [False] * 4 + [True]
    assert data.batch(torch.tensor([0])).x[0].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert data.batch(torch.tensor([0])).time[0].tolist() == [0, 1, 2]
    split = make_splits(data, SplitBy.OFFICIAL, 2)[0]
    assert split.test.tolist() == [4]


def test_stamps_and_numbers_that_are_asked_for(tmp_path):
    text = (HEAD % "true").replace("@classLabel true a b", "@targetlabel true")
    write(tmp_path, text + "(0,1),(2.5,2):(0,3),(2.5,4):1.5\n", text + "(1,5):(1,6):2.5\n")
    data = load_uea(tmp_path, problem="Made")
    assert (data.kind, data.y.tolist(), data.time.tolist()) == ("regression", [[1.5], [2.5]], [0, 2.5, 1])
    assert data.values.tolist() == [[1, 3], [2, 4], [5, 6]]


@pytest.mark.parametrize("missing", ["flags", "last", "events"])
def test_missing_values_and_dimensions_with_stamps_of_their_own(tmp_path, missing):
    text = HEAD % "true"
    lines = "(0,1),(2.5,?):(0,3),(2.5,4):a\n(1,5),(3,6):(2,7),(3,8):b\n"
    write(tmp_path, text + lines, text + "(1,5):(1,6):b\n")
    data, _ = load_data({"name": "uea", "problem": "Made", "missing": missing}, tmp_path)
    assert (data.missing, data.y.tolist()) == (missing, [0, 1, 1])
    if missing == "events":
        assert data.time.tolist() == [0, 0, 2.5, 1, 2, 3, 3, 1, 1]
        assert data.values.tolist() == [[0, 1], [1, 3], [1, 4], [0, 5], [1, 7], [0, 6], [1, 8], [0, 5], [1, 6]]
    else:
        nan = torch.nan
        assert data.time.tolist() == [0, 2.5, 1, 2, 3, 1]
        wanted = torch.tensor([[1, 3], [nan, 4], [5, nan], [nan, 7], [6, 8], [5, 6]])
        assert torch.equal(data.values.nan_to_num(-9), wanted.nan_to_num(-9))
    assert data.notes[-1].startswith("Missing: 25.0 % of 12 values")
    with refused("line 8: values are missing"):
        load_uea(tmp_path, problem="Made")
    write(tmp_path, text + "(0,1),(0,2):(1,3):a\n")
    with refused("line 8: dimensions differ in length or stamps; then the stamps of each must ascend"):
        load_uea(tmp_path, problem="Made", missing=missing)


def test_a_zip_file_is_read_in_place(tmp_path):
    write(tmp_path / "files")
    with zipfile.ZipFile(tmp_path / "Made.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (tmp_path / "files").iterdir():
            archive.write(path, f"Made/{path.name}")
    there = {*tmp_path.rglob("*")}
    assert len(load_uea(tmp_path, problem="Made")) == 5
    assert {*tmp_path.rglob("*")} == there
    whole = (tmp_path / "Made.zip").read_bytes()
    (tmp_path / "Made.zip").write_bytes(b"PK")
    with refused("Made.zip is damaged"):
        load_uea(tmp_path, problem="Made")
    for place in range(0, len(whole), 5):  # no other error, whichever byte is wrong
        (tmp_path / "Made.zip").write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with suppress(ValueError):
            load_uea(tmp_path, problem="Made")


def test_what_is_missing_or_wrong_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="Other_TRAIN.ts and Other_TEST.ts are missing; get Other.zip"):
        load_uea(tmp_path, problem="Other")
    with refused("problem must be a name such as"):
        load_uea(tmp_path, problem="../Made")
    with refused(r"\[data\] of uea lacks problem"):
        load_data({"name": "uea"}, tmp_path)
    with refused("missing must be one of 'error', 'flags'"):
        load_uea(tmp_path, problem="Made", missing="drop")
    for line, message in (
        ("1,?:2,3:a", r"Made_TRAIN.ts, line 8: values are missing \(\?\).*missing='flags'"),
        ("1,2:3:a", "dimensions differ in length or stamps; say what to do"),
        ("1,inf:2,3:a", "line 8: values are infinite"),
        ("1,2:3,4:c", "one of the classes a, b, got 'c'"),
        ("1,x:3,4:a", "line 8: could not convert string to float"),
        ("", "holds no sequences after a line @data"),
        ("1,2:3,4:a\n1,2:a", "line 9: 1 dimensions, where the first sequence has 2"),
    ):
        write(tmp_path, PLAIN + line + "\n")
        with refused(message):
            load_uea(tmp_path, problem="Made")
    write(tmp_path, (HEAD % "true") + "0,1:2,3:a\n")
    with refused("wanted pairs such as"):
        load_uea(tmp_path, problem="Made")
    write(tmp_path, test=PLAIN.replace("a b", "a b c") + "5,6:7,8:b\n")
    with refused("its two files have different dimensions or classes"):
        load_uea(tmp_path, problem="Made")
