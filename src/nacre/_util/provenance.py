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
_PATIENCE = 10  # seconds for git


def provenance(threads: int | None) -> dict[str, Any]:
    """Plain data that says where a measurement comes from.

    Args:
        threads: Threads of torch, None for its own choice.

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
            "processor": _processor(),
            "cpus": os.cpu_count(),
            "threads": threads or torch.get_num_threads(),
            "device": "cpu",
        },
        "versions": {"nacre": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


def _commit() -> str | None:
    """Commit of the checkout that this package is run from, with -dirty after local changes; None without one."""
    # An environment inside the checkout of some other project is not under git: ask for this very file.
    tracked = _git("ls-files", "--error-unmatch", "_version.py")
    return tracked and _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(*args: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *args], cwd=_PACKAGE, capture_output=True, text=True, check=True, timeout=_PATIENCE
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None
