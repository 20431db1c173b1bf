"""Threads of the command sleep while they wait, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

from nacre._util.wait_policy import sleeps


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("/home/a/.venv/bin/nacre train spiral", True),
        ("/usr/bin/python3 /home/a/.venv/bin/nacre train spiral", True),
        ("python -X dev -m nacre demo", True),
        ("nacre", True),
        ("nacre bench --training", False),
        ("python -m nacre bench", False),
        ("python -m pytest nacre", False),
        ("python program.py nacre", False),
        ("python", False),
        ("python -m", False),
    ],
)
def test_it_is_the_command_that_counts(command, wanted):
    assert sleeps(command.split(), {}) is wanted
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        assert not sleeps(command.split(), {name: "1"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "wanted"), [("['python', 'mine.py']", "None"), ("['nacre', 'demo']", "PASSIVE")]
)
def test_the_policy_is_set_before_torch_is_there(command, wanted):
    code = f"import os, sys; sys.orig_argv = {command}; import nacre; print(os.environ.get('OMP_WAIT_POLICY'))"
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == wanted
