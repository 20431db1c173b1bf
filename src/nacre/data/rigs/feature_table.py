"""`FeatureTable`: the features of one bearing over its recorded life, and its Parquet file. Needs pyarrow."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nacre._util.files import write_atomic

FORMAT = 1
SUFFIX = ".parquet"
_ABOUT = b"nacre"  # key of the metadata in the Parquet file


@dataclass(frozen=True)
class FeatureTable:
    """Features of windows in order of time."""

    rig: str
    name: str  # of the bearing
    seconds: NDArray[np.float64]  # [n] from the recording's first sample to the window's, pauses included
    names: tuple[str, ...]  # of the features, such as "horizontal_rms"
    values: NDArray[np.float64]  # [n, F]
    temperature: NDArray[np.float64]  # [n] in degrees Celsius; NaN where it was not measured
    file: NDArray[np.int64]  # [n] which of `files` a window comes from
    files: tuple[str, ...]  # names
    rate: float  # samples a second
    rpm: float | None = None  # None if not known
    load: float | None = None  # radial, in newtons; None if not known
    life: float | None = None  # seconds from the first sample to the failure; None if the recording ends with it
    skipped: tuple[str, ...] = ()  # one line for each file that was left out

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        shapes = (self.seconds.shape, self.temperature.shape, self.file.shape, self.values.shape[:1])
        if len(set(shapes)) > 1 or self.values.ndim != 2 or self.values.shape[1] != len(self.names):
            raise ValueError(f"{self.rig} {self.name}: times, features and names do not fit together")
        if not len(self.seconds) or (np.diff(self.seconds) < 0).any():
            raise ValueError(f"{self.rig} {self.name}: time must not go back, and there must be a window at least")

    def column(self, name: str) -> NDArray[np.float64]:
        """[n] one feature by its name."""
        if name not in self.names:
            raise ValueError(f"{self.rig} {self.name} has no feature {name!r}; it has {', '.join(self.names)}")
        return self.values[:, self.names.index(name)]


def write_table(path: Path, table: FeatureTable) -> Path:
    """Write a table as Parquet, atomically: a column each for time, temperature, file and features."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {
        "format": FORMAT,
        **{key: getattr(table, key) for key in ("rig", "name", "rate", "rpm", "load", "life")},
        "files": table.files,
        "skipped": table.skipped,
    }
    columns = {
        "seconds": table.seconds,
        "file": table.file,
        "temperature": table.temperature,
        **dict(zip(table.names, table.values.T, strict=True)),
    }
    arrow = pa.table({name: pa.array(np.ascontiguousarray(column)) for name, column in columns.items()})
    file = io.BytesIO()
    pq.write_table(arrow.replace_schema_metadata({_ABOUT: json.dumps(about).encode()}), file)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, file.getvalue())


def read_table(path: Path) -> FeatureTable:
    """Read a table that `write_table` wrote; a ValueError if it is damaged or something else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        arrow = pq.read_table(io.BytesIO(path.read_bytes()))
        about: dict[str, Any] = json.loads((arrow.schema.metadata or {})[_ABOUT])
        found = about.pop("format")
        columns = {name: arrow[name].to_numpy() for name in arrow.column_names}
        if found != FORMAT:
            raise ValueError(f"it has format {found}, this nacre reads {FORMAT}")
        own = {name: columns.pop(name) for name in ("seconds", "file", "temperature")}
        about |= {"files": tuple(about["files"]), "skipped": tuple(about["skipped"])}
        return FeatureTable(names=tuple(columns), values=np.stack(list(columns.values()), 1), **own, **about)
    except FileNotFoundError:
        raise
    # What pyarrow, json and numpy raise for a file that is damaged or of another origin.
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(
            f"{path} is damaged, or no table of features ({error}); make it again with `nacre data features`"
        ) from None
