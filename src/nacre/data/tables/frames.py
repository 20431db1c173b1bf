"""Frames of pandas, and of others such as polars, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nacre.data.tables.cells import Table, require_column

if TYPE_CHECKING:
    import pandas as pd


def is_frame(x: object) -> bool:
    """Whether this is a frame: of pandas, or one that hands over its columns as Arrow does, such as of polars."""
    return hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "__arrow_c_stream__"))


def are_frames(x: object) -> bool:
    """Whether this is a list of frames."""
    return isinstance(x, Sequence) and not isinstance(x, str) and len(x) > 0 and all(is_frame(item) for item in x)


def pandas_of(frame: Any) -> pd.DataFrame:  # noqa: ANN401 (frames of any library)
    """A frame as one of pandas: itself, or what Arrow makes of it."""
    if hasattr(frame, "iloc"):
        return frame
    try:
        import pyarrow as pa
    except ImportError:
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise ImportError(
            f"a {kind} is read by pyarrow, which is missing: pip install pyarrow, or give a pandas.DataFrame"
        ) from None
    return pa.table(frame).to_pandas()


def table_of(frame: pd.DataFrame, name: str, group: str | None, texts: Mapping[str, str], gaps: bool) -> Table:
    """A frame of pandas as a table; the columns `texts` become text."""
    import pandas as pd

    path = Path(name)
    if not isinstance(frame, pd.DataFrame) or frame.empty:
        raise ValueError(f"frame must be a pandas.DataFrame with rows, got {type(frame).__name__}")
    if path.name != name:
        raise ValueError(f"name must be fit for a file name, got {name!r}")
    names = [str(column) for column in frame.columns]
    twice = next((column for column, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: column {twice!r} is there twice; rename one of them")
    for column, role in ({**texts} | ({} if group is None else {group: "group"})).items():
        require_column(path, names, role, column)
    plain = frame.set_axis(names, axis=1).reset_index(drop=True)  # which copies no cells
    for column in names:
        cells = _plain(cast("pd.Series", plain[column]), column in texts)
        if cells is not None:
            plain[column] = cells
    return Table(path, plain, ",", ".", "", gaps)


def _plain(cells: pd.Series, text: bool) -> pd.Series | None:
    """A column as numbers, dates or text of numpy's types, missing cells staying missing; None if it is that."""
    import pandas as pd

    if text and not pd.api.types.is_object_dtype(cells.dtype):
        return _objects(cells, text=True)
    extended = isinstance(cells.dtype, pd.api.extensions.ExtensionDtype)
    if not extended or pd.api.types.is_datetime64_any_dtype(cells.dtype):
        return None
    if pd.api.types.is_numeric_dtype(cells.dtype) and not pd.api.types.is_bool_dtype(cells.dtype):
        return pd.Series(cells.to_numpy(np.float64, na_value=np.nan))
    return _objects(cells, text=False)


def _objects(cells: pd.Series, text: bool) -> pd.Series:
    """A column as objects, or their text; equal cells are one object, so that long columns stay small."""
    import pandas as pd

    code, names = pd.factorize(cells)  # a missing cell has code -1
    known = pd.Series(names)
    objects = [*(known.astype(str) if text else known).astype(object), None]
    return pd.Series(np.array(objects, object)[code], dtype=object)
