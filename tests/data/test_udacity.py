"""Drives of the Udacity simulator: every form of a recording, folds without near copies."""

import contextlib
import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.dataset import Kind
from nacre.data.files.catalogue import load_dataset
from nacre.data.sets.udacity import GAP, load_udacity, segments_of
from nacre.data.sets.udacity_images import read_frame
from nacre.data.sets.udacity_log import read_log
from nacre.data.splits import SplitBy, make_splits
from nacre.tasks.controls import controls_for, create_control
from nacre.tasks.recipe import load_recipe
from nacre.tasks.task import load_task
from support.hypothesis import examples
from support.udacity import (
    CAMERAS,
    image_file,
    moments,
    name_of,
    record,
    shade_of,
    steering_of,
    write_images,
    write_log,
    write_zip,
)

REAL = os.environ.get("NACRE_DATA", "")
REAL_LOG = Path(REAL) / "udacity_track" / "driving_log.csv"
real = pytest.mark.skipif(not REAL, reason="needs $NACRE_DATA")


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))


def shades(data):
    """[rows] the shade of each image; JPEG keeps flat ones to a unit or so."""
    flat = data.values.flatten(1).double()
    assert (flat.amax(1) - flat.amin(1)).max() <= 2
    return flat.mean(1)


def rows_of(data):
    """[n] the moment of each sequence, in order of recording."""
    return (data.time[: len(data)] * 10).round().long()


# --- what is read -------------------------------------------------------------------------------------------


def test_images_and_steering_of_a_drive(tmp_path):
    data = load_udacity(record(tmp_path / "drive"), segments=3)
    row = rows_of(data)
    assert data.kind is Kind.REGRESSION
    assert data.values.shape == (len(data), 66, 200, 3)
    assert data.values.dtype == torch.uint8
    assert (shades(data) - torch.tensor([shade_of(r) for r in row.tolist()])).abs().max() < 2
    assert torch.equal(data.y, torch.tensor([[steering_of(r)] for r in row.tolist()]))
    assert data.time.dtype == torch.float64
    assert data.time[:3].tolist() == [0.0, 0.1, 0.2]
    assert data.targets == ("steering",)
    assert data.neutral == 0.0
    assert data.start.tolist() == list(range(len(data)))
    assert data.length.unique().tolist() == [1]
    assert data.form == "recorded, 60 moments, 1 camera"


def test_only_the_file_name_of_a_path_counts(tmp_path):
    folder = record(tmp_path / "drive", moments(40))
    usual = load_udacity(folder, segments=2)
    for form in (
        "{}",
        "IMG/{}",
        " IMG/{} ",
        "/home/ada/drive/IMG/{}",
        "C:\\Users\\ada\\drive\\IMG\\{}",
        "../../elsewhere/{}",
    ):
        for header in (False, True):
            write_log(folder / "driving_log.csv", moments(40), path_of=form.format, header=header)
            assert load_udacity(folder, segments=2).digest == usual.digest, (form, header)


def test_images_may_lie_in_img_or_beside_the_log_or_in_zip_files(tmp_path):
    seconds = moments()
    usual = load_udacity(record(tmp_path / "usual", seconds), segments=3)
    for name in ("beside", "zipped", "flat", "mixed"):
        (tmp_path / name).mkdir()
        write_log(tmp_path / name / "driving_log.csv", seconds)
    write_images(tmp_path / "beside", seconds)
    write_zip(tmp_path / "zipped" / "center_all.zip", seconds)
    write_zip(tmp_path / "flat" / "images.zip", seconds, below="")
    write_images(tmp_path / "mixed" / "IMG", seconds[:20])
    write_zip(tmp_path / "mixed" / "rest.zip", seconds, below="a\\b\\")
    for name in ("beside", "zipped", "flat", "mixed"):
        found = load_udacity(tmp_path / name, segments=3)
        assert found.digest == usual.digest
        assert found.files == usual.files


def test_a_header_may_name_its_columns_in_another_order(tmp_path):
    folder = record(tmp_path / "drive")
    lines = [f"IMG/{name_of('center', s)}" for s in moments()]
    rows = [f"{0.5}, {line}" for line in lines]
    (folder / "driving_log.csv").write_text("\n".join(["Steering, Center", *rows, "", ""]), "utf-8-sig")
    data = load_udacity(folder, segments=3)
    assert data.y.unique().tolist() == [0.5]
    assert data.form.startswith("recorded, 60 moments")


def test_rows_of_the_side_cameras_come_behind_those_of_the_centre(tmp_path):
    data = load_udacity(record(tmp_path / "drive", cameras=CAMERAS), segments=3)
    n, row = len(data), rows_of(data).tolist()
    assert data.values.shape[0] == len(data.time) == 3 * n
    wanted = [shade_of(r, camera) for camera in CAMERAS for r in row]
    assert (shades(data) - torch.tensor(wanted)).abs().max() < 0.5  # cameras are one shade apart
    assert data.start.tolist() == list(range(n))
    assert data.form == "recorded, 60 moments, 3 cameras"
    assert data.notes == (f"left out between segments, 1 s each: {60 - n} moments",)
    assert list(data.files) == ["driving_log.csv", "center images", "left images", "right images"]


def test_without_one_image_of_a_side_camera_none_is_used(tmp_path):
    folder = record(tmp_path / "drive", moments(40), cameras=CAMERAS)
    for camera in ("left", "right"):
        path = folder / "IMG" / name_of(camera, 3.3)
        path.rename(tmp_path / path.name)
        data = load_udacity(folder, segments=2)
        assert len(data.values) == len(data), camera
        assert "images of the left and right camera are not all there: unused" in data.notes, camera
        (tmp_path / path.name).rename(path)


def test_the_answer_before_is_that_of_the_frame_before_within_a_segment(tmp_path):
    data = load_udacity(record(tmp_path / "drive"), segments=3)
    assert data.before is not None
    seen = set()
    for i, (row, group) in enumerate(zip(rows_of(data).tolist(), data.group.tolist(), strict=True)):
        if group in seen:
            assert data.before[i].item() == pytest.approx(steering_of(row - 1))
        else:
            assert data.before[i].isnan().all()
        seen.add(group)
    assert seen == {0, 1, 2}


def test_rows_are_put_in_order_of_time_and_images_named_again_are_left_out(tmp_path):
    usual = load_udacity(record(tmp_path / "usual"), segments=3)
    folder = record(tmp_path / "drive")
    head, *lines = (folder / "driving_log.csv").read_text().splitlines()
    again = lines[7].replace(f",{steering_of(7)},", ",0.123,")
    assert again != lines[7]
    (folder / "driving_log.csv").write_text("\n".join([head, *lines[30:], *lines[:30], again, again]))
    data = load_udacity(folder, segments=3)
    assert data.digest == usual.digest
    assert data.notes[1:3] == (
        "rows left out because their image was named before: 2",
        "rows put in order of time",
    )


# --- what the network sees ----------------------------------------------------------------------------------


def test_frames_are_the_crop_in_antialiased_bilinear_interpolation():
    pixels = np.random.default_rng(0).integers(0, 256, (160, 320, 3), np.uint8)
    found = read_frame(image_file(pixels, kind="PNG"), "noise.png")
    crop = torch.from_numpy(pixels[60:-25]).permute(2, 0, 1).unsqueeze(0).double()
    wanted = torch.nn.functional.interpolate(crop, (66, 200), mode="bilinear", antialias=True, align_corners=False)
    assert found.shape == (66, 200, 3)
    error = torch.from_numpy(found).double() - wanted[0].permute(1, 2, 0)
    assert error.abs().max() < 1.1


def test_frames_keep_up_down_left_right_and_colours():
    pixels = np.zeros((160, 320, 3), np.uint8)
    pixels[60:80, :, 0] = 255  # red on top
    pixels[:, 280:, 2] = 255  # blue on the right
    found = read_frame(image_file(pixels, kind="PNG"), "flag.png")
    assert found[2, 5].tolist() == [255, 0, 0]
    assert found[-3, 5].tolist() == [0, 0, 0]
    assert found[-3, -5].tolist() == [0, 0, 255]


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=40), st.booleans(), st.sampled_from(["JPEG", "PNG"]))
@examples(150)
def test_whatever_bytes_come_they_are_an_image_or_refused(place, junk, cut, kind):
    whole = image_file(90, kind=kind)
    place %= len(whole)
    data = whole[:place] if cut else whole[:place] + junk + whole[place + len(junk) :]
    with contextlib.suppress(ValueError):
        assert read_frame(data, "thing.jpg").shape == (66, 200, 3)


# --- segments -----------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([0.0, 0.07, 0.1, 0.3, 0.9, 1.0, 1.1, 30.0]), min_size=1, max_size=200),
    st.integers(1, 30),
)
def test_segments_are_contiguous_and_further_apart_than_the_gap(steps, segments):
    seconds = np.cumsum(steps)
    segment = segments_of(seconds, segments)
    kept = segment[segment >= 0]
    assert segment[0] == 0
    assert set(np.diff(kept).tolist()) <= {0, 1}  # ascending numbers, none is skipped: each is one stretch
    ends = [np.flatnonzero(segment == s)[-1] for s in range(kept.max() + 1)]
    for s, end in enumerate(ends[:-1]):
        assert seconds[np.flatnonzero(segment == s + 1)[0]] - seconds[end] > GAP
    for s in range(kept.max() + 1):  # nothing is left out within one, nor does a pause lie in it
        members = np.flatnonzero(segment == s)
        assert np.array_equal(members, np.arange(members[0], members[-1] + 1))
        assert (np.diff(seconds[members]) <= GAP + 1e-9).all()


@given(st.integers(1, 25), st.integers(0, 200), st.sampled_from([7.0, 14.0, 20.0]))
def test_a_long_drive_has_as_many_segments_as_asked_of_about_equal_size(segments, more, rate):
    count = int(segments * 5 * rate) + more
    segment = segments_of(np.arange(count) / rate, segments)
    sizes = np.bincount(segment[segment >= 0])
    assert len(sizes) == segments
    assert sizes.max() - sizes[1:].min(initial=sizes.max()) <= rate + 2
    left_out = (segment < 0).sum()
    assert abs(left_out - (segments - 1) * rate) <= segments


def test_a_pause_of_the_recording_always_cuts():
    seconds = np.concatenate([np.arange(100) / 10, 60 + np.arange(50) / 10, 100 + np.arange(50) / 10])
    segment = segments_of(seconds, 2)
    assert segment[99] + 1 == segment[100]  # and nothing is left out there
    assert segment[149] + 1 == segment[150]
    assert segments_of(seconds, 1).tolist() == [0] * 100 + [1] * 50 + [2] * 50


def test_no_fold_trains_on_an_image_near_one_that_it_is_scored_on(tmp_path):
    data = load_udacity(record(tmp_path / "drive", moments(85), cameras=CAMERAS), segments=6)
    time = data.time[: len(data)]
    for split in make_splits(data, SplitBy.GROUP, 5):
        for one, other in (("train", "test"), ("valid", "test"), ("train", "valid")):
            first, second = getattr(split, one), getattr(split, other)
            assert (time[first].unsqueeze(1) - time[second]).abs().min() > GAP
        assert len(split.train) + len(split.valid) + len(split.test) == len(data)
        assert int(data.rows(torch.cat([split.train, split.valid, split.test])).max()) < len(data)


def test_too_short_a_drive_is_named(tmp_path):
    folder = record(tmp_path / "drive", moments(30))
    message = re.escape(f"{folder / 'driving_log.csv'}: 2.9 s of driving are too short for 20 segments, 1 s apart")
    with pytest.raises(ValueError, match=message):
        load_udacity(folder)
    with pytest.raises(ValueError, match="segments must be at least 1, got 0"):
        load_udacity(folder, segments=0)


# --- the task -----------------------------------------------------------------------------------------------


def test_the_shipped_recipe_reads_18_columns_of_64_features(tmp_path):
    record(tmp_path / "drive", moments(120, rate=2.0))
    task = load_task(load_recipe("udacity"), tmp_path / "drive")
    assert len(task.splits) == 5
    network = task.network("sdpa", 0, 0).eval()
    batch = task.data.batch(task.splits[0].test[:2])
    tokens, time, *_ = network.tokens(batch.x, batch.time, batch.key_padding_mask)
    assert tokens.shape == (2, 18, 64 + 1)  # and where the column is
    assert time[0].tolist() == list(range(18))
    assert tokens[0, :, -1].tolist() == pytest.approx([i / 17 for i in range(18)])
    assert network(batch.x, batch.time, batch.key_padding_mask).shape == (2, 1)
    assert controls_for(task.data) == ["mean", "last-action", "zero-steering", "time-only"]


@real
def test_the_log_of_the_development_drive_is_read():
    log = read_log(REAL_LOG, REAL_LOG.read_text())
    assert len(log.steering) == 4053
    assert (log.steering.mean(), log.steering.std()) == pytest.approx((-0.0041, 0.1905), abs=5e-5)
    assert (log.steering == 0).sum() == 2927
    assert log.seconds[-1] == pytest.approx(4 * 60 + 49, abs=1)


@pytest.mark.deep
@real
def test_the_development_drive_is_read_whole(monkeypatch):
    monkeypatch.setenv("NACRE_DATA", REAL)
    data = load_dataset("udacity")
    assert data.form == "recorded, 4,053 moments, 1 camera"
    assert len(data.groups) == 20
    assert len(data) + int(re.search(r": (\d+) moments", data.notes[0])[1]) == 4053
    assert data.files["driving_log.csv"] == hashlib.sha256(REAL_LOG.read_bytes()).hexdigest()
    brightness = data.values[::50].double().mean((1, 2, 3))
    assert brightness.min() > 50  # daylight, and no image is empty
    assert brightness.max() < 200
    split = make_splits(data, SplitBy.GROUP, 5)[1]
    last = create_control("last-action", data)
    last.fit(data, split.train)
    error = last.predict(data, split.test) - data.y[split.test]
    assert error.square().mean() < data.y[split.test].square().mean()
