"""Files of HUST: one MAT file for each bearing and load, some seconds of vibration each. Needs scipy."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nacre.data.rigs.rig import HUST
from nacre.data.rigs.snapshot import BadFile, Snapshot, check_samples

_FEWEST = 1000  # samples that make a signal
_SLOWEST, _FASTEST = 100.0, 1e7  # Hz
_RATES = ("fs", "rate", "sampling_rate")  # names under which a rate may stand


def read_mat(path: Path, rate: float | None = None) -> Snapshot:
    """The one signal of a MAT file, of one axis or two; one axis stands for both.

    Args:
        path: The file.
        rate: Samples a second, for files that do not say.

    Raises:
        BadFile: If it holds no signal, several, or cannot be read.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        found = loadmat(str(path), squeeze_me=False, struct_as_record=False)
    except NotImplementedError:
        raise BadFile(f"{path} is a MAT file of version 7.3; save it as version 7 (MATLAB: save -v7)") from None
    # What scipy raises for a file that is cut off or no MAT file at all.
    except (MatReadError, ValueError, TypeError, OSError, KeyError, IndexError, MemoryError) as error:
        raise BadFile(f"{path} is damaged or no MAT file: {error}") from None
    numbers = {k: v for k, v in found.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiu"}
    signals = {name: value for name, value in numbers.items() if value.size >= _FEWEST}
    if len(signals) != 1:
        names = ", ".join(signals) or "none"
        raise BadFile(f"{path} must hold one signal of {_FEWEST:,} samples or more, found {names}")
    ((name, signal),) = signals.items()
    samples = _two_axes(path, name, signal.astype(np.float64))
    return Snapshot(check_samples(path, samples, None), _rate(path, numbers, rate), 0.0)


def _two_axes(path: Path, name: str, signal: NDArray[np.float64]) -> NDArray[np.float64]:
    """[n, 2] of a signal [n, 1], [1, n], [n, 2] or [2, n]."""
    if signal.ndim != 2 or min(signal.shape) > 2:
        raise BadFile(f"{path}: {name} has shape {signal.shape}; wanted samples of one axis or two")
    columns = signal if signal.shape[0] >= signal.shape[1] else signal.T
    return np.ascontiguousarray(np.broadcast_to(columns, (len(columns), 2)))


def _rate(path: Path, numbers: dict[str, NDArray[np.float64]], given: float | None) -> float:
    """What the file says, else what was given."""
    for name, value in numbers.items():
        if name.lower() in _RATES:
            if value.size == 1 and _SLOWEST <= float(value.item()) <= _FASTEST:
                return float(value.item())
            raise BadFile(f"{path}: {name} must be one sampling rate in Hz, got {value.ravel()[:3].tolist()}")
    if given is None:
        raise BadFile(f"{path} does not say how fast it was sampled; give --rate, {HUST.rate:g} for HUST")
    return given
