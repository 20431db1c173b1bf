"""The cells of a CSV file, and their lines, for error messages."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
import os
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import did_you_mean
from nacre._util.unpack import gunzip

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = (",", ";", "\t")
_EXCEL = re.compile(r"sep=(.)\r?\n")  # a first line by which Excel says what separates cells
_COMMA = re.compile(r"[-+]?\d+,\d+")
_MAY_MISS = ("features", "target", "value")  # roles of cells that may be missing, if the table may have gaps
_BLANK = "leave the cell empty if nothing was observed, or drop the row"
_WAYS = ", or say missing='flags' (or 'last' or 'events') if it was not observed"
NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_MISSING = ("", "NaN", "nan", "NA", "N/A", "null", "None")  # how programs write that a value is missing
_LONGEST_SHOWN = 60  # characters of a cell in a message
_LONGEST_NAME = 1000  # characters of a column's name
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # spreadsheets put it before UTF-8


@dataclass(frozen=True)
class Table:
    """A CSV file, one row for each line that is not blank."""

    path: Path
    frame: pd.DataFrame  # empty cells are missing; "NA" and "None" are text unless `gaps`
    separator: str
    decimal: str
    sha256: str  # checksum of the file; empty if there is none
    gaps: bool = False  # whether cells of features and targets may be missing
    origin: NDArray[np.int64] | None = None  # row of the file that each row comes from, if not the same

    def require(self, argument: str, name: str) -> None:
        """Refuse a column that the file does not have."""
        if name not in self.frame.columns:
            require_column(self.path, list(self.frame.columns), argument, name)

    def cells(self, name: str) -> pd.Series:
        """A column, not converted."""
        return cast("pd.Series", self.frame[name])

    def numbers(self, name: str, role: str = "features") -> NDArray[np.float64]:
        """[N] numbers of a column; refuse a cell that holds none, or one that float32 cannot hold."""
        values = self.maybe_numbers(name)
        with np.errstate(over="ignore"):
            lost = ~np.isfinite(values.astype(np.float32))
        if self.gaps and role in _MAY_MISS and lost.any():
            lost &= self.cells(name).notna().to_numpy()
        if lost.any():
            raise self.bad_cells(name, lost, "a finite number", role)
        return values

    def maybe_numbers(self, name: str) -> NDArray[np.float64]:
        """[N] numbers of a column, NaN where a cell is no number."""
        import pandas as pd

        cells = self.cells(name)
        if self.decimal != "." and not pd.api.types.is_numeric_dtype(cells.dtype):  # pandas left it as text
            # "1.500" might mean 1500: no number
            cells = cells.astype(str).str.replace(".", "?").str.replace(self.decimal, ".").where(cells.notna())
        try:
            return np.asarray(pd.to_numeric(cells, errors="coerce"), np.float64)
        except OverflowError:  # an integer of hundreds of digits
            return np.array([_float(cell) for cell in cells])

    def is_text(self, name: str) -> bool:
        """Whether most filled cells of a column are no numbers; fewer are mistakes, which `numbers` reports."""
        import pandas as pd

        cells = self.cells(name)
        if pd.api.types.is_numeric_dtype(cells.dtype):  # true and false, too
            return False
        filled = cells.notna().to_numpy()
        return bool(np.isnan(self.maybe_numbers(name)[filled]).sum() * 2 > filled.sum())

    def is_dates(self, name: str) -> bool:
        """Whether a column of a frame holds dates already."""
        import pandas as pd

        return pd.api.types.is_datetime64_any_dtype(self.cells(name).dtype)

    def refuse_commas(self, name: str, role: str) -> None:
        """Refuse a column of text if most of it looks like numbers with a decimal comma."""
        cells = self.cells(name).dropna().astype(str)
        commas = cells.str.strip().str.fullmatch(_COMMA)
        if self.decimal == "." and commas.mean() > 0.5:
            raise self.bad_cell(name, int(commas[commas].index[0]), "a finite number", role)

    def filled(self, name: str, role: str = "features") -> pd.Series:
        """A column of which no cell is empty."""
        cells = self.cells(name)
        empty = cells.isna().to_numpy()
        if empty.any():
            raise self.bad_cells(name, empty, "anything", role)
        return cells

    def bad_cells(self, name: str, bad: NDArray[np.bool_], wanted: str, role: str = "features") -> ValueError:
        """The error about the cells of a column where `bad` [N] is True: the first, and how many more."""
        first, more = self.bad_cell(name, int(bad.argmax()), wanted, role), int(bad.sum()) - 1
        if not more:
            return first
        return ValueError(f"{first} ({more:,} more cell{'s' if more > 1 else ''} of this column like that)")

    def bad_cell(self, name: str, row: int, wanted: str, role: str = "features") -> ValueError:
        """The error about one cell of a column with this role: "features", "time", "target" or "group"."""
        import pandas as pd

        cell = self.cells(name).iloc[row]
        got = "is empty" if pd.isna(cell) else f"holds {_shown(cell)}, not {wanted}"
        if self.decimal == "." and _COMMA.fullmatch(str(cell).strip()):
            fix = "if this is a decimal comma, say decimal=','"
        elif role == "features":
            fix = _BLANK if self.gaps else "fill the cell or drop the row"
            fix += _WAYS if pd.isna(cell) else ""
            fix += ", or leave the column out (features=...)"
            if self.is_text(name):
                fix += f", or say that it holds names (categories=[{name!r}])"
        else:
            may_miss = role in _MAY_MISS
            fix = _BLANK if may_miss and self.gaps else "fill the cell or drop the row"
            fix += _WAYS if may_miss and pd.isna(cell) else ""
        return ValueError(f"{self.place(row)}: column {name!r} {got}; {fix}")

    def place(self, row: int) -> str:
        """File and line of a row, for messages; of a frame, the number of the row."""
        row = row if self.origin is None else int(self.origin[row])
        return f"{self.path}, line {self._line(row):,}" if self.sha256 else f"{self.path}, row {row:,}"

    def _line(self, row: int) -> int:
        """Line of the file, counted from 1, on which a row begins. Reads the file again: for errors only."""
        return _record(_contents(self.path)[0].decode("utf-8-sig"), self.separator, row + 1)[0]


def read_table(
    path: str | os.PathLike[str],
    group: str | None,
    texts: Mapping[str, str] = NO_TEXTS,
    decimal: str = ".",
    gaps: bool = False,
    labels: Sequence[str] = (),
) -> Table:
    """Read a CSV file: UTF-8, with a header; separated by commas, semicolons or tabs; `.gz` is unpacked.

    The columns `group` and `texts`, whose roles it says, stay text, so that "007" keeps its zeros. Empty cells are
    missing and, where there may be gaps, "NaN", "NA", "N/A", "null" and "None", but in `labels` and in text.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is empty, not UTF-8, or not a table.
    """
    import pandas as pd

    path = Path(path)
    contents, sha256 = _contents(path)
    text = _decoded(path, contents)
    separator = _separator(text)
    if separator == decimal:
        raise ValueError(
            f"{path}: decimal and separator are both {decimal!r}; quote the numbers, or use semicolons"
        )
    header = _header(path, text, separator)
    texts = {**texts} | ({} if group is None else {group: "group"})
    for name, role in texts.items():
        require_column(path, header, role, name)
    skipped = 1 if _EXCEL.match(text) else 0
    named = {name: list(_MISSING) for name in header if name not in texts and name not in labels}
    del text  # as large as the file
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.BytesIO(contents.removeprefix(_BYTE_ORDER_MARK)),
                names=header,
                header=0,
                skiprows=skipped,
                sep=separator,
                decimal=decimal,
                index_col=False,
                dtype=dict.fromkeys(texts, str),
                keep_default_na=False,  # a class may well be called "None"
                na_values=named | {name: [""] for name in header if name not in named} if gaps else [""],
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
    return Table(path, frame, separator, decimal, sha256, gaps)


def _float(cell: object) -> float:
    try:
        return float(str(cell))
    except ValueError:
        return math.nan


def _shown(cell: object) -> str:
    """A cell as messages quote it."""
    text = str(cell)
    return repr(text) if len(text) <= _LONGEST_SHOWN else f"{text[:20]!r}... ({len(text):,} characters)"


def _separator(text: str) -> str:
    """What separates cells: what Excel says, or what is most frequent in the header; on a tie, the comma."""
    if (said := _EXCEL.match(text)) is not None:
        return said[1]
    return max(_SEPARATORS, key=text.lstrip().partition("\n")[0].count)


def _contents(path: Path) -> tuple[bytes, str]:
    """The unpacked bytes of a file, and the checksum of what is on disk."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}; give the path of a CSV file")
    packed = path.read_bytes()
    try:
        contents = gunzip(packed) if path.suffix == ".gz" else packed
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} ends in .gz but cannot be unpacked: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None
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
    _, cells = _record(text, separator, 0)
    names = [cell.strip() or f"(column {number})" for number, cell in enumerate(cells, 1)]
    longest = max(names, key=len)
    if len(longest) > _LONGEST_NAME:
        raise ValueError(
            f"{path}: a name in the header has {len(longest):,} characters ({longest[:20]!r}...), at most "
            f"{_LONGEST_NAME:,} are allowed; is a quote left open?"
        )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: column {twice!r} is in the header twice; rename one of them")
    return names


def _record(text: str, separator: str, number: int) -> tuple[int, list[str]]:
    """The record of this number, the header being 0, and the line it begins on."""
    before = csv.field_size_limit(len(text))  # of Python's reader: far below what pandas reads
    try:
        return next(itertools.islice(_records(text, separator), number, None))
    finally:
        csv.field_size_limit(before)


def _records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, the header first, each with the line it begins on; quoted cells may span lines."""
    said = _EXCEL.match(text)
    text, begin = (text, 1) if said is None else (text[said.end() :], 2)
    before = begin
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    for record in reader:
        if len(record) > 1 or "".join(record).strip():
            yield begin, record
        begin = reader.line_num + before


def require_column(path: Path, columns: list[str], argument: str, name: str) -> None:
    """Refuse a column that is not among those of a table."""
    if name not in columns:
        listed = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
        hint = did_you_mean(name, columns) or "."
        raise ValueError(f"{argument}: {path} has no column {name!r}{hint} Its columns are {listed}")
