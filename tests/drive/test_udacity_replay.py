"""A drive over a real socket, with malformed messages between the frames."""

import os
import signal
import subprocess
import sys
import zipfile
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from nacre.drive.udacity.session import SAFE
from support.udacity_client import client, decode, jpeg, lean, picture, steering, telemetry
from support.udacity_malformed import KINDS

# The signal is set by hand: a shell that starts tests in the background has them ignore Ctrl-C.
SERVER = """
import logging, signal
from support.udacity_client import lean
from nacre.drive.udacity.link import Patience
from nacre.drive.udacity.server import serve
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
signal.signal(signal.SIGINT, signal.default_int_handler)
serve(lean, port=0, patience=Patience(telemetry=60.0, answer=60.0), ready=lambda port: print(port, flush=True))
print("ended")
"""


def resident(process):
    """Memory of a process in bytes, 0 where the system does not tell."""
    status = Path(f"/proc/{process.pid}/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


def frames(count, rng):
    """JPEG files: of a recorded drive where there is one, else generated."""
    recorded = Path(os.environ.get("NACRE_DATA", "")) / "udacity_track" / "center_all_4053.zip"
    if "NACRE_DATA" not in os.environ or not recorded.exists():
        return [jpeg(picture(rng)) for _ in range(count)]
    with zipfile.ZipFile(recorded) as drive:
        names = [name for name in drive.namelist() if name.endswith(".jpg")]
        return [drive.read(name) for name in sorted(names)[:count]]


def script(rng):
    """1,000 frames, 200 malformed messages and some pings in random order, each with the answer that must come."""
    files = frames(1000, rng)
    good, names = files[0], list(KINDS)
    kinds = names * (200 // len(names)) + names[: 200 % len(names)]
    order = rng.permutation([0] * 1000 + [1] * 200 + [2] * 50)
    for what in order:
        if what == 0:
            file = files.pop(0)
            yield telemetry(file, f"{rng.uniform(0, 30):.4f}"), f"{lean(decode(file)) + 0.0:.6f}"
        elif what == 1:
            yield KINDS[kinds.pop()][1](good, rng), SAFE
        else:
            yield "2", "3"
    assert not files
    assert not kinds


def replay(one, messages, process):
    """Send with three messages on their way, as the simulator has; gives the memory after 200 and at the end."""
    expected, early = deque(), 0

    def check():
        answer, wanted = one.read(), expected.popleft()
        assert wanted == (answer if wanted in (SAFE, "3") else steering(answer))

    for count, (message, wanted) in enumerate(messages):
        one.send(message)
        expected.append(wanted)
        if len(expected) == 3:
            check()
        if count == 200:
            early = resident(process)
    while expected:
        check()
    return early, resident(process)


@pytest.mark.slow
def test_udacity_replay_of_1000_frames_with_200_malformed_messages_between_them():
    tests = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent / "src")])}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            port = int(process.stdout.readline())
            with client(port) as one:
                early, late = replay(one, script(np.random.default_rng(8)), process)
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            said, log = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert said == "ended\n"
    assert "1,000 frames driven, median" in log
    assert "200 messages refused: " in log
    assert "Traceback" not in log
    assert late - early < 32 * 2**20
