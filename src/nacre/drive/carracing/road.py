"""`Road`: the centre line of a track, and where a car is on it."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

HALF_WIDTH = 40 / 6  # of CarRacing's road, in metres


class Place(NamedTuple):
    """Where a car is, relative to the nearest point of the centre line."""

    along: float  # metres from the start line, in driving direction; less than the road's length
    error: float  # distance from the centre line in metres, positive to the left of it


class Road:
    """A closed centre line.

    Args:
        points: [m, 2] points in driving direction, from the start line on; the last is joined to the first.

    Example:
        >>> square = Road([[0, 0], [10, 0], [10, 10], [0, 10]])
        >>> square.locate([4, 1])
        Place(along=4.0, error=1.0)
        >>> square.ahead(8, 4).tolist()
        [10.0, 2.0]
    """

    def __init__(self, points: ArrayLike) -> None:
        self.points: NDArray[np.float64] = np.asarray(points, np.float64)
        if self.points.ndim != 2 or self.points.shape[1] != 2 or len(self.points) < 3:
            raise ValueError(f"points must have shape [m, 2] with m of 3 or more, got {self.points.shape}")
        self._edge = np.roll(self.points, -1, 0) - self.points  # [m, 2] to the next point
        self._size = np.hypot(*self._edge.T)  # [m]
        if not (self._size > 0).all():
            raise ValueError("points must differ from the next one, so that the road has a direction")
        self._start = np.concatenate([[0.0], self._size.cumsum()])  # [m + 1] metres at each point
        self.length = float(self._start[-1])  # metres
        heading = np.arctan2(self._edge[:, 1], self._edge[:, 0])
        self._heading = np.unwrap(np.append(heading, heading[0]))  # [m + 1]

    def locate(self, position: ArrayLike) -> Place:
        """The nearest point of the centre line."""
        offset = np.asarray(position, np.float64) - self.points  # [m, 2]
        share = ((offset * self._edge).sum(1) / self._size**2).clip(0, 1)
        away = offset - share[:, None] * self._edge
        nearest = int((away**2).sum(1).argmin())
        edge = self._edge[nearest]
        side = edge[0] * offset[nearest, 1] - edge[1] * offset[nearest, 0]
        along = float(self._start[nearest] + share[nearest] * self._size[nearest]) % self.length
        return Place(along, math.copysign(math.hypot(*away[nearest]), side))

    def ahead(self, along: float, metres: float) -> NDArray[np.float64]:
        """The point [2] that many metres further on."""
        edge, rest = self._at(along + metres)
        return self.points[edge] + rest / self._size[edge] * self._edge[edge]

    def bend(self, along: float, metres: float, over: float) -> NDArray[np.float64]:
        """Curvature of the next `metres` of the road, from directions that are compared `over` so many metres.

        Returns:
            [k, 2]: metres ahead, and the absolute curvature there in radians a metre.
        """
        along %= self.length
        first, mean = self._at(along)[0], self._size.mean()
        ahead = np.arange(math.ceil(metres / mean) + 1)
        reach = max(1, round(over / mean))
        turn = np.abs(self._direction(first + ahead + reach) - self._direction(first + ahead))
        start, end = self._start[first : first + 2]
        return np.stack([(start - along + ahead * (end - start)).clip(0), turn / (reach * mean)], 1)

    def _at(self, along: float) -> tuple[int, float]:
        """Edge at a distance along the road, and metres from the edge's beginning."""
        along %= self.length
        edge = min(int(np.searchsorted(self._start, along, "right")) - 1, len(self.points) - 1)
        return edge, along - self._start[edge]

    def _direction(self, edge: NDArray[np.int64]) -> NDArray[np.float64]:
        """Direction of edges, unwrapped over laps."""
        lap, edge = np.divmod(edge, len(self.points))
        return self._heading[edge] + lap * (self._heading[-1] - self._heading[0])
