"""Importing this first lets the threads of the `nacre` command sleep while they wait for one another.

OpenMP reads how threads wait when torch is imported. By default they spin: where other work needs the processors,
a training step then takes several times as long. Programs that import nacre keep what they have.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SET_BY_USERS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def sleeps(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether threads of a process shall sleep: that of a `nacre` command, unless its user has said how they wait.

    `nacre bench` measures what programs get.

    Example:
        >>> sleeps(["python", "-m", "nacre", "train"], {}), sleeps(["/usr/bin/nacre", "bench"], {})
        (True, False)
    """
    words = list(command)
    if "-m" in words[1:-1] and words[words.index("-m", 1) + 1] == "nacre":
        rest = words[words.index("-m", 1) + 2 :]
    else:
        place = next((i for i, word in enumerate(words[:2]) if Path(word).stem == "nacre"), None)
        if place is None:
            return False
        rest = words[place + 1 :]
    return rest[:1] != ["bench"] and not any(name in environment for name in _SET_BY_USERS)


if "torch" not in sys.modules and sleeps(sys.orig_argv, os.environ):
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
