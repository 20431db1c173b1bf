"""The figures of the demo, as PNG bytes. Needs matplotlib."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nacre._util.plotting import legend_below, open_frame, png
from nacre.data.sets.spirals import END, HALF, Spirals
from nacre.layer.trace import Trace

SHOWN = 6  # test spirals in the figure
_INSIDE, _OUTSIDE = "#2166ac", "#d6604d"
_COLOURS = ["#2166ac", "#e08214", "#1b7837", "#762a83"]
_HEAD = 0  # the head whose neurons are shown
_NEURONS = 3  # command neurons that are shown


def plot_spirals(data: Spirals, guesses: dict[str, Tensor]) -> bytes:
    """Six test spirals with observations, truth and the answer of each model, one row a model."""
    figure = Figure(figsize=(12, 2.1 * len(guesses) + 0.9), layout="constrained")
    axes = figure.subplots(len(guesses), SHOWN, squeeze=False)
    for row, (model, guess) in zip(axes, guesses.items(), strict=True):
        for i, ax in enumerate(row):
            _plot_spiral(ax, data.x[i].numpy(), data.target[i].numpy(), guess[i].numpy())
        row[0].set_ylabel(model, fontsize=14)
    legend_below(figure, 4, 12)
    figure.suptitle("Spirals seen at irregular moments of their first half, and completed", fontsize=14)
    return png(figure)


def plot_losses(losses: dict[str, list[float]]) -> bytes:
    """Training loss of every model, step by step, and smoothed."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax = figure.add_subplot()
    for (model, values), colour in zip(losses.items(), _COLOURS, strict=False):
        window = min(20, len(values))
        smooth = np.convolve(values, np.ones(window) / window, "valid")
        steps = np.arange(1, len(values) + 1)
        ax.semilogy(steps, values, color=colour, linewidth=0.7, alpha=0.25)
        ax.semilogy(steps[window - 1 :], smooth, color=colour, linewidth=1.8, label=model)
    ax.set(xlabel="step", ylabel="squared distance")
    ax.set_title("Training loss (bold: mean of 20 steps)", fontsize=13)
    ax.legend(frameon=False, fontsize=12)
    open_frame(ax)
    return png(figure)


def plot_trace(trace: Trace, asked: Tensor, seen: Tensor) -> bytes:
    """What the first head's circuit did for one spiral: asked times [S], times of observations [T]."""
    figure = Figure(figsize=(9, 8.4), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[1, 1, 1.3])
    moments = asked.numpy()
    neurons, gates = summarise(trace)
    _plot_lines(top, moments, neurons)
    top.set_title("The three command neurons that change most (state)", loc="left", fontsize=12)
    _plot_lines(middle, moments, gates)
    middle.set_title("What the circuit decides: target, decay rate and internal time", loc="left", fontsize=12)
    _plot_attention(bottom, moments, seen[trace.index[0, _HEAD]].numpy(), trace.weights[0, _HEAD].numpy())
    bottom.set(xlabel="asked time", ylabel="time of observation", xlim=(0, END))
    for ax in (top, middle, bottom):
        ax.axvline(float(seen[-1]), color="#888888", linestyle="--", linewidth=1, label="last observation")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=11)
        open_frame(ax)
    return png(figure)


def summarise(trace: Trace) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Mean over the attended keys, by attention weight, for the first sequence and head of a trace.

    Returns:
        States of the command neurons that vary most over the queries, liveliest first, and the gates; all [S].
    """

    def average(x: Tensor) -> np.ndarray:
        """[B, H, S, K] -> [S]."""
        return (trace.weights * x)[0, _HEAD].sum(1).numpy()

    states = [average(state) for state in trace.command.unbind(-1)]
    order = sorted(range(len(states)), key=lambda i: -states[i].std())
    gates = {r"$\phi$ (target)": trace.phi, r"$\omega$ (decay rate)": trace.omega, "t (internal time)": trace.t}
    return (
        {f"command {i}": states[i] for i in order[:_NEURONS]},
        {name: average(gate) for name, gate in gates.items() if gate is not None},
    )


def _plot_spiral(ax: Axes, seen: np.ndarray, true: np.ndarray, guess: np.ndarray) -> None:
    ax.plot(*true.T, color="#c8c8c8", linewidth=4, solid_capstyle="round", label="true spiral")
    ax.plot(*guess[:HALF].T, color=_INSIDE, linewidth=1.2, label="model, between observations")
    ax.plot(*guess[HALF - 1 :].T, color=_OUTSIDE, linewidth=1.2, label="model, after the last one")
    ax.scatter(*seen.T, s=5, color="black", zorder=3, label="seen (with noise)")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color("#dddddd")


def _plot_lines(ax: Axes, moments: np.ndarray, lines: dict[str, np.ndarray]) -> None:
    for (label, values), colour in zip(lines.items(), _COLOURS, strict=False):
        ax.plot(moments, values, color=colour, linewidth=1.6, label=label)


def _plot_attention(ax: Axes, moments: np.ndarray, keys: np.ndarray, weights: np.ndarray) -> None:
    """Moments [S], times of attended keys [S, K] and their weights [S, K]."""
    low, high = weights.min(), weights.max()
    share = ((weights - low) / max(high - low, 1e-9)).ravel()
    x = np.repeat(moments, keys.shape[1])
    ax.scatter(x, keys.ravel(), s=4 + 24 * share, alpha=0.15 + 0.85 * share, color=_INSIDE, linewidths=0)
    title = f"Which observations are attended (small and pale: weight {low:.2f}; large and dark: {high:.2f})"
    ax.set_title(title, loc="left", fontsize=12)
