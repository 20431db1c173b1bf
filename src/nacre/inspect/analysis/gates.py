"""`gate_by_label`: the values of a gate for each label, which is what claims about gates are held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import choice
from nacre.inspect.analysis.labels import labels_of, layer_of

if TYPE_CHECKING:
    from nacre.inspect.recording.recording import Recording

_QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, eq=False)
class GateByLabel:
    """A gate by label and head. H heads, L labels; NaN for labels that do not occur.

    Attributes:
        gate: Name of the gate.
        layer: Name of the layer.
        what: "truth" or "answer".
        names: [L] names of the labels.
        counts: [L] steps with each label.
        mean: [H, L] mean over steps; at a step, the gate's mean over the attended keys by attention weight.
        std: [H, L] standard deviation over steps.
        quartiles: [H, L, 3] lower quartile, median and upper quartile.
        all_heads: [L, 5] mean, standard deviation and quartiles over the steps and heads together.
    """

    gate: str
    layer: str
    what: str
    names: tuple[str, ...]
    counts: NDArray[np.int64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    quartiles: NDArray[np.float64]
    all_heads: NDArray[np.float64]

    def rows(self) -> list[dict[str, int | float | str]]:
        """A row for each label that occurs and each head, those of all heads together first, as head -1."""
        of_head = np.concatenate([self.mean[..., None], self.std[..., None], self.quartiles], -1)
        table = np.concatenate([self.all_heads[None], of_head])  # [1 + H, L, 5]
        figures = ("mean", "std", "lower quartile", "median", "upper quartile")
        return [
            {"gate": self.gate, "head": head - 1, "label": name, "steps": int(self.counts[i])}
            | dict(zip(figures, map(float, table[head, i]), strict=True))
            for head in range(len(table))
            for i, name in enumerate(self.names)
            if self.counts[i]
        ]


def gate_by_label(
    recording: Recording,
    gate: str = "omega",
    what: str = "truth",
    output: str | None = None,
    *,
    layer: str | None = None,
) -> GateByLabel:
    """Mean, spread and quartiles of a gate for each label, head by head.

    Args:
        recording: The recording.
        gate: "phi", "omega", "logits", "keys" (the effective number of keys), and "t" or "match" if there are any.
        what: "truth" for the true answers, "answer" for those of the model.
        output: For numbers, the name of the one that is cut into thirds; None for the first.
        layer: Name of the layer; None for the only one.

    Raises:
        ValueError: If there is no such gate.

    Example:
        >>> from nacre.inspect import record
        >>> recording = record(NAC(16, 2), torch.randn(1, 60, 16), out=tmp / "look")
        >>> found = gate_by_label(recording, "omega", what="answer")
        >>> found.names, found.mean.shape, bool((found.mean > 0).all())
        (('low', 'middle', 'high'), (2, 3), True)
    """
    chosen = layer_of(recording, layer)
    choice("gate", gate, chosen.gates)
    labels = labels_of(recording, layer, what, output)
    label = np.concatenate(labels.of_step)  # [n]
    array, column = chosen.array("gates"), chosen.gates.index(gate)
    parts = [np.asarray(array[i, : len(x), :, column]) for i, x in enumerate(labels.of_step)]
    values = np.concatenate(parts).astype(np.float64)  # [n, H]
    of_label = [_figures(values[label == i]) for i in range(len(labels.names))]
    table = np.stack([each for each, _ in of_label], 1)  # [H, L, 5]
    return GateByLabel(
        gate=gate,
        layer=chosen.name,
        what=what,
        names=labels.names,
        counts=labels.counts,
        mean=table[..., 0],
        std=table[..., 1],
        quartiles=table[..., 2:],
        all_heads=np.stack([together for _, together in of_label]),
    )


def _figures(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean, standard deviation and quartiles of values [n, H]: of each head [H, 5], and of all together [5]."""
    if not len(values):
        return np.full((values.shape[1], 5), np.nan), np.full(5, np.nan)

    def of(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([[x.mean(0), x.std(0)], np.quantile(x, _QUARTILES, axis=0)])

    return of(values).T, of(values.reshape(-1))
