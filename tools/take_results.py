"""Take over results of new runs: python tools/take_results.py SOURCE results/FOLDER PATTERN...

Files below SOURCE whose names match a pattern replace everything in the folder; checkpoints and logs stay behind.
Example: python tools/take_results.py runs results/quick result.json
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def take(source: Path, target: Path, *patterns: str) -> int:
    """Copy what matches in place of all that the target holds; gives the number of files."""
    found = sorted(path for pattern in patterns for path in source.rglob(pattern))
    if not found:
        raise SystemExit(f"{source} has no {' or '.join(patterns)}; {target} stays as it is")
    shutil.rmtree(target, ignore_errors=True)
    for path in found:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return len(found)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    count = take(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
    sys.stdout.write(f"took over {count} files; next: python tools/write_pages.py\n")
