"""Event-based MNIST: runs of pixels, as a slow loop finds them."""

import os
from itertools import groupby

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nacre.data.dataset import Kind
from nacre.data.sets import event_mnist
from nacre.data.sets.event_mnist import load_event_mnist, run_lengths
from nacre.data.splits import SplitBy, make_splits
from support.datasets import publish
from support.refused import refused

real = pytest.mark.skipif("NACRE_DATA" not in os.environ, reason="needs $NACRE_DATA")


def idx(array, magic=0x800):
    sizes = np.array([magic + array.ndim, *array.shape], dtype=">u4")
    return sizes.tobytes() + array.astype(np.uint8).tobytes()


def digits(count, seed):
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (count, 28, 28)), generator.integers(0, 10, count)


def files():
    made = {}
    for part, count in (("train", 7), ("t10k", 3)):
        images, labels = digits(count, count)
        images[0], images[1] = 0, 255  # blank and full: one run each
        made[f"{part}-images-idx3-ubyte"] = idx(images)
        made[f"{part}-labels-idx1-ubyte"] = idx(labels)
    return made


@pytest.fixture
def write(monkeypatch, tmp_path):
    """Write the four files, and make their checksums the known ones."""

    def put(contents):
        return publish(monkeypatch, tmp_path, "event-mnist", *contents.values())

    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    return put


def slow_events(image):
    """(symbol, duration, end) of each run, in units of 256 for a whole image."""
    position, events = 0, []
    for symbol, run in groupby(image.reshape(-1) >= 128):
        count = len(list(run))
        position += count
        events.append((float(symbol), count * 256 / 784, position * 256 / 784))
    return events


@given(arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 12))))
def test_runs_are_those_of_a_loop(pixels):
    ink, end, runs = run_lengths(pixels)
    slow = [[(key, len(list(run))) for key, run in groupby(row.tolist())] for row in pixels]
    assert runs.tolist() == [len(row) for row in slow]
    assert ink.tolist() == [key for row in slow for key, _ in row]
    assert end.tolist() == [int(n) for row in slow for n in np.cumsum([count for _, count in row])]


@pytest.mark.parametrize("chunk", [2, 4096])  # of seven images and of three
def test_events_are_those_of_a_loop(write, monkeypatch, chunk):
    monkeypatch.setattr(event_mnist, "_CHUNK", chunk)
    data = load_event_mnist(write(files()), max_events=784)
    images = np.concatenate([digits(7, 7)[0], digits(3, 3)[0]])
    images[[0, 7]], images[[1, 8]] = 0, 255
    for index, image in enumerate(images):
        slow = torch.tensor(slow_events(image), dtype=torch.float64)
        batch = data.batch(torch.tensor([index]))
        torch.testing.assert_close(batch.x[0], slow[:, :2].float())
        torch.testing.assert_close(batch.time[0], slow[:, 2], rtol=0, atol=1e-12)
    assert data.notes == ()


def test_what_the_data_set_says_of_itself(write):
    data = load_event_mnist(write(files()))
    assert (data.name, data.kind) == ("event-mnist", Kind.CLASSIFICATION)
    assert data.features == ("ink", "duration")
    assert data.classes == tuple("0123456789")
    assert data.y.tolist() == [*digits(7, 7)[1], *digits(3, 3)[1]]
    assert data.test.tolist() == [False] * 7 + [True] * 3
    assert data.group.tolist() == list(range(10))
    assert data.groups[6:8] == ("train-6", "test-0")
    assert len(data.files) == 4


def test_only_the_first_events_are_kept(write):
    folder = write(files())
    whole, short = load_event_mnist(folder, 784), load_event_mnist(folder, 5)
    assert short.length.tolist() == whole.length.clamp(max=5).tolist()
    assert short.length.tolist() == [1, 1, 5, 5, 5, 5, 5, 1, 1, 5]
    assert short.notes == ("images cut off after 5 events: 6",)
    for index in range(10):
        a, b = (data.batch(torch.tensor([index])) for data in (whole, short))
        assert torch.equal(a.x[:, :5], b.x)
        assert torch.equal(a.time[:, :5], b.time)


def test_a_pixel_of_128_is_ink(write):
    made = files()
    image = np.zeros((7, 28, 28))
    image[0, 0, 0], image[1, 0, 0] = 127, 128
    made["train-images-idx3-ubyte"] = idx(image)
    assert load_event_mnist(write(made)).length[:2].tolist() == [1, 2]


def test_files_of_another_structure_are_refused(write):
    images, labels = "train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
    for name, content, message in (
        (images, files()[images][:-1], "no IDX file of bytes .n, 28, 28."),
        (images, b"", "no IDX file"),
        (images, idx(np.zeros((7, 14, 56))), "no IDX file"),
        (labels, idx(np.zeros(3), 0x900), "no IDX file of bytes .n."),
        (labels, idx(np.zeros(4)), "holds 3 images but 4 labels came"),
        (labels, idx(np.array([1, 10, 3])), "labels must be 0 to 9, got 10"),
    ):
        with refused(message, case=f"{name} {content[:16]}"):
            load_event_mnist(write(files() | {name: content}))
    with refused("max_events must be at least 1"):
        load_event_mnist(write(files()), 0)


@pytest.mark.slow
@real
def test_the_real_images(monkeypatch, tmp_path):
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    data = load_event_mnist()
    assert len(data) == 70_000
    assert data.length.double().mean().item() == pytest.approx(53.01, abs=0.01)
    assert int(data.length.max()) == 105
    assert data.y[~data.test].bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.y[data.test].bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    last = data.start + data.length - 1
    assert bool((data.time[last] == 256).all())
    assert len(make_splits(data, SplitBy.OFFICIAL)[0].test) == 10_000
