"""Logs, images and zip files of the Udacity simulator that are refused, and what is said about them."""

import csv
import io
import zipfile

import pytest
from PIL import Image

from nacre.data.sets.udacity import load_udacity
from nacre.data.sets.udacity_images import MOST_BYTES, Images, read_frame
from nacre.data.sets.udacity_log import read_log
from support.refused import refused
from support.udacity import (
    image_file,
    moments,
    name_of,
    record,
    write_log,
    write_zip,
)


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))


def test_bad_lines_of_a_log_are_named(tmp_path):
    path = tmp_path / "driving_log.csv"
    image = "IMG/center_2018_07_16_17_11_43_482.jpg"
    good = "IMG/center_2018_07_16_17_11_43_382.jpg,l,r,0,0,0,0"
    for line, message in (
        (f"{image},l,r,0,5,0,0,30", "wanted 7 fields .*, got 8; .*decimal point"),
        (f"{image},l,r,left,0,0,0", "steering must be a number .*, got 'left'"),
        (f"{image},l,r,1.01,0,0,0", "steering must be .* from -1 to 1, got '1.01'"),
        (f"{image},l,r,nan,0,0,0", "steering must be .* from -1 to 1, got 'nan'"),
        ("IMG/frame_0001.jpg,l,r,0,0,0,0", "'frame_0001.jpg' does not say when it was taken"),
        (f"{image.replace('_07_', '_13_')},l,r,0,0,0,0", "'center_2018_13.*' does not say when it was taken"),
        (",l,r,0,0,0,0", "'' does not say when it was taken"),
    ):
        with refused(f"driving_log.csv, line 2: {message}"):
            read_log(path, f"{good}\n{line}\n{good}")


def test_a_log_without_rows_or_with_half_a_header_is_named(tmp_path):
    path = tmp_path / "driving_log.csv"
    for text in ("", "\n\n", "center,left,right,steering,throttle,brake,speed\n"):
        with pytest.raises(ValueError, match="driving_log.csv has no rows; wanted lines of center, left, right"):
            read_log(path, text)
    with pytest.raises(ValueError, match="the header must name center and steering, got steering, speed"):
        read_log(path, "steering,speed\n0,0")
    with pytest.raises(ValueError, match="driving_log.csv, line 1 is no CSV"):
        read_log(path, "x" * (csv.field_size_limit() + 1))


def test_a_missing_image_of_the_centre_camera_is_named(tmp_path):
    folder = record(tmp_path / "drive")
    for second in (1.2, 3.4):
        (folder / "IMG" / name_of("center", second)).unlink()
    with pytest.raises(FileNotFoundError, match=f"line 14: no image '{name_of('center', 1.2)}' in .*camera: 2"):
        load_udacity(folder, segments=3)


BAD_IMAGES = {
    "cut off": (image_file(90)[:500], "is damaged, or neither JPEG nor PNG"),
    "empty": (b"", "is damaged, or neither JPEG nor PNG"),
    "no image": (b"<html>not found</html>", r"is damaged, or neither JPEG nor PNG \(cannot identify image file\)"),
    "a GIF": (image_file(90, kind="GIF"), "is damaged, or neither JPEG nor PNG"),
    "wrong size": (image_file(90, (160, 320)), "has 160 x 320 pixels; the simulator records 320 x 160"),
    "huge": (b"x" * (MOST_BYTES + 1), "has 1,048,577 bytes, too many for a camera image"),
}


def test_a_bad_image_is_named_with_its_file_and_line(tmp_path):
    folder = record(tmp_path / "drive")
    path = folder / "IMG" / name_of("center", 1.2)
    for case, (data, message) in BAD_IMAGES.items():
        path.write_bytes(data)
        where = "" if case == "huge" else "driving_log.csv, line 14: .*"
        with refused(f"{where}{path.name} {message}", case=case):
            load_udacity(folder, segments=3)
        assert not list((tmp_path / "cache").rglob("*.npz")), case


def test_damaged_zip_files_are_named(tmp_path):
    folder = tmp_path / "drive"
    folder.mkdir()
    write_log(folder / "driving_log.csv", moments())
    path = folder / "center.zip"
    write_zip(path, moments())
    whole = path.read_bytes()
    at = whole.index(b"\xff\xd8\xff") + 400  # in the first image
    path.write_bytes(whole[:at] + b"????" + whole[at + 4 :])
    with pytest.raises(ValueError, match=rf"center.zip: IMG/{name_of('center', 0)} cannot be read \(Bad CRC-32"):
        load_udacity(folder, segments=3)
    path.write_bytes(whole[:-40])
    with pytest.raises(ValueError, match="center.zip is damaged or no zip file .*; get it again, or remove it"):
        load_udacity(folder, segments=3)


def test_nothing_outside_the_folder_is_opened(tmp_path):
    folder = record(tmp_path / "drive")
    name = name_of("center", 1.2)
    (folder / "IMG" / name).rename(tmp_path / name)
    text = (folder / "driving_log.csv").read_text()
    for place in (f"../{name}", f"{tmp_path.as_posix()}/{name}", f"..\\{name}", f"IMG/../../{name}"):
        (folder / "driving_log.csv").write_text(text.replace(f"IMG/{name}", place))
        assert place in (folder / "driving_log.csv").read_text()
        with refused(f"no image '{name}'", FileNotFoundError, case=place):
            load_udacity(folder, segments=3)


def test_members_of_zip_files_are_never_written_anywhere(tmp_path):
    folder = tmp_path / "drive"
    folder.mkdir()
    write_log(folder / "driving_log.csv", moments())
    write_zip(folder / "center.zip", moments(), below="../../")
    load_udacity(folder, segments=3)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".csv", ".zip", ".npz"}


def test_an_image_of_a_zip_file_that_would_unpack_to_something_huge_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("IMG/center.jpg", bytes(5_000_000))
    with Images(tmp_path) as images, pytest.raises(ValueError, match="center.jpg has 5,000,000 bytes, too many"):
        images.read("center.jpg")


def test_an_image_that_claims_to_be_huge_is_refused_before_it_is_unpacked(monkeypatch):
    file = io.BytesIO()
    Image.new("1", (4000, 4000)).save(file, "PNG")
    assert len(file.getvalue()) < 20_000
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(ValueError, match="big.png has 4,000 x 4,000 pixels"):
        read_frame(file.getvalue(), "big.png")
