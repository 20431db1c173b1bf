"""The cells of a CSV file, and their lines, for error messages."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = (",", ";", "\t")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # spreadsheets put it before UTF-8


@dataclass(frozen=True)
class Table:
    """A CSV file, one row for each line that is not blank."""

    path: Path
    frame: pd.DataFrame  # empty cells are missing; "NA" and "None" are text
    separator: str
    sha256: str  # checksum of the file

    def require(self, argument: str, name: str) -> None:
        """Refuse a column that the file does not have."""
        _require(self.path, list(self.frame.columns), argument, name)

    def cells(self, name: str) -> pd.Series:
        """A column, not converted."""
        return cast("pd.Series", self.frame[name])

    def numbers(self, name: str) -> NDArray[np.float64]:
        """[N] numbers of a column; refuse a cell that holds none, or one that float32 cannot hold."""
        values = self.maybe_numbers(name)
        with np.errstate(over="ignore"):
            lost = ~np.isfinite(values.astype(np.float32))
        if lost.any():
            raise self.bad_cell(name, int(lost.argmax()), "a finite number")
        return values

    def maybe_numbers(self, name: str) -> NDArray[np.float64]:
        """[N] numbers of a column, NaN where a cell is no number."""
        import pandas as pd

        return np.asarray(pd.to_numeric(self.cells(name), errors="coerce"), np.float64)

    def is_text(self, name: str) -> bool:
        """Whether most filled cells of a column are no numbers; fewer are mistakes, which `numbers` reports."""
        import pandas as pd

        cells = self.cells(name)
        if pd.api.types.is_numeric_dtype(cells.dtype):  # true and false, too
            return False
        filled = cells.notna().to_numpy()
        return bool(np.isnan(self.maybe_numbers(name)[filled]).sum() * 2 > filled.sum())

    def filled(self, name: str) -> pd.Series:
        """A column of which no cell is empty."""
        cells = self.cells(name)
        empty = cells.isna().to_numpy()
        if empty.any():
            raise self.bad_cell(name, int(empty.argmax()), "anything")
        return cells

    def bad_cell(self, name: str, row: int, wanted: str) -> ValueError:
        """The error about one cell."""
        import pandas as pd

        cell = self.cells(name).iloc[row]
        got = "is empty" if pd.isna(cell) else f"holds {str(cell)!r}, not {wanted}"
        return ValueError(
            f"{self.path}, line {self.line(row):,}: column {name!r} {got}; fill the cell or drop the row, "
            "or leave the column out if it is a feature (features=...)"
        )

    def line(self, row: int) -> int:
        """Line of the file, counted from 1, on which a row begins. Reads the file again: for errors only."""
        records = _records(_contents(self.path)[0].decode("utf-8-sig"), self.separator)
        return next(line for number, (line, _) in enumerate(records, -1) if number == row)  # -1: the header


def read_table(path: str | os.PathLike[str], group: str | None) -> Table:
    """Read a CSV file: UTF-8, with a header; separated by commas, semicolons or tabs; `.gz` is unpacked.

    The column `group` stays text, so that "007" keeps its zeros.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is empty, not UTF-8, or not a table.
    """
    import pandas as pd

    path = Path(path)
    contents, sha256 = _contents(path)
    text = _decoded(path, contents)
    separator = max(_SEPARATORS, key=text.lstrip().partition("\n")[0].count)  # of the header; on a tie, the comma
    header = _header(path, text, separator)
    if group is not None:
        _require(path, header, "group", group)
    del text  # as large as the file
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.BytesIO(contents.removeprefix(_BYTE_ORDER_MARK)),
                names=header,
                header=0,
                sep=separator,
                index_col=False,
                dtype={} if group is None else {group: str},
                keep_default_na=False,  # a class may well be called "None"
                na_values=[""],
                skipinitialspace=True,
                low_memory=False,  # one type a column
            )
    except pd.errors.ParserWarning:
        raise ValueError(f"{path}: rows have more cells than the header has names ({len(header)})") from None
    except pd.errors.ParserError as error:
        raise ValueError(
            f"{path} is not a table: {str(error).strip()}; quote cells that hold {separator!r}"
        ) from None
    if frame.empty:
        raise ValueError(f"{path} holds a header but no rows")
    return Table(path, frame, separator, sha256)


def _contents(path: Path) -> tuple[bytes, str]:
    """The unpacked bytes of a file, and the checksum of what is on disk."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; give the path of a CSV file")
    packed = path.read_bytes()
    try:
        contents = gzip.decompress(packed) if path.suffix == ".gz" else packed
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} ends in .gz but cannot be unpacked: {error}") from None
    return contents, hashlib.sha256(packed).hexdigest()


def _decoded(path: Path, contents: bytes) -> str:
    try:
        text = contents.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = contents.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line:,}: byte {contents[error.start]:#04x} is not UTF-8; save the file as UTF-8"
        ) from None
    if not text.strip():
        raise ValueError(f"{path} is empty; it needs a header with the names of its columns, and rows")
    return text


def _header(path: Path, text: str, separator: str) -> list[str]:
    """Names of the columns; one without a name gets one in brackets."""
    _, cells = next(_records(text, separator))
    names = [cell.strip() or f"(column {number})" for number, cell in enumerate(cells, 1)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: column {twice!r} is in the header twice; rename one of them")
    return names


def _records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, the header first, each with the line it begins on; quoted cells may span lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    begin = 1
    for record in reader:
        if len(record) > 1 or "".join(record).strip():
            yield begin, record
        begin = reader.line_num + 1


def _require(path: Path, columns: list[str], argument: str, name: str) -> None:
    if name not in columns:
        listed = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
        hint = did_you_mean(name, columns) or "."
        raise ValueError(f"{argument}: {path} has no column {name!r}{hint} Its columns are {listed}")
