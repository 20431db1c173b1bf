"""The wavelet transform: equal to PyWavelets in every coefficient, and its energies to those of the authors."""

import math

import numpy as np
import pytest
import pywt
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.signals.wavelet import Morlet
from support.hypothesis import examples
from support.refused import refused


@examples(40)
@given(
    length=st.integers(2, 80),
    scales=st.lists(st.floats(1.0, 200.0), min_size=1, max_size=5),
    bandwidth=st.floats(0.5, 3.0),
    centre=st.floats(0.2, 1.5),
    precision=st.sampled_from([8, 10, 12]),
    seed=st.integers(0, 99),
)
def test_parity_with_pywavelets(length, scales, bandwidth, centre, precision, seed):
    x = np.random.default_rng(seed).normal(size=length)
    name = f"cmor{bandwidth!r}-{centre!r}"
    wave = pywt.ContinuousWavelet(name)
    wanted, frequencies = pywt.cwt(x, scales, wave, precision=precision)
    mine = Morlet(length, scales, wave.bandwidth_frequency, wave.center_frequency, precision)
    got = mine.transform(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, wanted, atol=1e-9 * max(1, np.abs(wanted).max()))
    # PyWavelets reads the centre off the sampled wavelet, so its own frequencies are a little coarse.
    np.testing.assert_allclose(mine.frequencies(1.0), frequencies, rtol=0.2)


def test_parity_of_the_papers_windows_with_pywavelets():
    scales = np.geomspace(0.81 * 25_600 / 300, 0.81 * 25_600 / 33, 100)
    x = np.random.default_rng(0).normal(size=(2, 1000))
    wave = Morlet(1000, scales, precision=10)
    for row in x:
        wanted, frequencies = pywt.cwt(row, scales, "cmor1.0-0.5", 1 / 25_600, precision=10)
        np.testing.assert_allclose(wave.transform(torch.from_numpy(row)).numpy(), wanted, atol=1e-10)
    np.testing.assert_allclose(wave.frequencies(25_600.0), frequencies, rtol=1e-12)


def test_energy_is_the_sum_of_squares_however_many_windows(monkeypatch):
    wave, x = Morlet(50, [4.0, 9.0, 30.0]), torch.randn(7, 2, 50, dtype=torch.float64)
    wanted = wave.transform(x).abs().square().sum(-1)
    for at_once in (1, 700, 10**9):
        monkeypatch.setattr("nacre.signals.wavelet._AT_ONCE", at_once)
        torch.testing.assert_close(wave.energy(x), wanted)


def test_a_tone_is_found_at_its_frequency():
    wave = Morlet(1000, np.geomspace(20, 400, 60), bandwidth=1.5, centre=1.0)
    for hertz in (4.0, 10.0, 25.0):
        tone = torch.sin(2 * math.pi * hertz / 1000 * torch.arange(1000))
        found = wave.frequencies(1000.0)[int(wave.energy(tone).argmax())]
        assert found == pytest.approx(hertz, rel=0.12)


def test_what_makes_no_sense_is_refused():
    for change, message in (
        ({"length": 1}, "length must be"),
        ({"scales": []}, "scales must be a list of positive numbers"),
        ({"scales": [3.0, 0.0]}, "scales must be a list of positive numbers"),
        ({"centre": 0.0}, "centre must lie"),
        ({"bandwidth": -1.0}, "bandwidth must lie"),
        ({"precision": 2}, "precision must be"),
        ({"scales": [0.01]}, "scales must be larger than 0.01"),
    ):
        with refused(message, case=f"{change}"):
            Morlet(**({"length": 10, "scales": [2.0]} | change))


def test_windows_of_another_length_are_refused():
    with pytest.raises(ValueError, match="windows must have 10 samples, got 9"):
        Morlet(10, [2.0]).transform(torch.zeros(9))
