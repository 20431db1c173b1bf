"""Where a measurement comes from: command, commit, machine and versions."""

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from nacre._version import __version__

_PACKAGE = Path(__file__).parents[1]
_GIT_SECONDS = 10


def provenance(threads: int | None = None, device: str | None = None) -> dict[str, Any]:
    """Plain data that says where a measurement comes from.

    Args:
        threads: Threads that torch used; None for its current setting.
        device: Device that torch used; None for "cuda" where there is one, else "cpu".

    Example:
        >>> sorted(provenance(1))
        ['command', 'commit', 'machine', 'versions']
    """
    return {
        "command": shlex.join(["nacre", *sys.argv[1:]]),
        "commit": _commit(),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processor": cpu_info("model name").split(":", 1)[-1].strip() or None,
            "cpus": os.cpu_count(),
            "threads": threads or torch.get_num_threads(),
            "device": device or ("cuda" if torch.cuda.is_available() else "cpu"),
        },
        "versions": {"nacre": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def _commit() -> str | None:
    """Commit of the checkout that this package runs from, with -dirty after local changes; None without one."""
    # An environment inside the checkout of some other project is not under git: ask for this very file.
    tracked = _git("ls-files", "--error-unmatch", "_version.py")
    return tracked and _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(*args: str) -> str | None:
    options: dict[str, Any] = {"cwd": _PACKAGE, "capture_output": True, "text": True, "check": True}
    try:
        return subprocess.run(["git", *args], timeout=_GIT_SECONDS, **options).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def cpu_info(*fields: str) -> str:
    """First line of /proc/cpuinfo that begins with one of these fields; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line.startswith(fields)), platform.processor())
