"""None and NaN among numbers and labels of your own."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def none_as_nan(array: NDArray) -> NDArray:
    """Numbers of an array of objects, NaN where there was None; the array itself if it holds anything else.

    Example:
        >>> none_as_nan(np.array([1, None], object))
        array([ 1., nan])
    """
    if all(cell is None or isinstance(cell, (int, float, np.number)) for cell in array.ravel().tolist()):
        return array.astype(np.float64)
    return array


def close_gaps(y: Any) -> tuple[Any, NDArray[np.bool_] | None]:  # noqa: ANN401 (whatever `from_arrays` takes)
    """Answers with some known one where they are None or NaN, and which those are, [m] or [m, D]; None for none.

    What is known keeps its type: text, bools and integers stay classes.

    Example:
        >>> close_gaps(["calm", None, "storm"])
        (['calm', 'calm', 'storm'], array([False,  True, False]))
    """
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    whole = np.asarray(y) if not isinstance(y, (list, tuple)) else None
    if whole is not None and whole.dtype != object:
        items: list[Any] = [np.asarray(item) for item in whole]
        gone = [np.isnan(item) if whole.dtype.kind == "f" else np.zeros(np.shape(item), bool) for item in items]
    else:
        items = [np.asarray(item.tolist() if hasattr(item, "tolist") else item, object) for item in y]
        gone = [np.asarray(np.frompyfunc(_is_gap, 1, 1)(item), bool) for item in items]
    known = next((item[~gap].flat[0] for item, gap in zip(items, gone, strict=True) if not np.all(gap)), None)
    if known is None:
        raise ValueError("y is missing everywhere, so there is nothing to learn")
    if not any(np.any(gap) for gap in gone):
        return y, None
    filled = [np.where(gap, known, item).tolist() for item, gap in zip(items, gone, strict=True)]
    joined = np.concatenate if np.ndim(gone[0]) else np.stack
    try:
        return filled, joined(gone)
    except ValueError:  # of shapes that do not fit, which `from_arrays` refuses
        return y, None


def _is_gap(cell: object) -> bool:
    return cell is None or (isinstance(cell, (float, np.floating)) and bool(np.isnan(cell)))
