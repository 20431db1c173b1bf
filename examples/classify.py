"""Classify irregular, ragged sequences in which only the time stamps tell the classes apart.

Every sequence is a few beats of a noisy wave, always the same points in the same order. A class is a speed: slow,
medium or fast, so the values alone say nothing. Run: python examples/classify.py
"""

import torch
from torch import Tensor, nn

import nacre

SPEEDS = (0.5, 1.0, 2.0)


def make_sequences(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values [n, 40, 1], time stamps [n, 40], padding [n, 40] (True = padding) and classes [n]."""
    label = torch.randint(len(SPEEDS), (n,))
    phase = torch.rand(n, 40).cumsum(1)  # irregular
    value = torch.sin(phase).unsqueeze(-1) + 0.1 * torch.randn(n, 40, 1)
    start = 1000 * torch.rand(n, 1)  # each has a clock of its own
    time = start + phase / torch.tensor(SPEEDS)[label].unsqueeze(1)
    padding = torch.arange(40) >= torch.randint(15, 41, (n, 1))
    return value, time, padding, label


class Classifier(nn.Module):
    """Two NAC layers, the mean over the valid steps, a linear map."""

    def __init__(self, config: nacre.NACConfig, classes: int) -> None:
        super().__init__()
        self.encoder = nacre.NACEncoder(config, num_layers=2)
        self.head = nn.Linear(config.d_model, classes)

    def forward(self, x: Tensor, time: Tensor | None, padding: Tensor) -> Tensor:
        """[B, T, 1] -> logits [B, classes]."""
        y = self.encoder(x, time=time, key_padding_mask=padding)  # zeros at padding
        return self.head(y.sum(1) / (~padding).sum(1, keepdim=True))


def accuracy(net: Classifier, x: Tensor, time: Tensor | None, padding: Tensor, label: Tensor) -> float:
    """Share of right answers."""
    net.eval()
    with torch.no_grad():
        return (net(x, time, padding).argmax(1) == label).float().mean().item()


def train(use_time: bool, steps: int = 120) -> float:
    """Train on fresh sequences, and return the accuracy on 1,000 others."""
    torch.manual_seed(0)
    net = Classifier(nacre.NACConfig(d_model=16, num_heads=2, d_input=1), len(SPEEDS))
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(steps):
        x, time, padding, label = make_sequences(64)
        loss = nn.functional.cross_entropy(net(x, time if use_time else None, padding), label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    x, time, padding, label = make_sequences(1000)
    return accuracy(net, x, time if use_time else None, padding, label)


if __name__ == "__main__":
    print(f"guessing:             {1 / len(SPEEDS):.2f}")
    print(f"without time stamps:  {train(use_time=False):.2f}")
    print(f"with time stamps:     {train(use_time=True):.2f}")
