"""The network of the spiral study: asked times look at observations through one NAC layer, and nowhere else."""

import math

import torch
from torch import Tensor, nn

from nacre.data.sets.spirals import END
from nacre.layer.attention import NAC
from nacre.study.spiral.grid import WIDTH, Setting

_HIDDEN = 128
_TIME_WAVES, _PLACE_WAVES = 8, 16


class SpiralRegressor(nn.Module):
    """Where is a spiral at time s, given where it was seen at times t?

    Asked times are queries, observations are keys and values. What the network says of a spiral beyond the mean of
    all comes through the layer: the rest of it knows the asked times only. There is no self attention among the
    observations, whose cost would grow with the length of a spiral where that of the questions does not.

    Args:
        layer: A layer of width 64.

    Example:
        >>> net = SpiralRegressor(nacre.NAC(64, 4))
        >>> net(torch.rand(2, 50, 2), torch.rand(2, 50).sort().values, torch.rand(2, 7)).shape
        torch.Size([2, 7, 2])
    """

    time_waves: Tensor
    place_waves: Tensor

    def __init__(self, layer: NAC) -> None:
        super().__init__()
        # Sines and cosines tell apart what is close together; the slowest has twice the period of all there is.
        self.register_buffer("time_waves", torch.arange(1, _TIME_WAVES + 1) * (math.pi / END))
        self.register_buffer("place_waves", torch.arange(1, _PLACE_WAVES + 1) * math.pi)
        self.where = nn.Linear(4 * _PLACE_WAVES, _HIDDEN)
        self.when = nn.Linear(2 * _TIME_WAVES, _HIDDEN)
        self.embed = nn.Sequential(
            nn.Linear(_HIDDEN, _HIDDEN), nn.GELU(), nn.Linear(_HIDDEN, WIDTH), nn.LayerNorm(WIDTH)
        )
        self.ask = nn.Linear(2 * _TIME_WAVES, WIDTH)
        self.layer = layer
        self.answer = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, _HIDDEN))
        self.at = nn.Linear(2 * _TIME_WAVES, _HIDDEN)
        self.head = nn.Sequential(nn.GELU(), nn.Linear(_HIDDEN, _HIDDEN), nn.GELU(), nn.Linear(_HIDDEN, 2))

    def forward(self, x: Tensor, time: Tensor, asked: Tensor) -> Tensor:
        """Points [B, S, 2] seen at times [B, S], asked times [B, Q] -> points [B, Q, 2]."""
        phase = _waves(asked, self.time_waves)  # [B, Q, 16]
        place = _waves(x, self.place_waves).flatten(-2)  # [B, S, 64]
        # Products, because a point of a spiral is a radius times a function of time.
        seen = self.embed(self.where(place) * self.when(_waves(time, self.time_waves)))  # [B, S, 64]
        found = self.layer(self.ask(phase), seen, seen, time=asked, key_time=time)  # [B, Q, 64]
        return self.head(self.answer(found) * self.at(phase))


def build(setting: Setting, seed: int) -> SpiralRegressor:
    """A network whose wiring and weights come from a seed; all but the layer starts the same in every setting."""
    torch.manual_seed(seed + 1)
    layer = NAC(
        WIDTH, setting.heads, top_k=setting.top_k, sparsity=setting.sparsity, time_scale=END, seed=seed
    )  # mode "exact" is the default
    torch.manual_seed(seed)
    return SpiralRegressor(layer)


def _waves(x: Tensor, frequency: Tensor) -> Tensor:
    """[...] -> [..., 2 * frequencies]."""
    angle = x.unsqueeze(-1) * frequency
    return torch.cat([angle.sin(), angle.cos()], -1)
