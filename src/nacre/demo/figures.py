"""The figures of the demo, as PNG bytes. Needs matplotlib."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from nacre._util.plotting import COLOURS, SMALL, TEXT, TITLE, legend_below, open_frame, png
from nacre.data.dataset import Batch
from nacre.data.sets.spirals import END, HALF, Spirals
from nacre.layer.clock import clock_scales
from nacre.layer.trace import Trace

_INSIDE, _OUTSIDE = COLOURS[:2]
_HEAD = 0  # the head whose neurons are shown
_NEURONS = 3  # of a group that are shown
_LINE = "#888888"


def plot_spirals(data: Spirals, guesses: dict[str, Tensor], mse: dict[str, dict[str, float]]) -> bytes:
    """The first test spiral of each family: observations, truth and the answer of each model, a column each."""
    shown = [int((data.clockwise == turn).nonzero()[0]) for turn in (False, True)]
    figure = Figure(figsize=(3.1 * len(guesses), 7.2), layout="constrained")
    axes = figure.subplots(len(shown), len(guesses), squeeze=False)
    for column, (model, guess) in zip(axes.T, guesses.items(), strict=True):
        for ax, i in zip(column, shown, strict=True):
            _plot_spiral(ax, data.x[i].numpy(), data.target[i].numpy(), guess[i].numpy())
        between, after = mse[model].values()
        column[0].set_title(model, fontsize=TITLE, fontweight="bold")
        column[0].set_title(f"{between:.4f}", loc="left", color=_INSIDE, fontsize=TITLE)
        column[0].set_title(f"{after:.4f}", loc="right", color=_OUTSIDE, fontsize=TITLE)
    legend_below(figure, 4, TEXT)
    figure.suptitle("Spirals seen at irregular moments of their first half, and completed", fontsize=TITLE)
    return png(figure)


def plot_losses(losses: dict[str, dict[str, list[float]]]) -> bytes:
    """Loss of every model on validation and training spirals, round by round."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for (model, log), colour in zip(losses.items(), COLOURS, strict=False):
        ax.semilogy(log["step"], log["valid_loss"], color=colour, linewidth=1.8, label=model)
        ax.semilogy(log["step"], log["train_loss"], color=colour, linewidth=1.0, linestyle=":")
    ax.set_xlabel("step", fontsize=TEXT)
    ax.set_ylabel("mean squared error", fontsize=TEXT)
    ax.set_title("Validation loss, and training loss (dotted)", loc="left", fontsize=TITLE)
    ax.legend(frameon=False, fontsize=TEXT)
    open_frame(ax)
    return png(figure)


def plot_circuit(trace: Trace) -> bytes:
    """The wiring of the layer, its inputs named: query, key and, if there is one, the clock."""
    figure = trace.wiring.draw()
    (ax,) = figure.axes
    sizes = {"query": trace.query.shape[-1], "key": trace.key.shape[-1]}
    sizes["clock"] = trace.wiring.num_inputs - sum(sizes.values())
    step, first = 2 / (trace.wiring.num_inputs - 1), 0  # `draw` spreads the inputs from 1 to -1
    for name, size in sizes.items():
        if size:
            top, low = 1 - step * first, 1 - step * (first + size - 1)
            ax.plot([-0.09, -0.09], [top, low], color=_LINE, linewidth=1.5)
            place = {"rotation": 90, "ha": "right", "va": "center"}
            ax.text(-0.13, (top + low) / 2, f"{name} ({size})", fontsize=TEXT, **place)
        first += size
    return png(figure)


def plot_trace(trace: Trace, batch: Batch) -> bytes:
    """What the first head's circuit did for the one spiral of a batch."""
    seen = batch.x[0, :, -1].numpy() == 1  # [T]
    time = batch.time[0].numpy()
    asked = ~seen
    panels = summarise(trace)
    figure = Figure(figsize=(9, 2.2 * len(panels) + 3.2), layout="constrained")
    axes = figure.subplots(len(panels) + 1, 1, sharex=True, height_ratios=[*[1] * len(panels), 1.4])
    for ax, (title, lines) in zip(axes, panels.items(), strict=False):
        for (label, values), colour in zip(lines.items(), COLOURS, strict=False):
            ax.plot(time[asked], values[asked], color=colour, linewidth=1.6, label=label)
        ax.set_title(title, loc="left", fontsize=TEXT)
    _plot_attention(axes[-1], trace, time, seen)
    axes[-1].set(xlim=(0, END))
    axes[-1].set_xlabel("asked time", fontsize=TEXT)
    for ax in axes:
        ax.axvline(time[seen][-1], color=_LINE, linestyle="--", linewidth=1, label="last observation")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=SMALL)
        open_frame(ax)
    return png(figure)


def summarise(trace: Trace) -> dict[str, dict[str, np.ndarray]]:
    """Means over the attended keys, by attention weight, for the first sequence and head of a trace.

    Returns:
        By title, then by name, [T] each: clock and command neurons that vary most over the queries, and the gates.
    """

    def average(x: Tensor) -> np.ndarray:
        """[B, H, T, K] -> [T]."""
        return (trace.weights * x)[0, _HEAD].sum(-1).numpy()

    def liveliest(states: Tensor, names: list[str]) -> dict[str, np.ndarray]:
        means = [average(state) for state in states.unbind(-1)]
        order = sorted(range(len(means)), key=lambda i: -means[i].std())[:_NEURONS]
        return {names[i]: means[i] for i in order}

    found = {}
    if trace.clock is not None:
        scales = [f"{scale:.3g}" for scale in clock_scales(trace.clock.shape[-1] // 2)]
        names = [f"{wave}(elapsed / {scale})" for wave in ("cos", "sin") for scale in scales]
        found["Clock neurons that change most (elapsed: in lengths of a spiral)"] = liveliest(trace.clock, names)
    names = [f"command {i}" for i in range(trace.command.shape[-1])]
    found["Command neurons that change most"] = liveliest(trace.command, names)
    gates = {r"$\phi$ (target)": trace.phi, r"$\omega$ (decay rate)": trace.omega, "t (internal time)": trace.t}
    found["What the logit follows: target, decay rate and internal time"] = {
        name: average(gate) for name, gate in gates.items() if gate is not None
    }
    return found


def _plot_spiral(ax: Axes, seen: np.ndarray, true: np.ndarray, guess: np.ndarray) -> None:
    ax.plot(*true.T, color="#cfcfcf", linewidth=4.5, solid_capstyle="round", label="true spiral")
    ax.plot(*guess[:HALF].T, color=_INSIDE, linewidth=1.6, label="model, seen half (MSE left)")
    ax.plot(*guess[HALF - 1 :].T, color=_OUTSIDE, linewidth=1.6, label="model, unseen half (MSE right)")
    ax.scatter(*seen.T, s=9, color="black", zorder=3, label="seen (with noise)")
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color("#dddddd")


def _plot_attention(ax: Axes, trace: Trace, time: np.ndarray, seen: np.ndarray) -> None:
    """Which keys each asked moment attends to: observations, or moments that are asked about, too."""
    index, weights = trace.index[0, _HEAD].numpy(), trace.weights[0, _HEAD].numpy()  # [T, K]
    moments = np.broadcast_to(time[:, None], index.shape)
    for observed, name, colour in ((False, "other question", _OUTSIDE), (True, "observation", _INSIDE)):
        some = (seen[index] == observed) & ~seen[:, None]
        size = 36 * weights[some] / weights.max()
        ax.scatter(moments[some], time[index][some], s=size, alpha=0.6, color=colour, linewidths=0)
        ax.scatter([], [], s=30, color=colour, label=name)
    ax.set_ylabel("time of key", fontsize=TEXT)
    ax.set_title("Which keys are attended (area: attention weight)", loc="left", fontsize=TEXT)
