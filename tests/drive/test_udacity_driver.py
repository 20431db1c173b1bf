"""A trained network steers the simulator's car: the command, a real socket, and the network's own answers."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.sets.udacity_images import read_frame
from nacre.drive.udacity.driver import SteeringNetwork, load_steering
from nacre.io import save
from nacre.tasks.network import TaskNetwork
from support.drive import write_run
from support.udacity_client import client, decode, jpeg, picture, steering, telemetry

IMAGE = {"size": [66, 200], "conv": [[4, 5, 4], [6, 5, 4]], "tokens": "columns", "colours": "yuv"}


def network(kind=Kind.REGRESSION, outputs=1, image=IMAGE):
    torch.manual_seed(3)
    made = TaskNetwork("nac", kind, 3, outputs, d_model=8, num_heads=2, dense=[8], time_scale=12.0, image=image)
    made.shift, made.scale = torch.full((3,), 127.5), torch.full((3,), 127.5)
    return made.eval()


def told(net, file):
    """The slow, obvious way: as the images of the data set are read."""
    x = torch.from_numpy(read_frame(file, "frame"))[None, None]
    with torch.no_grad():
        return net(x, torch.zeros(1, 1), torch.zeros(1, 1).bool()).item()


def test_udacity_a_frame_is_seen_as_in_training():
    net, random = network(), np.random.default_rng(0)
    files = [jpeg(picture(random)) for _ in range(3)]
    got = [SteeringNetwork(net)(decode(file)) for file in files]
    assert got == pytest.approx([told(net, file) for file in files], abs=1e-6)
    assert len(set(got)) == 3


def test_udacity_networks_for_other_things_are_refused(tmp_path):
    for other in (
        network(kind=Kind.CLASSIFICATION, outputs=5),
        network(outputs=2),
        network(image={**IMAGE, "tokens": "frames"}),
    ):
        with pytest.raises(ValueError, match="must tell a number of an image"):
            SteeringNetwork(other)
    with pytest.raises(FileNotFoundError, match="gone holds no network; give the run of a model"):
        load_steering(tmp_path / "gone")
    with pytest.raises(ValueError, match="was not trained to steer by an image; give a run of udacity"):
        load_steering(write_run(tmp_path / "carracing"))


@pytest.mark.slow
def test_udacity_the_command_drives_over_a_real_socket(tmp_path):
    net, random = network(), np.random.default_rng(1)
    save(net, tmp_path / "run" / "model")
    # The signal is set by hand: a shell that starts tests in the background has them ignore Ctrl-C.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sys.argv = ['nacre', 'drive', 'udacity', 'run', '--port', '0']; from nacre.cli import main; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            waiting = process.stderr.readline()
            with client(int(re.search(r"127.0.0.1 port (\d+);", waiting)[1])) as one:
                for _ in range(5):
                    file = jpeg(picture(random))
                    one.send(telemetry(file))
                    assert float(steering(one.read())) == pytest.approx(told(net, file), abs=2e-6)
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=30)
        finally:
            process.kill()
    assert "5 frames driven" in log
    assert "Traceback" not in log
