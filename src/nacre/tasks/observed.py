"""What a network reads of values that may be missing: filled rows with flags, or embedded events.

A feature that training never observed counts as missing wherever it comes.
"""

import torch
from torch import Tensor, nn

from nacre.data.missing import Filled, Missing, fill
from nacre.models._base import take


class ObservedRows(nn.Module):
    """Rows of which some values are missing: fills the gaps, and says beside each value what is known of it.

    Args:
        missing: "flags" or "last".
        d_input: Number of features F.
        plain: Features that are never missing, and get no flags.
        time_scale: The time after which what was seen is half as recent.

    Example:
        >>> rows = ObservedRows(Missing.FLAGS, 2, plain=[1], time_scale=1.0)
        >>> x = torch.tensor([[[5.0, 1.0], [torch.nan, 0.0]]])
        >>> padding = torch.zeros(1, 2).bool()
        >>> filled = rows.fill(x, torch.tensor([[0.0, 1.0]]), padding, ~padding, torch.ones(2).bool())
        >>> rows(filled.x, filled).tolist()  # two values, whether the first is there, and how recent it is
        [[[5.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.5]]]
    """

    def __init__(self, missing: Missing, d_input: int, plain: list[int], time_scale: float) -> None:
        super().__init__()
        self.missing, self.time_scale = missing, time_scale
        flagged = [column for column in range(d_input) if column not in plain]
        self.width = d_input + 2 * len(flagged)
        self.register_buffer("flagged", torch.tensor(flagged, dtype=torch.int64), persistent=False)
        self.register_buffer("typical", torch.zeros(d_input))

    flagged: Tensor
    typical: Tensor  # [F] means of the observed training values, for what was never seen

    def fill(self, x: Tensor, time: Tensor, padding: Tensor, tells: Tensor, usable: Tensor) -> Filled:
        """Rows [B, T, F] without gaps; of features that are not `usable` [F], nothing is observed."""
        seen = ~(x.isnan() | padding.unsqueeze(-1)) & usable
        return fill(x, time, seen, tells, self.typical, self.time_scale)

    def forward(self, x: Tensor, filled: Filled) -> Tensor:
        """[B, T, width]: scaled values x [B, T, F], flags and recency."""
        there = filled.seen if self.missing is Missing.FLAGS else filled.known
        flags = filled.seen[..., self.flagged].to(x.dtype)
        return torch.cat([x.masked_fill(~there, 0.0), flags, filled.recency[..., self.flagged]], -1)


class ObservedEvents(nn.Module):
    """Events as vectors: each variable has a place and a direction in which its value moves it.

    Args:
        variables: Number of variables V.
        width: Width of the vectors.

    Example:
        >>> ObservedEvents(3, 8)(torch.tensor([[2, 0]]), torch.tensor([[0.5, -1.0]])).shape
        torch.Size([1, 2, 8])
    """

    def __init__(self, variables: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.place = nn.Embedding(variables, width)
        self.direction = nn.Embedding(variables, width)

    def forward(self, variable: Tensor, value: Tensor) -> Tensor:
        """[B, T, width] for variables [B, T] and their scaled values [B, T]."""
        return self.place(variable) + value.unsqueeze(-1) * self.direction(variable)


def told_first(x: Tensor, time: Tensor, gone: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Steps [B, T, F], stamps and padding [B, T] in their order, but those that are gone at the end."""
    order = gone.int().argsort(dim=1, stable=True)  # [B, T]
    return take(x, order), time.gather(1, order), gone.gather(1, order)
