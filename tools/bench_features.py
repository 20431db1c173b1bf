"""Measure feature extraction beside PyWavelets: python tools/bench_features.py.

Writes results/bearings/features.json. Both describe the same windows, 1,000 samples of both axes, in turns in one
process on one thread; before that, their features are compared. Needs the development packages.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pywt
import torch
from measured import in_turns, provenance, write_result
from numpy.typing import NDArray
from scipy import stats

from nacre.signals.features import PAPER, WINDOW, WindowFeatures

RATE = 25_600.0
ROUNDS = 5
WINDOWS = {"nacre": 32, "PyWavelets, method conv": 1, "PyWavelets, method fft": 4}  # of a round
SCALES = np.geomspace(0.81 * RATE / 300, 0.81 * RATE / 33, 100)


def with_pywavelets(windows: NDArray[np.float64], method: str) -> NDArray[np.float64]:
    """[n, axes, 7] features of windows [n, axes, 1000], as the authors made theirs."""
    return np.array([[_describe(axis, method) for axis in window] for window in windows])


def _describe(x: NDArray[np.float64], method: str) -> list[float]:
    found, frequencies = pywt.cwt(x, SCALES, "cmor1.0-0.5", 1 / RATE, precision=10, method=method)
    energy = np.abs(found) ** 2
    density = np.histogram(x, bins=3, density=True)[0] + 1e-9
    numbers = (
        energy.sum(),
        frequencies[energy.sum(1).argmax()],
        stats.entropy(density),
        stats.kurtosis(x),
        stats.skew(x),
        x.mean(),
        x.std(),
    )
    return [float(number) for number in numbers]


def run() -> dict[str, Any]:
    """Windows a second of each, and how far their features are apart."""
    torch.set_num_threads(1)
    extract = WindowFeatures(RATE)
    windows = np.random.default_rng(0).normal(size=(max(WINDOWS.values()), 2, WINDOW))
    ways = {
        "nacre": lambda x: extract(torch.from_numpy(x))[..., : len(PAPER)].numpy(),
        "PyWavelets, method conv": lambda x: with_pywavelets(x, "conv"),
        "PyWavelets, method fft": lambda x: with_pywavelets(x, "fft"),
    }
    wanted = ways["PyWavelets, method conv"](windows[:2])
    apart = {name: float((np.abs(way(windows[:2]) - wanted) / np.abs(wanted)).max()) for name, way in ways.items()}
    actions = {name: partial(way, windows[: WINDOWS[name]]) for name, way in ways.items()}
    rates = {name: WINDOWS[name] / seconds for name, seconds in in_turns(actions, ROUNDS).items()}
    return {
        **provenance(),
        "windows a second": rates,
        "times faster": {name: rates["nacre"] / rate for name, rate in rates.items()},
        "largest relative difference": apart,
        "versions of PyWavelets": pywt.__version__,
    }


if __name__ == "__main__":
    write_result("bearings/features.json", run())
