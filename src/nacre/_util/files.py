"""Files that are written whole or not at all, and where nacre keeps its own."""

import os
import secrets
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> Path:
    """Write to a temporary name, then rename, so that no half-written file is ever seen."""
    # Not mkstemp: only the owner could read what it makes.
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
    """Where nacre keeps what it fetched, parsed and compiled: `$NACRE_CACHE`, or the user's cache folder."""
    if chosen := os.environ.get("NACRE_CACHE"):
        return Path(chosen)
    from platformdirs import user_cache_path  # here, so that `import nacre` stays light

    return user_cache_path("nacre", appauthor=False)
