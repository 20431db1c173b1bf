"""Atomic writes, JSON of others, and the cache folder."""

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_atomic(path: Path, data: bytes | Iterable[bytes]) -> Path:
    """Write to a temporary name, then rename: nobody sees a half-written file. Blocks are written as they come."""
    # Not mkstemp: only the owner could read its files.
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise named(error, path) from None
    finally:
        temporary.unlink(missing_ok=True)
    return path


def named(error: OSError, path: Path) -> OSError:
    """The same error about this path: a full disk names none, and temporary names tell a user nothing.

    Example:
        >>> print(named(OSError(28, "No space left on device"), Path("runs/log.csv")))
        [Errno 28] No space left on device: 'runs/log.csv'
    """
    return OSError(error.errno, error.strerror, str(path)) if error.errno is not None else error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or ValueError: also where names occur twice or values are nested too deeply."""
    try:
        found = json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds a {type(found).__name__}, not an object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a name occurs twice among {[name for name, _ in pairs][:10]}")
    return found


def cache_folder() -> Path:
    """Folder of fetched, parsed and compiled files: `$NACRE_CACHE`, or in the user's cache."""
    if chosen := os.environ.get("NACRE_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path  # here, so that `import nacre` stays light

    return user_cache_path("nacre", appauthor=False)
