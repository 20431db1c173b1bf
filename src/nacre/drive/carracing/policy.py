"""`NetworkDriver`: a trained network drives, frame by frame."""

import time
from collections import deque
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.data.dataset import Kind
from nacre.data.sets.episodes import ACTIONS
from nacre.drive.carracing.world import FPS, World
from nacre.layer.attention import NAC
from nacre.layer.streaming.state import StreamState
from nacre.tasks.network import TaskNetwork
from nacre.tasks.stack import ModelStack
from nacre.train.run import Run

_DECAY = 0.9  # of an action's accumulated probability, from frame to frame


class Decision(StrEnum):
    """How probabilities become an action."""

    TURNS = "turns"  # actions take turns, each about as often as its probability says
    LIKELIEST = "likeliest"  # always the largest probability


class NetworkDriver:
    """Drives by a network's probabilities for the latest window of frames.

    Steering and gas exclude each other in the discrete CarRacing, so the expert alternates both in a bend, and a
    network that has learned this says "left 60 %, gas 40 %". The likeliest action alone would steer and never
    accelerate. With `Decision.TURNS`, probabilities are accumulated from frame to frame, and the action with the
    largest sum is taken; nothing is sampled.

    Every frame goes through the convolutions once. A causal NAC layer then takes it in one `step`, with a state
    that slides over the last frames; other layers process the window again. Both give the network's output for
    the window that ends with the frame.

    Args:
        network: A network for frames, trained on windows of them.
        frames: Frames of a window.
        name: Name in tables.
        decision: How probabilities become an action.
    """

    def __init__(self, network: TaskNetwork, frames: int, name: str, decision: Decision = Decision.TURNS) -> None:
        if not network.frames or network.kind is not Kind.CLASSIFICATION:
            raise ValueError(f"{name} was not trained on frames to choose an action; race runs of carracing")
        if network.head[-1].out_features != len(ACTIONS):
            raise ValueError(f"{name} knows {network.head[-1].out_features} actions, wanted {len(ACTIONS)}")
        choice("decision", decision, Decision)
        self.network, self.frames, self.name = network.eval(), frames, name
        self.decision = Decision(decision)
        self.streams = _streams(network.layer)
        # [5] of the last frame
        self.probabilities: NDArray[np.float32] = np.full(len(ACTIONS), 1 / len(ACTIONS), np.float32)
        self.latency: list[float] = []  # seconds for each frame of the episode
        self._due: NDArray[np.float64] = np.zeros(len(ACTIONS))
        self._tokens: deque[Tensor] = deque(maxlen=frames)
        self._state: StreamState | None = None

    def begin(self) -> None:
        """Forget the last episode."""
        self._tokens.clear()
        self.latency.clear()
        self._due[:] = 0
        self._state = None

    def act(self, world: World) -> int:
        """The action for the current frame and those before it."""
        began = time.perf_counter()
        self.probabilities = self.logits(world.frame).softmax(0).numpy()
        action = self.decide(self.probabilities)
        self.latency.append(time.perf_counter() - began)
        return action

    def decide(self, probabilities: NDArray[np.float32]) -> int:
        """The action for the next frame, given its probabilities [5]."""
        if self.decision is Decision.LIKELIEST:
            return int(probabilities.argmax())
        # With decay, so that an action of one percent is never taken.
        self._due = _DECAY * self._due + probabilities
        action = int(self._due.argmax())
        self._due[action] -= 1
        return action

    @torch.no_grad()
    def logits(self, frame: NDArray[np.uint8]) -> Tensor:
        """[5] for the next frame [96, 96, 3] of the episode."""
        x = torch.from_numpy(np.ascontiguousarray(frame)).view(1, 1, *frame.shape)
        now = torch.zeros(1, 1, dtype=torch.float64)
        token = self.network.tokens(x, now, torch.zeros(1, 1, dtype=torch.bool))[0][:, 0]  # [1, width]
        state = self._step(token) if self.streams else self._window(token)
        return self.network.answer(state)[0]

    def _step(self, token: Tensor) -> Tensor:
        """[1, d_model] state of the layer, one step further."""
        layer = self.network.layer
        assert isinstance(layer, (NAC, ModelStack))
        if self._state is None:
            self._state = layer.init_state(1, self.frames, overflow="slide")
        now = self._state.length.double() / FPS
        state, self._state = layer.step(token, self._state, time=now)
        return state

    def _window(self, token: Tensor) -> Tensor:
        """[1, d_model] state of the layer at the last frame of the window."""
        self._tokens.append(token)
        tokens = torch.stack(list(self._tokens), 1)  # [1, T, width]
        now = torch.arange(tokens.shape[1], dtype=torch.float64).unsqueeze(0) / FPS
        padding = torch.zeros(now.shape, dtype=torch.bool)
        return self.network.layer(tokens, time=now, key_padding_mask=padding)[:, -1]


def _streams(layer: nn.Module) -> bool:
    """Whether a layer can go on frame by frame: a causal NAC layer, alone or in one block.

    Blocks of several keys would leave its memory all at once, match synapses count from the first step, and a
    second layer would remember more than a window.
    """
    if isinstance(layer, ModelStack):
        return len(layer.blocks) == 1 and _streams(layer.blocks[0].attention)  # pyright: ignore[reportArgumentType]
    return isinstance(layer, NAC) and layer.config.causal and layer.config.block_size == 1 and layer.match is None


def load_driver(run: Path, decision: Decision = Decision.TURNS) -> NetworkDriver:
    """The network of a run directory.

    Raises:
        FileNotFoundError: If there is no such run.
        ValueError: If it is no finished run of a network for CarRacing.
    """
    trained = Run.open(run)
    data, network = trained.recipe.data, trained.network()
    if data.get("name") != "carracing":
        raise ValueError(f"{run} was trained on {data.get('name', 'a table')}, wanted carracing")
    return NetworkDriver(network, data.get("frames", 8), trained.result.model, decision)
