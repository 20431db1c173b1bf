"""Processes that tests start."""

import contextlib
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def killed_at_end(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Kill a process and close its pipes, also where the test fails: else a later test fails for what is left."""
    with process:
        try:
            yield process
        finally:
            process.kill()
