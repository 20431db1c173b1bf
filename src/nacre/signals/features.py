"""Features of windows of vibration samples."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre._util.checks import real, whole
from nacre.signals.wavelet import Morlet

WINDOW = 1000  # samples
HOP = 500  # samples from one window to the next
# The seven of the paper, in the order of its authors' files, and three that every maintenance engineer knows.
PAPER = ("energy", "dominant_frequency", "entropy", "kurtosis", "skewness", "mean", "std")
CLASSICAL = ("rms", "peak", "crest")
WINDOW_FEATURES = (*PAPER, *CLASSICAL)

_SCALES = 100
_NOMINAL = 0.81  # cycles, which the authors took for the wavelet's frequency; it is 0.5
_BAND = (33.0, 300.0)  # Hz that they meant; 20.4 to 185.2 Hz is what they got
_BINS = 3  # of the histogram whose entropy is taken
_FLOOR = 1e-9  # added to its densities

_CARRIER = (0.08, 0.4)  # band of the envelope, relative to the sampling rate: 2 to 10 kHz at 25.6 kHz
_HARMONICS = 3  # of a fault frequency
_WIDTH = 0.02  # relative half width of the band around a harmonic: bearings slip


class WindowFeatures:
    """Features of windows of one length and sampling rate.

    Args:
        rate: Samples a second.
        window: Samples of a window.
        precision: Of the sampled wavelet, see `nacre.signals.wavelet.Morlet`; 10 in the authors' files.

    Example:
        >>> windows = torch.randn(4, 2, WINDOW, generator=torch.Generator().manual_seed(0))
        >>> WindowFeatures(25_600.0)(windows).shape  # [windows, axes, features]
        torch.Size([4, 2, 10])
    """

    def __init__(self, rate: float, window: int = WINDOW, precision: int = 10) -> None:
        self.rate = real("rate", rate, 0.0, np.inf, open_low=True)
        self.window = whole("window", window, 8)
        high, low = (_NOMINAL * rate / hertz for hertz in _BAND)
        self._morlet = Morlet(window, np.geomspace(high, low, _SCALES), precision=precision)
        self._frequencies = torch.from_numpy(self._morlet.frequencies(rate))

    def __call__(self, windows: Tensor) -> Tensor:
        """[..., 10] float64, `WINDOW_FEATURES` of windows [..., window], which must be finite and vary."""
        x = windows.double()
        if not x.isfinite().all():
            raise ValueError("windows must be finite, got NaN or infinity")
        if (x == x[..., :1]).all(-1).any():
            raise ValueError("windows must vary, got one whose samples are all the same; is the sensor connected?")
        energy = self._morlet.energy(x)  # [..., scales]
        mean, central = x.mean(-1), x - x.mean(-1, keepdim=True)
        power = central.square().mean(-1)
        peak, rms = x.abs().amax(-1), x.square().mean(-1).sqrt()
        return torch.stack(
            [
                energy.sum(-1),
                self._frequencies[energy.argmax(-1)],
                entropy(x),
                central.pow(4).mean(-1) / power.square() - 3,
                central.pow(3).mean(-1) / power.pow(1.5),
                mean,
                power.sqrt(),
                rms,
                peak,
                peak / rms,
            ],
            -1,
        )


def entropy(x: Tensor) -> Tensor:
    """Entropy [...] in nats of a histogram of three bins from the smallest to the largest sample of x [..., n]."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    width = (high - low) / _BINS
    first = (x < low + width).sum(-1)
    last = (x >= low + 2 * width).sum(-1)
    counts = torch.stack([first, x.shape[-1] - first - last, last], -1)  # [..., 3]
    density = counts / (x.shape[-1] * width) + _FLOOR
    share = density / density.sum(-1, keepdim=True)
    return -(share * share.log()).sum(-1)


def windows_of(samples: NDArray[np.float64], window: int = WINDOW, hop: int = HOP) -> Tensor:
    """[n, axes, window] the complete windows of a recording [samples, axes].

    Example:
        >>> windows_of(np.arange(2560.0).reshape(-1, 1))[:, 0, 0]
        tensor([   0.,  500., 1000., 1500.], dtype=torch.float64)
    """
    return torch.from_numpy(np.ascontiguousarray(samples)).double().unfold(0, window, hop)


def envelope_energy(samples: NDArray[np.float64], rate: float, frequencies: Mapping[str, float]) -> Tensor:
    """[axes, frequencies] relative energy of the envelope near the first harmonics of each fault frequency.

    Impacts of a damaged bearing make the structure ring at some kHz; the envelope of that band shows how often.

    Args:
        samples: [samples, axes], a snapshot as long as possible: its length limits the frequency resolution.
        rate: Samples a second.
        frequencies: Impacts a second by name, as from `nacre.data.rigs.rig.Geometry.fault_frequencies`.
    """
    x = torch.from_numpy(np.ascontiguousarray(samples.T)).double()  # [axes, n]
    count = x.shape[-1]
    hertz = torch.fft.fftfreq(count, 1 / rate, dtype=torch.float64)
    carrier = (hertz >= _CARRIER[0] * rate) & (hertz <= _CARRIER[1] * rate)
    envelope = torch.fft.ifft(torch.fft.fft(x) * carrier).abs()  # positive frequencies only: analytic signal
    envelope = (envelope - envelope.mean(-1, keepdim=True)) * torch.hann_window(count, dtype=torch.float64)
    power, hertz = torch.fft.rfft(envelope).abs().square(), torch.fft.rfftfreq(count, 1 / rate).double()
    # A band must hold one line of the spectrum at least.
    half = {name: max(_WIDTH * frequency, 0.5 * rate / count) for name, frequency in frequencies.items()}
    near = [
        torch.stack([(hertz - k * f).abs() <= k * half[name] for k in range(1, _HARMONICS + 1)]).any(0)
        for name, f in frequencies.items()
    ]
    shares = [power[:, band].sum(-1) / power.sum(-1).clamp(min=torch.finfo(power.dtype).tiny) for band in near]
    return torch.stack(shares, -1)
