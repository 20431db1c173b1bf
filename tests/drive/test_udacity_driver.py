"""A trained network steers the simulator's car: its answers, and the command over a real socket."""

import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.sets.udacity_images import read_frame
from nacre.drive.udacity.driver import SteeringNetwork, load_steering
from nacre.drive.udacity.session import SAFE
from nacre.io import save
from nacre.tasks.network import TaskNetwork
from support.drive import write_run
from support.runs import fields
from support.udacity_client import client, decode, jpeg, random_image, steering, telemetry
from support.udacity_malformed import KINDS

IMAGE = {"size": [66, 200], "conv": [[4, 5, 4], [6, 5, 4]], "tokens": "columns", "colours": "yuv"}

# The timeouts are long, so that a slow machine fails no test.
COMMAND = """
import functools, sys
from nacre.cli import main
from nacre.drive.udacity import driver
from nacre.drive.udacity.link import Timeouts
driver.ServerOptions = functools.partial(driver.ServerOptions, timeouts=Timeouts(telemetry=60.0, answer=60.0))
sys.argv = ["nacre", "drive", "udacity", "run", "--port", "0"]
main()
"""


def network(kind=Kind.REGRESSION, outputs=1, image=IMAGE):
    torch.manual_seed(3)
    made = TaskNetwork("nac", kind, 3, outputs, d_model=8, num_heads=2, dense=[8], time_scale=12.0, image=image)
    made.shift, made.scale = torch.full((3,), 127.5), torch.full((3,), 127.5)
    return made.eval()


def expected_steering(net, file):
    """The slow, obvious way: as the images of the data set are read."""
    x = torch.from_numpy(read_frame(file, "frame"))[None, None]
    with torch.no_grad():
        return net(x, torch.zeros(1, 1), torch.zeros(1, 1).bool()).item()


def test_udacity_a_frame_is_seen_as_in_training():
    net, random = network(), np.random.default_rng(0)
    files = [jpeg(random_image(random)) for _ in range(3)]
    got = [SteeringNetwork(net)(decode(file)) for file in files]
    assert got == pytest.approx([expected_steering(net, file) for file in files], abs=1e-6)
    assert len(set(got)) == 3


def test_udacity_networks_for_other_things_are_refused(tmp_path):
    for other in (
        network(kind=Kind.CLASSIFICATION, outputs=5),
        network(outputs=2),
        network(image={**IMAGE, "tokens": "frames"}),
    ):
        with pytest.raises(ValueError, match="must tell a number of an image"):
            SteeringNetwork(other)
    with pytest.raises(FileNotFoundError, match="gone is no finished run; give a directory that"):
        load_steering(tmp_path / "gone")
    with pytest.raises(ValueError, match="was not trained to steer by an image; give a run of udacity"):
        load_steering(write_run(tmp_path / "carracing"))


def resident(process):
    """Memory of a process in bytes, 0 where the system does not tell."""
    status = Path(f"/proc/{process.pid}/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if status.exists() else 0


def jpeg_files(count, rng):
    """JPEG files: of a recorded drive where there is one, else generated."""
    recorded = Path(os.environ.get("NACRE_DATA", "")) / "udacity_track" / "center_all_4053.zip"
    if "NACRE_DATA" not in os.environ or not recorded.exists():
        return [jpeg(random_image(rng)) for _ in range(count)]
    with zipfile.ZipFile(recorded) as drive:
        names = [name for name in drive.namelist() if name.endswith(".jpg")]
        return [drive.read(name) for name in sorted(names)[:count]]


def messages(net, frames, malformed, rng):
    """Frames, malformed messages and some pings in random order, each with the answer that must come."""
    files = jpeg_files(frames, rng)
    good, names = files[0], list(KINDS)
    for what in rng.permutation(["frame"] * frames + ["malformed"] * malformed + ["ping"] * 20):
        if what == "frame":
            file = files.pop(0)
            yield telemetry(file, f"{rng.uniform(0, 30):.4f}"), expected_steering(net, file)
        elif what == "malformed":
            names.append(names.pop(0))  # each kind in turn
            yield KINDS[names[-1]][1](good, rng), SAFE
        else:
            yield "2", "3"
    assert not files


def replay(one, script, process):
    """Send with three messages on their way, as the simulator has; memory after 60 messages and at the end."""
    expected, early = deque(), 0

    def check():
        answer, wanted = one.read(), expected.popleft()
        if isinstance(wanted, str):
            assert answer == wanted
        else:
            assert float(steering(answer)) == pytest.approx(min(max(wanted, -1.0), 1.0), abs=2e-6)

    for count, (message, wanted) in enumerate(script):
        one.send(message)
        expected.append(wanted)
        if len(expected) == 3:
            check()
        if count == 60:
            early = resident(process)
    while expected:
        check()
    return early, resident(process)


@pytest.mark.slow
@pytest.mark.parametrize(("frames", "malformed"), [(240, 74), pytest.param(1000, 200, marks=pytest.mark.deep)])
def test_udacity_the_command_drives_and_survives_malformed_messages(tmp_path, frames, malformed):
    net = network()
    save(net, tmp_path / "run" / "model")
    (tmp_path / "run" / "result.json").write_text(json.dumps(fields("nac", task="udacity")))
    source = Path(__file__).parents[2] / "src"
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            waiting = process.stderr.readline()
            with client(int(re.search(r"127.0.0.1 port (\d+);", waiting)[1])) as one:
                script = messages(net, frames, malformed, np.random.default_rng(8))
                early, late = replay(one, script, process)
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert f"{frames:,} frames driven, median" in log
    assert f"{malformed} messages refused: " in log
    assert "Traceback" not in log
    assert late - early < 16 * 2**20, "frames of 150 kB must not be kept"
