"""Forecast an irregularly sampled signal, first trained on whole sequences, then run live, one step at a time.

A pendulum with friction is seen at irregular moments. After each observation the network says where it will be at
the next one, and is told only when that will be. Run: python examples/forecast.py
"""

import torch
from torch import Tensor, nn

import nacre

LENGTH = 60


def make_pendulums(n: int) -> tuple[Tensor, Tensor]:
    """Positions [n, 60] of pendulums of different speed and friction, and time stamps [n, 60]."""
    time = (0.05 + 0.5 * torch.rand(n, LENGTH)).cumsum(1)
    speed, friction = 1 + torch.rand(n, 1), 0.1 * torch.rand(n, 1)
    place = (speed * time + 6.3 * torch.rand(n, 1)).cos() * (-friction * time).exp()
    return place + 0.01 * torch.randn(n, LENGTH), time


class Forecaster(nn.Module):
    """Says by how much the signal will have changed after a given time, from all it has seen."""

    def __init__(self, config: nacre.NACConfig) -> None:
        super().__init__()
        self.encoder = nacre.NACEncoder(config, num_layers=2)
        self.head = nn.Sequential(nn.Linear(config.d_model + 1, 64), nn.GELU(), nn.Linear(64, 1))

    def forward(self, place: Tensor, time: Tensor) -> Tensor:
        """Positions and stamps [B, T] -> forecast of steps 1 to T - 1, [B, T - 1]."""
        wait = time.diff(dim=1)  # [B, T - 1] until the next observation
        return self.forecast(self.encoder(place.unsqueeze(-1), time=time)[:, :-1], place[:, :-1], wait)

    def forecast(self, seen: Tensor, place: Tensor, wait: Tensor) -> Tensor:
        """What the encoder made of the past [..., d_model], the last position and the wait [...] -> [...]."""
        return place + self.head(torch.cat([seen, wait.unsqueeze(-1)], -1)).squeeze(-1)


def train(steps: int = 300) -> Forecaster:
    """Train on fresh pendulums."""
    torch.manual_seed(0)
    net = Forecaster(nacre.NACConfig(d_model=16, num_heads=2, d_input=1, causal=True))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        place, time = make_pendulums(16)
        loss = (net(place, time) - place[:, 1:]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


@torch.no_grad()
def run_live(net: Forecaster, place: Tensor, time: Tensor) -> Tensor:
    """The same forecasts, with observations [B, T] coming in one at a time."""
    state, guesses = net.encoder.init_state(batch_size=len(place), max_len=LENGTH), []
    for i in range(place.shape[1] - 1):
        seen, state = net.encoder.step(place[:, i : i + 1], state, time=time[:, i])
        guesses.append(net.forecast(seen, place[:, i], time[:, i + 1] - time[:, i]))
    return torch.stack(guesses, 1)


def error(guess: Tensor, truth: Tensor) -> float:
    """Root mean squared error from the third observation on, where all methods have something to go by."""
    return (guess[:, 1:] - truth[:, 1:]).square().mean().sqrt().item()


if __name__ == "__main__":
    net = train().double()  # in float32, two keys that match almost equally well may change places
    place, time = (x.double() for x in make_pendulums(200))
    live, truth, now = run_live(net, place, time), place[:, 1:], place[:, :-1]
    pace = place.diff(dim=1, prepend=place[:, :1])[:, :-1] / time.diff(dim=1, prepend=time[:, :1] - 1)[:, :-1]
    print(f"as it is now:    {error(now, truth):.3f} root mean squared error")
    print(f"straight on:     {error(now + pace * time.diff(dim=1), truth):.3f}")
    print(f"NAC, live:       {error(live, truth):.3f}")
    print(f"live and whole sequences differ by at most {(live - net(place, time)).abs().max():.0e}")
