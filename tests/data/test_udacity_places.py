"""Where drives of the Udacity simulator are looked for, and the cache of their images."""

import pytest

from nacre.data.sets import udacity
from nacre.data.sets.udacity import load_udacity
from nacre.data.sets.udacity_images import read_frame
from support.udacity import (
    CAMERAS,
    image_file,
    moments,
    name_of,
    record,
)


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))


# --- where it is looked for ---------------------------------------------------------------------------------


def test_a_recording_in_the_given_folder_or_in_one_of_its_name(tmp_path):
    for count, name in enumerate((".", "udacity_track", "udacity"), 30):  # each is preferred to those before
        record(tmp_path / "given" / name, moments(count))
        assert load_udacity(tmp_path / "given", segments=2).form == f"recorded, {count} moments, 1 camera", name


def test_here_comes_before_nacre_data_and_that_before_the_cache(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("NACRE_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError) as error:
        load_udacity()
    tried = ["udacity", "udacity_track"]
    tried += [str(tmp_path / root / name) for root in ("data", "cache") for name in ("udacity", "udacity_track")]
    assert str(error.value).startswith(f"no driving_log.csv in {', '.join(tried)}; record a drive")
    for count, place in ((30, "cache/udacity"), (31, "data/udacity_track"), (32, "here/udacity")):
        record(tmp_path / place, moments(count))
        assert load_udacity(segments=2).form == f"recorded, {count} moments, 1 camera"


def test_a_given_folder_is_the_only_one(tmp_path, monkeypatch):
    monkeypatch.setenv("NACRE_DATA", str(tmp_path / "data"))
    record(tmp_path / "data" / "udacity", moments(40))
    with pytest.raises(FileNotFoundError, match="no driving_log.csv in .*empty"):
        load_udacity(tmp_path / "empty")


# --- the cache ----------------------------------------------------------------------------------------------


def test_images_are_looked_at_once_until_one_changes(tmp_path, monkeypatch):
    folder = record(tmp_path / "drive", moments(40))
    seen = []
    monkeypatch.setattr(udacity, "read_frame", lambda data, name: seen.append(name) or read_frame(data, name))
    first = load_udacity(folder, segments=2)
    assert len(seen) == 40
    assert load_udacity(folder, segments=2).digest == first.digest
    assert len(seen) == 40
    (folder / "IMG" / name_of("center", 0.3)).write_bytes(image_file(200))
    changed = load_udacity(folder, segments=2)
    assert len(seen) == 80
    assert changed.files["center images"] != first.files["center images"]
    assert changed.files["driving_log.csv"] == first.files["driving_log.csv"]
    assert (changed.values[3].double().mean() - 200).abs() < 2


def test_a_missing_side_camera_is_not_taken_from_the_cache(tmp_path):
    folder = record(tmp_path / "drive", moments(40), cameras=CAMERAS)
    assert load_udacity(folder, segments=2).form.endswith("3 cameras")
    (folder / "IMG" / name_of("left", 0.3)).unlink()
    assert load_udacity(folder, segments=2).form.endswith("1 camera")
