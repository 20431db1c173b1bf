"""The continuous wavelet transform with a complex Morlet wavelet, of many windows at once."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre._util.checks import real, whole

_HALF_SUPPORT = 8.0  # the wavelet is sampled from -8 to 8
_AT_ONCE = 2**18  # complex numbers held at a time: they fit into the cache


class Morlet:
    """Wavelet transform of windows of one length, equal to that of PyWavelets, by FFT and for all scales together.

    PyWavelets makes the filter of a scale from a sampled integral of the wavelet. Here the same filters are cut to
    what a window can reach, transformed once, and used for all windows, of which `nacre.bearings` has thousands.

    Args:
        length: Samples of a window.
        scales: Scales, each a stretch of the wavelet in samples.
        bandwidth: Of the wavelet, PyWavelets' B in `cmorB-C`.
        centre: Frequency of the wavelet at scale 1, in cycles a sample; PyWavelets' C.
        precision: The wavelet is sampled at 2**precision points. Old versions of PyWavelets took 10,
            new ones take 12; with 10, filters of large scales are coarse.

    Example:
        >>> wave = Morlet(256, [8.0, 16.0, 32.0])
        >>> tone = torch.sin(2 * math.pi * torch.arange(256) / 32)  # 32 samples a period
        >>> wave.energy(tone).argmax().item(), wave.frequencies(1.0)
        (1, array([0.0625  , 0.03125 , 0.015625]))
    """

    def __init__(
        self,
        length: int,
        scales: Sequence[float] | NDArray[np.float64],
        bandwidth: float = 1.0,
        centre: float = 0.5,
        precision: int = 12,
    ) -> None:
        self.length = whole("length", length, 2)
        self.scales = np.asarray(scales, np.float64)
        if self.scales.ndim != 1 or not len(self.scales) or not (self.scales > 0).all():
            raise ValueError("scales must be a list of positive numbers")
        self.centre = real("centre", centre, 0.0, math.inf, open_low=True)
        real("bandwidth", bandwidth, 0.0, math.inf, open_low=True)
        whole("precision", precision, 4)
        x = np.linspace(-_HALF_SUPPORT, _HALF_SUPPORT, 2**precision)
        psi = np.exp(2j * np.pi * centre * x - x**2 / bandwidth) / math.sqrt(np.pi * bandwidth)
        step = x[1] - x[0]
        integral = np.conj(psi.cumsum() * step)
        self._fft_length = 2 * length  # at least 2 length - 1, so that windows do not wrap around
        filters = np.stack([self._filter(integral, step, scale) for scale in self.scales])
        self._filters = torch.from_numpy(np.fft.fft(filters))  # [S, 2 length] complex128

    def frequencies(self, rate: float) -> NDArray[np.float64]:
        """[S] frequencies of the scales, in the unit of the sampling rate."""
        return self.centre / self.scales * rate

    def transform(self, windows: Tensor) -> Tensor:
        """Coefficients [..., S, length], complex128, of windows [..., length]."""
        if windows.shape[-1] != self.length:
            raise ValueError(f"windows must have {self.length} samples, got {windows.shape[-1]}")
        spectrum = torch.fft.fft(windows.double(), n=self._fft_length).unsqueeze(-2)
        return torch.fft.ifft(spectrum * self._filters)[..., : self.length]

    def energy(self, windows: Tensor) -> Tensor:
        """Squared coefficients [..., S], float64, of windows [..., length], summed over the window."""
        flat = windows.reshape(-1, windows.shape[-1])
        at_once = max(1, _AT_ONCE // (len(self.scales) * self._fft_length))
        parts = [torch.view_as_real(self.transform(x)).square().sum((-1, -2)) for x in flat.split(at_once)]
        return torch.cat(parts).reshape(*windows.shape[:-1], len(self.scales))

    def _filter(self, integral: NDArray[np.complex128], step: float, scale: float) -> NDArray[np.complex128]:
        """[2 length] taps of one scale; those of negative lags are at the end.

        PyWavelets convolves with the stretched integral, takes differences and cuts out the middle. That equals
        one convolution with the differences of the integral.
        """
        at = (np.arange(scale * 2 * _HALF_SUPPORT + 1) / (scale * step)).astype(int)
        stretched = integral[at[at < len(integral)]][::-1]
        middle = (len(stretched) - 2) // 2
        if len(stretched) < 2:
            raise ValueError(f"scales must be larger than {scale:g}, whose wavelet is shorter than two samples")
        around = np.zeros(2 * self.length + 1, np.complex128)  # lags -length to length; 0 beyond the filter
        first = middle - self.length
        low, high = max(0, first), min(len(stretched), middle + self.length + 1)
        around[low - first : high - first] = stretched[low:high]
        taps = -math.sqrt(scale) * np.diff(around)  # [2 length], lags -length to length - 1
        return np.roll(taps, -self.length)
