"""Features of vibration: equal to scipy and numpy, to the authors' files, and telling of damage."""

import ast
import csv
import gzip
import io
import lzma
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import signal, stats

from nacre.data.rigs.rig import HUST, PRONOSTIA, XJTU, Geometry
from nacre.signals.features import (
    PAPER,
    WINDOW,
    WINDOW_FEATURES,
    WindowFeatures,
    entropy,
    envelope_energy,
    windows_of,
)
from support.bearings import vibration
from support.hypothesis import DEEP
from support.refused import refused

DATA = os.environ.get("NACRE_DATA")


def noise(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_statistics_are_those_of_scipy():
    windows = noise(5, 2, WINDOW) ** 3 + 0.4
    found = dict(zip(WINDOW_FEATURES, WindowFeatures(25_600.0)(windows).unbind(-1), strict=True))
    x = windows.numpy()
    wanted = {
        "kurtosis": stats.kurtosis(x, -1),
        "skewness": stats.skew(x, -1),
        "mean": x.mean(-1),
        "std": x.std(-1),
        "rms": np.sqrt((x**2).mean(-1)),
        "peak": np.abs(x).max(-1),
        "crest": np.abs(x).max(-1) / np.sqrt((x**2).mean(-1)),
    }
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name].numpy(), value, rtol=1e-9, err_msg=name)


def test_entropy_is_that_of_a_histogram_of_three_bins():
    for x in (noise(3, 50), noise(3, 50).round(), torch.arange(4.0).double().view(1, 4)):
        for row, got in zip(x, entropy(x), strict=True):
            density = np.histogram(row.numpy(), bins=3, density=True)[0] + 1e-9
            assert got.item() == pytest.approx(stats.entropy(density), rel=1e-12), row


def test_a_batch_of_windows_equals_its_windows():
    windows, of = noise(4, 2, 200), WindowFeatures(10_000.0, window=200)
    for one, row in zip(windows, of(windows), strict=True):
        torch.testing.assert_close(of(one), row)


def test_windows_overlap_by_half_and_stay_within_a_snapshot():
    samples = np.arange(2560.0)[:, None] * [1.0, -1.0]
    windows = windows_of(samples)
    assert windows.shape == (4, 2, WINDOW)
    assert windows[:, 0, 0].tolist() == [0, 500, 1000, 1500]
    assert windows[3, 1, -1] == -2499


def test_silent_windows_and_samples_that_are_not_finite_are_refused():
    features = WindowFeatures(25_600.0)
    for value in (float("nan"), float("inf")):
        windows = noise(1, 2, WINDOW)
        windows[0, 1, 7] = value
        with refused("windows must be finite", case=value):
            features(windows)
    windows = noise(2, 2, WINDOW)
    windows[1, 0] = 0.25
    with refused("samples are all the same; is the sensor connected"):
        features(windows)


# --- envelopes ----------------------------------------------------------------------------------------------


def test_knocks_show_in_the_envelope_at_the_frequency_of_the_damaged_part():
    geometry = PRONOSTIA.geometry.fault_frequencies(1800.0)
    names = list(geometry)
    for part in ("bpfo", "bpfi", "bsf"):
        healthy, worn = (
            envelope_energy(vibration(25_600, wear, knocks=geometry[part]), 25_600.0, geometry)
            for wear in (0, 0.8)
        )
        place = names.index(part)
        assert (worn[:, place] > 10 * healthy[:, place]).all()
        assert worn[0].argmax() == place


def test_the_envelope_is_that_of_scipy():
    samples, rate = vibration(4096, 0.5), 25_600.0
    spectrum, hertz = np.fft.fft(samples, axis=0), np.abs(np.fft.fftfreq(4096, 1 / rate))
    band = np.fft.ifft(spectrum * ((hertz >= 0.08 * rate) & (hertz <= 0.4 * rate))[:, None], axis=0).real
    envelope = np.abs(signal.hilbert(band, axis=0)) / 2  # the analytic signal has twice the positive frequencies
    envelope = (envelope - envelope.mean(0)) * signal.get_window("hann", 4096)[:, None]
    power, hertz = np.abs(np.fft.rfft(envelope, axis=0)) ** 2, np.fft.rfftfreq(4096, 1 / rate)
    near = sum(np.abs(hertz - k * 168.3) <= k * 0.02 * 168.3 for k in (1, 2, 3)) > 0
    found = envelope_energy(samples, rate, {"bpfo": 168.3})
    np.testing.assert_allclose(found[:, 0].numpy(), power[near].sum(0) / power.sum(0), rtol=1e-6)


def test_fault_frequencies_are_those_of_the_rigs():
    # What the rigs' papers give for them, in Hz.
    assert PRONOSTIA.geometry.fault_frequencies(1800)["bpfo"] == pytest.approx(168.3, abs=0.1)
    assert XJTU.geometry.fault_frequencies(2100)["bpfo"] == pytest.approx(107.91, abs=0.05)
    assert XJTU.geometry.fault_frequencies(2100)["bpfi"] == pytest.approx(172.09, abs=0.05)
    found = Geometry(balls=9, ball=10.0, pitch=50.0, angle=40.0).fault_frequencies(600)
    assert found["bpfo"] + found["bpfi"] == pytest.approx(90)  # balls times turns
    assert found["ftf"] * 9 == pytest.approx(found["bpfo"])


def test_conditions_come_from_names():
    assert PRONOSTIA.condition("Bearing3_2").rpm == 1500
    assert XJTU.condition("Bearing1_5").load == 12_000
    assert HUST.condition("N502").rpm is None
    assert PRONOSTIA.condition("mine").rpm is None


# --- the authors' own files ---------------------------------------------------------------------------------


@pytest.mark.skipif(not DATA, reason="needs $NACRE_DATA")
@pytest.mark.parametrize("bearing", ["Bearing2_7", pytest.param("Bearing1_2", marks=pytest.mark.deep)])
def test_parity_with_the_authors_features_of_the_same_raw_windows(bearing):
    """They joined all snapshots of a run and cut windows across the joints."""
    folder = Path(DATA) / "bearings"
    with lzma.open(folder / "pronostia_raw" / f"{bearing}_acc_milli_g_int32.npy.xz") as file:
        samples = np.load(io.BytesIO(file.read())).reshape(-1, 2) / 1000.0
    path = folder / "author_features_nac" / "tf_features_pronostia" / f"{bearing}_features.csv.gz"
    with gzip.open(path, "rt") as file:
        wanted = np.array(
            [[ast.literal_eval(row[axis]) for axis in ("Horizontal", "Vertical")] for row in csv.DictReader(file)]
        )
    count = len(range(0, len(samples) - WINDOW, WINDOW // 2))
    assert wanted.shape == (count, 2, len(PAPER))
    some = slice(None, None, 1 if DEEP else 23)
    found = WindowFeatures(25_600.0)(windows_of(samples)[:count][some])[..., : len(PAPER)].numpy()
    apart = np.abs(found - wanted[some]) / np.abs(wanted[some]).max((0, 1))
    assert apart.max() < 1e-13
