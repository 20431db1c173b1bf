"""The networks of the demo: one body, and three cores that read the observations."""

import math
from abc import ABC, abstractmethod

import torch
from ncps.torch import CfCCell
from torch import Tensor, nn

from nacre.data.sets.spirals import END
from nacre.layer.attention import NAC
from nacre.layer.trace import Trace
from nacre.study.spiral.run import waves

WIDTH = 16  # of what a core takes and gives
HEADS = 2
HIDDEN = 128  # of the body's perceptrons
CFC_UNITS = 20  # gives the CfC core 4,008 parameters, where the NAC core has 3,920
TIME_WAVES = 8
PLACE_WAVES = 16


class Core(nn.Module, ABC):
    """The part of the network in which observations meet each other and the asked times."""

    @abstractmethod
    def encode(self, seen: Tensor, time: Tensor) -> Tensor:
        """Observations [B, T, W] at times [B, T] -> [B, T, W]."""

    @abstractmethod
    def decode(self, asked: Tensor, asked_time: Tensor, seen: Tensor, time: Tensor) -> Tensor:
        """Questions [B, S, W] about times [B, S], encoded observations [B, T, W] at times [B, T] -> [B, S, W]."""


class NACCore(Core):
    """Self attention, then cross attention, by NAC."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = NAC(WIDTH, HEADS, time_scale=END)
        self.decoder = NAC(WIDTH, HEADS, time_scale=END)

    def encode(self, seen: Tensor, time: Tensor) -> Tensor:
        """See `Core`."""
        return self.encoder(seen, time=time)

    def decode(self, asked: Tensor, asked_time: Tensor, seen: Tensor, time: Tensor) -> Tensor:
        """See `Core`."""
        return self.decoder(asked, seen, seen, time=asked_time, key_time=time)

    def trace(self, asked: Tensor, asked_time: Tensor, seen: Tensor, time: Tensor) -> Trace:
        """What every neuron did in `decode`."""
        return self.decoder(asked, seen, seen, time=asked_time, key_time=time, return_trace=True)[1]


class SDPACore(Core):
    """The same with scaled dot-product attention, which knows time only from its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.decoder = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def encode(self, seen: Tensor, time: Tensor) -> Tensor:
        """See `Core`."""
        return self.encoder(seen, seen, seen, need_weights=False)[0]

    def decode(self, asked: Tensor, asked_time: Tensor, seen: Tensor, time: Tensor) -> Tensor:
        """See `Core`."""
        return self.decoder(asked, seen, seen, need_weights=False)[0]


class CfCCore(Core):
    """A closed-form continuous-time recurrent network that reads in order of time and never looks ahead.

    It steps cell by cell, because the sequence class of ncps 1.0.1 mixes up elapsed times within a batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self.encoder = CfCCell(WIDTH, WIDTH, backbone_units=CFC_UNITS)
        self.decoder = CfCCell(WIDTH, WIDTH, backbone_units=CFC_UNITS)

    def encode(self, seen: Tensor, time: Tensor) -> Tensor:
        """See `Core`; times ascend."""
        elapsed = time.diff(dim=1, prepend=time[:, :1]) / END  # [B, T], the first is 0
        state = torch.zeros_like(seen[:, 0])
        states = []
        for i in range(seen.shape[1]):
            state, _ = self.encoder(seen[:, i], state, elapsed[:, i : i + 1])
            states.append(state)
        return torch.stack(states, 1)

    def decode(self, asked: Tensor, asked_time: Tensor, seen: Tensor, time: Tensor) -> Tensor:
        """One step from the last observation at or before each asked time; before the first, from zeros."""
        last = torch.searchsorted(time.contiguous(), asked_time.contiguous(), right=True)  # [B, S], 0: none yet
        start = torch.cat([torch.zeros_like(seen[:, :1]), seen], 1).take_along_dim(last.unsqueeze(-1), 1)
        since = time.take_along_dim((last - 1).clamp(min=0), 1)
        elapsed = torch.where(last > 0, asked_time - since, 0) / END  # [B, S]
        answer, _ = self.decoder(asked.flatten(0, 1), start.flatten(0, 1), elapsed.view(-1, 1))
        return answer.unflatten(0, asked.shape[:2])


CORES: dict[str, type[Core]] = {"NAC": NACCore, "SDPA": SDPACore, "CfC": CfCCore}


class SpiralNet(nn.Module):
    """Where is the spiral at time s, given where it was seen at times t?

    The core lets the observations attend to each other, then lets each asked time attend to them. All else is the
    same whatever the core.
    """

    time_waves: Tensor
    place_waves: Tensor

    def __init__(self, core: Core) -> None:
        super().__init__()
        # Sines and cosines separate what is close together; the slowest has twice the period of the whole range.
        self.register_buffer("time_waves", torch.arange(1, TIME_WAVES + 1) * (math.pi / END))
        self.register_buffer("place_waves", torch.arange(1, PLACE_WAVES + 1) * math.pi)
        self.where = nn.Linear(4 * PLACE_WAVES, HIDDEN)
        self.when = nn.Linear(2 * TIME_WAVES, HIDDEN)
        self.embed = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, WIDTH))
        self.ask = nn.Linear(2 * TIME_WAVES, WIDTH)
        self.core = core
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.answer = nn.Linear(WIDTH, HIDDEN)
        self.at = nn.Linear(2 * TIME_WAVES, HIDDEN)
        self.head = nn.Sequential(nn.GELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 2))

    def forward(self, x: Tensor, time: Tensor, asked: Tensor) -> Tensor:
        """Points [B, T, 2] seen at times [B, T], asked times [B, S] -> points [B, S, 2]."""
        phase = waves(asked, self.time_waves)
        found = self.norms[1](self.core.decode(self.ask(phase), asked, self._read(x, time), time))
        return self.head(self.answer(found) + self.at(phase))

    def trace(self, x: Tensor, time: Tensor, asked: Tensor) -> Trace:
        """What the neurons of a NAC core did to answer."""
        if not isinstance(self.core, NACCore):
            raise TypeError(f"only a NACCore has a trace, got {type(self.core).__name__}")
        return self.core.trace(self.ask(waves(asked, self.time_waves)), asked, self._read(x, time), time)

    def _read(self, x: Tensor, time: Tensor) -> Tensor:
        """[B, T, 2] -> [B, T, W]."""
        place = waves(x, self.place_waves).flatten(-2)
        seen = self.embed(self.where(place) * self.when(waves(time, self.time_waves)))
        return self.norms[0](seen + self.core.encode(seen, time))


def count_parameters(module: nn.Module) -> int:
    """Numbers that are trained."""
    return sum(p.numel() for p in module.parameters())
