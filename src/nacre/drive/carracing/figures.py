"""Figures of laps: the path of a car, and its distance from the centre line. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nacre._util.plotting import COLOURS, SMALL, TEXT, TITLE, open_frame, png
from nacre.drive.carracing.road import HALF_WIDTH
from nacre.drive.carracing.world import FPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROAD, _LINE = "#d9d9d9", "#9a9a9a"


def draw_tracks(laps: Sequence[dict[str, Any]], title: str) -> bytes:
    """A PNG with one column for each lap of a track: the path, and below the distance from the centre line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5.0, 3.9 * len(laps)), 6.6), layout="constrained")
    figure.suptitle(title, fontsize=TITLE)
    axes = figure.subplots(2, len(laps), squeeze=False, height_ratios=[3, 1.3])
    highest = max(2 * HALF_WIDTH, *(min(40.0, float(np.abs(lap["trace"]["error"]).max())) for lap in laps))
    longest = max(len(lap["trace"]["error"]) for lap in laps) / FPS
    for number, lap in enumerate(laps):
        colour = COLOURS[number % len(COLOURS)]
        _draw_path(axes[0, number], lap, colour)
        _draw_error(axes[1, number], lap, colour, (longest, 1.05 * highest))
    axes[1, 0].set_ylabel("metres left of\nthe centre line", fontsize=TEXT)
    return png(figure)


def _draw_path(ax: Axes, lap: dict[str, Any], colour: str) -> None:
    trace = lap["trace"]
    road = np.array([*trace["road"], trace["road"][0]])
    ax.set_aspect("equal")
    ax.axis("off")
    ax.fill(*_outline(road).T, color=_ROAD, linewidth=0)
    ax.plot(*road.T, color=_LINE, linewidth=0.7, linestyle="--")
    ax.plot(trace["x"], trace["y"], color=colour, linewidth=1.6)
    ax.plot(trace["x"][0], trace["y"][0], "o", color="black", markersize=5)
    marker = "s" if lap["finished"] else "X"
    ax.plot(trace["x"][-1], trace["y"][-1], marker, color=colour, markersize=8, mec="black")
    ended = "lap finished" if lap["finished"] else "lost" if lap["lost"] else "time up"
    metrics = f"{ended}, {lap['progress']:.0%} of tiles\n{lap['error']:.2f} m from the centre line"
    ax.set_title(f"{lap['contender']}\n{metrics}", fontsize=TEXT)
    margin = 4 * HALF_WIDTH
    (left, low), (right, high) = road.min(0) - margin, road.max(0) + margin
    ax.set_xlim(left, right)
    ax.set_ylim(low, high)


def _outline(road: np.ndarray) -> np.ndarray:
    """[2 m, 2] points of the left edge, then of the right edge backwards."""
    along = np.gradient(road[:-1], axis=0)
    along[[0, -1]] = road[1] - road[-2]  # the road is closed
    normal = np.stack([-along[:, 1], along[:, 0]], 1) / np.hypot(*along.T)[:, None] * HALF_WIDTH
    normal = np.concatenate([normal, normal[:1]])
    return np.concatenate([road + normal, (road - normal)[::-1]])


def _draw_error(ax: Axes, lap: dict[str, Any], colour: str, limits: tuple[float, float]) -> None:
    error = np.array(lap["trace"]["error"])
    ax.axhspan(-HALF_WIDTH, HALF_WIDTH, color=_ROAD, linewidth=0)
    ax.axhline(0, color=_LINE, linewidth=0.7, linestyle="--")
    ax.plot(np.arange(len(error)) / FPS, error, color=colour, linewidth=1.3)
    ax.set_xlim(0, limits[0])
    ax.set_ylim(-limits[1], limits[1])
    ax.set_xlabel("seconds", fontsize=SMALL)
    open_frame(ax)
