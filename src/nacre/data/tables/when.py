"""Stamps of arrays as seconds or numbers: what a `Clock` is for arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nacre.data.tables.columns import Clock


def clock_of(time: Any) -> Clock:  # noqa: ANN401 (stamps in any form)
    """The clock of stamps [n, T] or n items [T_i]: the earliest date is its second 0; numbers stay as they are.

    Example:
        >>> clock_of([["2020-01-02", "2020-01-03"], ["2020-01-01", "2020-01-05"]]).origin
        '2020-01-01T00:00:00'
    """
    if time is None or not len(time) or not _are_dates(time[0]):
        return Clock()
    return Clock(min(_dates(item).min() for item in time).tz_localize(None).isoformat())


def seconds_by(clock: Clock, time: Any) -> Any:  # noqa: ANN401
    """Stamps by a known clock: numbers as they came, or seconds since its origin."""
    dates = not isinstance(time, str) and len(time) > 0 and _are_dates(time[0])
    if clock.origin is None:
        if dates:
            raise ValueError("time holds dates, but training had numbers; give stamps on the same clock")
        return time
    if not dates:
        raise ValueError(f"time holds numbers, but training had dates, from {clock.origin} on; give dates")
    return [instants(clock, item) for item in time]


def instants(clock: Clock, moments: Any) -> NDArray[np.float64]:  # noqa: ANN401
    """[m] moments by a clock, in float64."""
    import pandas as pd

    if clock.origin is None:
        return np.asarray(moments, np.float64)
    return (_dates(moments) - pd.Timestamp(clock.origin, tz="UTC")).total_seconds().to_numpy(np.float64)


def _are_dates(item: Any) -> bool:  # noqa: ANN401
    """Whether the stamps of a sequence are dates: of numpy, pandas or Python, or text."""
    kind = np.asarray(item).dtype.kind
    return kind in "MU" or (kind == "O" and len(item) > 0 and hasattr(next(iter(item)), "year"))


def _dates(item: Any) -> Any:  # noqa: ANN401
    import pandas as pd

    try:
        return pd.DatetimeIndex(pd.to_datetime(np.asarray(item), utc=True))
    except (ValueError, TypeError) as error:
        raise ValueError(f"time must hold numbers or dates: {error}") from None
