"""A Stable-Baselines3 PPO policy as a driver: its weights are read, its pickles are not."""

import io
import zipfile
from collections import deque
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from nacre.data.sets.episodes import ACTIONS, FRAME
from nacre.drive.carracing.world import World

_WEIGHTS = "policy.pth"
_LARGEST = 2**28  # bytes of the weights; NatureCNN has 7 MB
# NatureCNN, Stable-Baselines3's network for images: kernel size and stride of each convolution, by its name.
_CONVOLUTIONS = {"features_extractor.cnn.0": 4, "features_extractor.cnn.2": 2, "features_extractor.cnn.4": 1}
_DENSE = "features_extractor.linear.0"
_ACTION = "action_net"
_Layer = TypeVar("_Layer", bound=nn.Module)


class PPODriver:
    """Drives with the most likely action of a policy; nothing is sampled, so labels are reproducible.

    The network maps pixels [1, 3 * stack, 96, 96] between 0 and 1, the latest frame last, to logits [1, 5].
    """

    name = "ppo"

    def __init__(self, network: nn.Module, stack: int) -> None:
        self.network = network.eval()
        self._frames: deque[np.ndarray] = deque(maxlen=stack)

    def begin(self) -> None:
        """Forget the frames of the last episode."""
        self._frames.clear()

    @torch.no_grad()
    def act(self, world: World) -> int:
        """The most likely action for the latest frames; those before the first are black."""
        while len(self._frames) < (self._frames.maxlen or 1) - 1:
            self._frames.append(np.zeros(FRAME, np.uint8))
        self._frames.append(world.frame)
        pixels = torch.from_numpy(np.concatenate(self._frames, -1)).permute(2, 0, 1).unsqueeze(0)
        return int(self.network(pixels / 255).argmax())


def load_ppo(path: Path) -> PPODriver:
    """A policy that `PPO("CnnPolicy", env).save(path)` wrote for the discrete CarRacing.

    Raises:
        ValueError: If the file is something else, or the network has another form.
    """
    weights = _weights(path)
    try:
        layers: list[nn.Module] = []
        for name, stride in _CONVOLUTIONS.items():
            weight = weights[f"{name}.weight"]
            layer = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2], stride)
            layers += [_filled(layer, weights, name), nn.ReLU()]
        channels = weights["features_extractor.cnn.0.weight"].shape[1]
        layers += [nn.Flatten(), _linear(weights, _DENSE), nn.ReLU()]
        number = 0
        while f"mlp_extractor.policy_net.{number}.weight" in weights:  # of a policy made with net_arch
            layers += [_linear(weights, f"mlp_extractor.policy_net.{number}"), nn.Tanh()]
            number += 2
        network = nn.Sequential(*layers, _linear(weights, _ACTION))
        actions = network(torch.zeros(1, channels, *FRAME[:2])).shape[1]
    except (KeyError, RuntimeError, IndexError) as error:
        raise ValueError(f"{path} is no CnnPolicy for frames of 96 x 96: {error}") from None
    if actions != len(ACTIONS) or channels % FRAME[2]:
        raise ValueError(
            f"{path} has {actions} actions and {channels} colour channels, wanted {len(ACTIONS)} and a multiple "
            f"of {FRAME[2]}; train it on CarRacing-v3 with continuous=False"
        )
    return PPODriver(network, channels // FRAME[2])


def _weights(path: Path) -> dict[str, Tensor]:
    """Weights of the policy; the archive's other members hold pickles and are not read."""
    if not path.is_file():
        raise FileNotFoundError(f"no policy {path}; give the .zip that Stable-Baselines3's PPO.save wrote")
    try:
        with zipfile.ZipFile(path) as archive:
            size = archive.getinfo(_WEIGHTS).file_size
            if size > _LARGEST:
                raise ValueError(f"its {_WEIGHTS} has {size:,} bytes, more than {_LARGEST:,}")
            return torch.load(io.BytesIO(archive.read(_WEIGHTS)), weights_only=True, map_location="cpu")
    except Exception as error:  # whatever zipfile, zlib, torch and its unpickler raise for a file of another kind
        raise ValueError(f"{path} is no policy of Stable-Baselines3: {error}") from None


def _linear(weights: dict[str, Tensor], name: str) -> nn.Linear:
    outputs, inputs = weights[f"{name}.weight"].shape
    return _filled(nn.Linear(inputs, outputs), weights, name)


def _filled(layer: _Layer, weights: dict[str, Tensor], name: str) -> _Layer:
    layer.load_state_dict({part: weights[f"{name}.{part}"] for part in ("weight", "bias")})
    return layer
