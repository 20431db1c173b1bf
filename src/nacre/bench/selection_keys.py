"""Queries and keys to select from: random ones, smooth ones, and those of a layer that has learned to forecast."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nacre.layer.config import NACConfig
from nacre.layer.encoder import NACEncoder, ResidualBlock

TRAINED = "trained layer"


@dataclass(frozen=True)
class SelectionSettings:
    """What is measured."""

    lengths: tuple[int, ...] = (256, 1024, 4096, 16_384, 65_536)  # numbers of keys S, and of queries
    heads: int = 4
    width: int = 16  # components D of a query or key
    top_k: int = 8  # keys K that a query is to find
    queries: int = 512  # compared with exact selection; all where a sequence has no more
    rounds: int = 3  # timed; the median counts
    seed: int = 1  # of keys, data and weights
    steps: int = 100  # of training of the layer whose keys are taken
    train_length: int = 1024  # steps of a training sequence
    batch: int = 2  # training sequences in a step


@dataclass(frozen=True)
class Trained:
    """A network trained to forecast, and how well it does on sequences that it has not seen."""

    net: NACEncoder
    head: nn.Linear
    report: dict[str, Any]


def make_keys(settings: SelectionSettings, length: int, trained: Trained) -> dict[str, tuple[Tensor, Tensor]]:
    """Queries and keys [1, H, S, D] of each kind."""
    generator = torch.Generator().manual_seed(settings.seed)
    shape = (1, settings.heads, length, settings.width)
    q, k = (torch.randn(shape, generator=generator) for _ in "qk")
    return {
        "random normal": (q, k),
        "random walk": (q.cumsum(2) / length**0.5, k.cumsum(2) / length**0.5),
        TRAINED: learned_keys(trained.net, *forecast_data(1, length, settings.seed + 1)[:2]),
    }


def forecast_data(batch: int, length: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of five sines with noise, seen at irregular times.

    Returns:
        Inputs [batch, length, 2] (value, and gap to the next), times [batch, length], next values [batch, length].
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    gap = -draw(batch, length + 1).clamp(min=1e-9).log()  # mean 1
    stamp = gap.cumsum(1)
    period = 5 * 40 ** draw(batch, 1, 5)  # 5 to 200
    phase = 2 * math.pi * (stamp.unsqueeze(-1) / period + draw(batch, 1, 5))
    x = (phase.sin() * (0.5 + draw(batch, 1, 5))).sum(-1) / 5**0.5
    x = (x + 0.1 * torch.randn(x.shape, generator=generator, dtype=x.dtype)).float()
    return torch.stack([x[:, :-1], gap[:, 1:].float()], -1), stamp[:, :-1], x[:, 1:]


def train_layer(settings: SelectionSettings, advance: Callable[[], None]) -> Trained:
    """Train two causal layers to forecast the next value; torch's global generator is left alone."""
    config = NACConfig(d_model=settings.heads * settings.width, num_heads=settings.heads, d_input=2, causal=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        net = NACEncoder(config, num_layers=2)
        head = nn.Linear(config.d_model, 1)
        nn.init.zeros_(head.weight)  # at first the network predicts no change
        losses = []
        for loss in _training(net, head, settings):
            losses.append(loss)
            advance()
    x, stamp, target = forecast_data(4, settings.train_length, settings.seed + 1)
    with torch.no_grad():
        error = (_forecast(net.eval(), head, x, stamp) - target).square().mean().item()
    report = {
        "task": "next value of a noisy sum of five sines at irregular times; keys are those of the second layer",
        "first_loss": losses[0],
        "last_loss": losses[-1],
        "held_out_error": error,
        "held_out_error_of_persistence": (x[..., 0] - target).square().mean().item(),
    }
    return Trained(net, head, report)


def _training(net: NACEncoder, head: nn.Linear, settings: SelectionSettings) -> Iterator[float]:
    parameters = [*net.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, 3e-3)
    for step in range(settings.steps):
        seed = 1_000_000 * settings.seed + step  # apart from the seed of the held-out sequences
        x, stamp, target = forecast_data(settings.batch, settings.train_length, seed)
        loss = (_forecast(net, head, x, stamp) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        yield loss.item()


def _forecast(net: NACEncoder, head: nn.Linear, x: Tensor, stamp: Tensor) -> Tensor:
    """The last value plus a learned change, [B, T]."""
    return x[..., 0] + head(net(x, time=stamp)).squeeze(-1)


@torch.no_grad()
def learned_keys(net: NACEncoder, x: Tensor, stamp: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys [B, H, T, D] of the last layer."""
    block = net.layers[-1]
    assert isinstance(block, ResidualBlock)
    seen: list[Tensor] = []

    def remember(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen.append(output)

    hook = block.attention_norm.register_forward_hook(remember)
    try:
        net(x, time=stamp)
    finally:
        hook.remove()
    layer = block.attention
    shape = (layer.config.num_heads, layer.config.d_head)
    q, k = (gate(seen[0]).unflatten(-1, shape).transpose(1, 2) for gate in (layer.query_gate, layer.key_gate))
    return q.contiguous(), k.contiguous()
