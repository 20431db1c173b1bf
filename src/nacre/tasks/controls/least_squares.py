"""Ridge regression of tables that never have to be in memory as a whole."""

from typing import NamedTuple

import torch
from torch import Tensor

_CONSTANT = 1e-12  # a column that varies by less than this share of its mean is rounding, not data


class LinearMap(NamedTuple):
    """A linear map, y = x @ weight + bias, in float64."""

    weight: Tensor  # [P, D]
    bias: Tensor  # [D]

    def __call__(self, x: Tensor) -> Tensor:
        """[m, D] for x [m, P]."""
        return x @ self.weight + self.bias

    @property
    def numbers(self) -> int:
        """How many numbers it has."""
        return self.weight.numel() + self.bias.numel()


class LeastSquares:
    """Sums over rows, enough to solve for the linear map that fits them best.

    Example:
        >>> fit = LeastSquares(1)
        >>> fit.add(torch.tensor([[0.0], [1.0]]), torch.tensor([[1.0], [3.0]]))
        >>> fit.add(torch.tensor([[2.0]]), torch.tensor([[5.0]]))
        >>> line = fit.solve(penalty=1e-9)
        >>> [round(float(number), 4) for number in (line.weight, line.bias)]
        [2.0, 1.0]
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs  # P
        self.rows = 0
        self._shift: Tensor | None = None  # [P + D]
        self._sum = torch.zeros(())  # [P + D]
        self._product = torch.zeros(())  # [P + D, P + D]

    def add(self, x: Tensor, y: Tensor) -> None:
        """Take in m more rows: inputs x [m, P], answers y [m, D]."""
        if len(x) == 0:
            return
        both = torch.cat([x, y], 1).double()
        if self._shift is None:
            # Sums around a point near the mean: those around 0 would lose the digits of a column like 1e9 + 1e-3.
            self._shift = both.mean(0)
        both = both - self._shift
        self._sum = self._sum + both.sum(0)
        self._product = self._product + both.T @ both
        self.rows += len(x)

    def solve(self, penalty: float) -> LinearMap:
        """The map of least squared error.

        The penalty is added to the variance of every column, all of them scaled to variance 1 before. The bias is
        not penalised, and a column that is constant gets weight 0.
        """
        if self._shift is None:
            raise ValueError("no rows to fit a line to; call add first")
        offset = self._sum / self.rows
        mean = self._shift + offset
        covariance = self._product / self.rows - offset.outer(offset)
        p = self.inputs
        deviation = covariance.diagonal()[:p].clamp(min=0.0).sqrt()
        varies = deviation > _CONSTANT * mean[:p].abs()
        unit = torch.where(varies, 1.0 / deviation, 0.0).unsqueeze(1)  # [P, 1], to variance 1
        among = unit * covariance[:p, :p] * unit.T + penalty * torch.eye(p, dtype=torch.float64)
        weight = unit * torch.linalg.solve(among, unit * covariance[:p, p:])
        return LinearMap(weight, mean[p:] - mean[:p] @ weight)
