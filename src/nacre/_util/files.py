"""Atomic writes, and the cache folder."""

import os
import secrets
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> Path:
    """Write to a temporary name, then rename: nobody ever sees a half-written file."""
    # Not mkstemp: only the owner could read its files.
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def cache_folder() -> Path:
    """Folder of fetched, parsed and compiled files: `$NACRE_CACHE`, or in the user's cache."""
    if chosen := os.environ.get("NACRE_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path  # here, so that `import nacre` stays light

    return user_cache_path("nacre", appauthor=False)
