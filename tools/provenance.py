"""What every measured result says about where it comes from, and how it is written."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import nacre

ROOT = Path(__file__).parent.parent


def provenance(command: str) -> dict[str, Any]:
    """Command, commit (with -dirty after local changes), host and versions."""
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    commit = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {
        "command": command,
        "commit": commit.strip(),
        "host": {"machine": platform.machine(), "threads": torch.get_num_threads()},
        "versions": {"torch": torch.__version__, "nacre": nacre.__version__},
    }


def write_result(name: str, result: dict[str, Any]) -> Path:
    """Write a file under results/, whole or not at all."""
    target = ROOT / "results" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1) + "\n")
    temporary.replace(target)
    return target
