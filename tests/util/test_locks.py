"""One process holds a lock at a time, and a killed one frees it."""

import subprocess
import sys

import pytest

from nacre._util.locks import LockedElsewhere, hold_lock

# Alone, without nacre and torch: a process that holds the lock until it is told to end.
HOLDER = """
import runpy, sys
from pathlib import Path
with runpy.run_path(sys.argv[1])["hold_lock"](Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    source = sys.modules[hold_lock.__module__].__file__
    command = [sys.executable, "-c", HOLDER, source, str(tmp_path / "lock")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("end", ["by itself", "killed"])
def test_two_processes_cannot_hold_one_lock_and_an_end_frees_it(tmp_path, holder, end):
    with pytest.raises(LockedElsewhere, match="lock$"), hold_lock(tmp_path / "lock"):
        pytest.fail("held twice")
    with hold_lock(tmp_path / "other"):
        pass
    if end == "killed":
        holder.kill()
    holder.communicate()
    with hold_lock(tmp_path / "lock"):
        pass


def test_a_lock_is_free_again_after_use_and_after_an_error(tmp_path):
    path = tmp_path / "lock"
    with pytest.raises(RuntimeError, match="inside"), hold_lock(path):
        raise RuntimeError("inside")
    # Not even this process may hold it twice.
    with hold_lock(path), pytest.raises(LockedElsewhere), hold_lock(path):
        pytest.fail("held twice")
    with hold_lock(path):
        pass
