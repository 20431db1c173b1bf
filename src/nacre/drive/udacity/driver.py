"""`nacre drive udacity`: a trained network steers the simulator's car. Needs websockets and pillow."""

import logging
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nacre.data.dataset import Kind
from nacre.data.sets.udacity_images import HEIGHT, WIDTH, road_of
from nacre.drive.udacity.server import ServerOptions, serve
from nacre.tasks.image_encoder import ImageTokens
from nacre.tasks.network import TaskNetwork
from nacre.train.run import Run


class SteeringNetwork:
    """Steers by one camera image, with a network that was trained to."""

    def __init__(self, network: TaskNetwork) -> None:
        if not _steers(network):
            raise ValueError("network must tell a number of an image, as `nacre train udacity` makes it")
        self.network = network.eval()

    @torch.no_grad()
    def __call__(self, frame: NDArray[np.uint8]) -> float:
        """Steering from -1, left, to 1, right, for an image [160, 320, 3] of the centre camera."""
        x = torch.from_numpy(road_of(frame))[None, None]  # [1, 1, 66, 200, 3]
        return self.network(x, torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool)).item()


def _steers(network: TaskNetwork) -> bool:
    eye = network.eye
    columns = eye is not None and eye.tokens is ImageTokens.COLUMNS
    return columns and network.kind is Kind.REGRESSION and network.y_shift.numel() == 1


def load_steering(run: Path) -> SteeringNetwork:
    """The network of a run directory.

    Raises:
        FileNotFoundError: If there is no such run.
        ValueError: If its network was trained for something else.
    """
    network = Run.open(run).network()
    if not _steers(network):
        raise ValueError(f"{run} was not trained to steer by an image; give a run of udacity")
    return SteeringNetwork(network)


def drive_simulator(run: Path, host: str, port: int, speed: float) -> None:
    """Wait for simulators and drive their cars, until Ctrl-C."""
    driver = load_steering(run)
    driver(np.zeros((HEIGHT, WIDTH, 3), np.uint8))  # the first call takes longer, and a car should not wait for it
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    serve(driver, ServerOptions(host, port, speed))
