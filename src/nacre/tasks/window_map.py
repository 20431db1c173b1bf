"""`WindowMap`: a linear map of a whole window, whose rows may be at irregular times."""

import torch
from torch import Tensor, nn


class WindowMap(nn.Module):
    """Values interpolated onto an even grid that ends at the last step, and a linear map of all of them.

    It starts as zeros, so that a network begins with what it says without it.

    Args:
        points: Points of the grid.
        step: Time between them.
        d_input: Width of the input.
        outputs: Width of the output.

    Example:
        >>> window = WindowMap(points=4, step=0.5, d_input=3, outputs=2)
        >>> time = torch.tensor([[0.0, 0.7, 1.5]]).double()
        >>> window(torch.randn(1, 3, 3), time, torch.zeros(1, 3).bool()).shape
        torch.Size([1, 2])
    """

    def __init__(self, points: int, step: float, d_input: int, outputs: int) -> None:
        super().__init__()
        self.points, self.step = points, step
        self.linear = nn.Linear(points * d_input, outputs)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor, time: Tensor, padding: Tensor) -> Tensor:
        """[B, T, F] values, stamps and padding [B, T], at the end of rows -> [B, outputs]."""
        at = grid(time, padding, self.points, self.step)
        return self.linear(interpolate(x, time.double(), padding, at).flatten(1))


def grid(time: Tensor, padding: Tensor, points: int, step: float) -> Tensor:
    """Evenly spaced times [B, points] that end at the last valid step of rows [B, T]."""
    last = (~padding).sum(1, keepdim=True).sub(1).clamp(min=0)  # [B, 1]
    back = torch.arange(points - 1, -1, -1, device=time.device, dtype=torch.float64) * step
    return time.double().gather(1, last) - back


def interpolate(x: Tensor, time: Tensor, padding: Tensor, at: Tensor) -> Tensor:
    """Values [B, P, F] at times [B, P]: straight lines between the valid steps, constant before and after them.

    Args:
        x: [B, T, F] values.
        time: [B, T] float64 stamps that never go back.
        padding: [B, T] bool, True = padding, at the end of rows.
        at: [B, P] float64 times.
    """
    time = time.masked_fill(padding, torch.inf)
    last = (~padding).sum(1, keepdim=True).sub(1).clamp(min=0)
    after = torch.searchsorted(time, at)  # first step that is not before
    before = (after - 1).clamp(min=0)
    after = torch.minimum(after, last)
    low, high = time.gather(1, before), time.gather(1, after)
    share = ((at - low) / (high - low)).where(high > low, 1.0).clamp(0, 1).to(x.dtype).unsqueeze(-1)
    low_x, high_x = (x.gather(1, place.unsqueeze(-1).expand(-1, -1, x.shape[2])) for place in (before, after))
    return low_x + share * (high_x - low_x)
