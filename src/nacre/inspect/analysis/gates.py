"""`gate_by_label`: the values of a gate for each label."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import choice
from nacre.inspect.analysis.labels import labels_of, layer_of
from nacre.inspect.recording.recording import Recording

_COLUMNS = ("mean", "std", "lower quartile", "median", "upper quartile")


@dataclass(frozen=True, eq=False)
class GateByLabel:
    """A gate by label and head. H heads, L labels; NaN for labels that do not occur."""

    gate: str
    layer: str
    what: str  # "truth" or "answer"
    names: tuple[str, ...]  # [L] names of the labels
    counts: NDArray[np.int64]  # [L] steps with each label
    mean: NDArray[np.float64]  # [H, L] over steps; at a step, the mean over keys by attention weight
    std: NDArray[np.float64]  # [H, L] over steps
    quartiles: NDArray[np.float64]  # [H, L, 3] lower quartile, median and upper quartile
    all_heads: NDArray[np.float64]  # [L, 5] mean, standard deviation and quartiles over steps and heads together

    def rows(self) -> list[dict[str, int | float | str]]:
        """A row for each label that occurs and each head, first those of all heads together, as head -1."""
        of_head = np.concatenate([self.mean[..., None], self.std[..., None], self.quartiles], -1)
        table = np.concatenate([self.all_heads[None], of_head])  # [1 + H, L, 5]
        return [
            {"gate": self.gate, "head": head - 1, "label": name, "steps": int(self.counts[i])}
            | dict(zip(_COLUMNS, map(float, table[head, i]), strict=True))
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
        recording: Made by `record` or `record_run`.
        gate: "phi", "omega", "logits", "keys" (the effective number of keys), and "t", "match" or "effect" if
            there are any.
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
    of_label = [values[label == i] for i in range(len(labels.names))]  # [n, H] each
    table = np.stack([_statistics(x) for x in of_label])  # [L, 5, H]
    return GateByLabel(
        gate=gate,
        layer=chosen.name,
        what=what,
        names=labels.names,
        counts=labels.counts,
        mean=table[:, 0].T,
        std=table[:, 1].T,
        quartiles=table[:, 2:].transpose(2, 0, 1),
        all_heads=np.stack([_statistics(x.reshape(-1)) for x in of_label]),
    )


def _statistics(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean, standard deviation and quartiles [5, ...] of values [n, ...]; NaN if there are none."""
    if not len(values):
        return np.full((5, *values.shape[1:]), np.nan)
    return np.concatenate([[values.mean(0), values.std(0)], np.quantile(values, (0.25, 0.5, 0.75), axis=0)])
