"""`tuning`: which neurons and gates depend on the label, beyond chance.

Steps of a sequence are no independent trials: neurons and labels are both autocorrelated, and two independent slow
curves agree for long stretches. So no table of F is used here. The control shifts the labels of each sample
circularly by a random offset, which keeps both autocorrelations and breaks only the association. It assumes that
samples are stationary: two trends look like tuning, and sometimes so do curves that turn only a few times in a
sample. Where labels hardly change within samples there is little to shift, and little can be found. A neuron that
is tuned need not matter for the answer; see `lesion_study`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import whole
from nacre.inspect.analysis.association import (
    ONE_IN,
    TIE,
    PermutationControl,
    Permuted,
    arrangements,
    associate,
    most_information,
    quantile_bins,
    standardised,
    threshold,
)
from nacre.inspect.analysis.labels import Labels, labels_of, layer_of
from nacre.inspect.recording.recording import LayerRecording, Recording

_STILL = 1e-6  # states that differ by no more than this are the same, as in `certify`
_FEWEST = 4  # steps of a bin, about


Row = dict[str, int | float | str | bool | None]
"""A line of a table, by the names of its columns."""


class TooFewLabels(ValueError):
    """There is nothing to compare; the message says what there is."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """What neurons and gates have to do with labels. H heads, C columns, L labels.

    Attributes:
        layer: Name of the layer.
        what: "truth" or "answer".
        names: [L] names of the labels.
        columns: [C] "inter 3" and so on, then the gates.
        information: [H, C] bits of a state, cut into quantile bins, on the label: the plug-in estimate.
        null: [H, C] mean of the same over the permutations: what the estimate is without any tuning.
        f: [H, C] F of a one-way analysis of variance.
        p: [H, C] share of permutations with as much information, (1 + count) / (1 + permutations).
        f_p: [H, C] the same with as large an F.
        threshold: Information that the best of all neurons, gates and heads exceeds in 5 % of the permutations.
            What is above it is tuned, with a family-wise error of about 5 %. Infinite below 19 permutations.
        f_threshold: The same for F.
        means: [H, C, L] mean state by label; NaN for labels that do not occur.
        counts: [L] steps or, by samples, samples with each label.
        steps: How many of them in all.
        permutations: Permutations that were tried.
        control: How labels were permuted.
        bins: Bins that were used, fewer than wanted where there are few steps.
    """

    layer: str
    what: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    information: NDArray[np.float64]
    null: NDArray[np.float64]
    f: NDArray[np.float64]
    p: NDArray[np.float64]
    f_p: NDArray[np.float64]
    threshold: float
    f_threshold: float
    means: NDArray[np.float64]
    counts: NDArray[np.int64]
    steps: int
    permutations: int
    control: PermutationControl
    bins: int

    @property
    def above(self) -> NDArray[np.bool_]:
        """[H, C] whose information is above the threshold."""
        return self.information > self.threshold * (1 + TIE)  # equal ones may differ by rounding

    @property
    def hopeless(self) -> str:
        """Why nothing could be above the threshold, whatever the neurons do; empty if something could."""
        seen = ", ".join(f"{name} {n}" for name, n in zip(self.names, self.counts, strict=True) if n)
        if self.control is PermutationControl.SAMPLES and (ways := arrangements(self.counts)) < ONE_IN:
            return (
                f"the labels of {self.steps} samples ({seen}) can be arranged in {ways} ways only, {ONE_IN} needed"
            )
        if self.threshold * (1 + TIE) < (most := most_information(self.counts, self.bins)):
            return ""
        what = "samples" if self.control is PermutationControl.SAMPLES else "steps"
        return f"with {self.steps} {what} ({seen}) chance gives the best of all {most:.3g} bits, all there are"

    def rows(self) -> list[Row]:
        """A row for each neuron and gate of each head, the most informative first.

        Gates have index -1. The mean of a label that does not occur is None.
        """
        above, found = self.above, []
        for place in np.argsort(-self.information, axis=None, kind="stable"):
            at = divmod(int(place), len(self.columns))
            row = name_column(at[0], self.columns[at[1]])
            row |= {name: float(getattr(self, name)[at]) for name in ("information", "null", "f", "p", "f_p")}
            row["above"] = bool(above[at])
            for i, name in enumerate(self.names):
                row[f"mean {name}"] = float(self.means[at][i]) if self.counts[i] else None
            found.append(row)
        return found


def name_column(head: int, column: str) -> Row:
    """The beginning of a row: "inter 3" is index 3 of its group, a gate has index -1."""
    group, _, index = column.partition(" ")
    return {"head": head, "group": group, "index": int(index or -1)}


def tuning(
    recording: Recording,
    layer: str | None = None,
    what: str = "truth",
    output: str | None = None,
    *,
    permutations: int = 200,
    seed: int = 0,
    bins: int = 8,
) -> Tuning:
    """Find the neurons and gates of a layer that depend on a label.

    Args:
        recording: Made by `record` or `record_run`.
        layer: Name of the layer; None for the only one.
        what: "truth" for the true answers, "answer" for those of the model.
        output: For numbers, the name of the one that is cut into thirds; None for the first.
        permutations: How many permutations of the labels are tried.
        seed: Of the permutations.
        bins: Quantile bins of a state, at most one for each four steps.

    Raises:
        TooFewLabels: If fewer than two labels occur.
        ValueError: If there are no such answers, or a state is not finite.

    Example:
        >>> from nacre.inspect import record
        >>> recording = record(NAC(16, 2), torch.randn(1, 60, 16), out=tmp / "look")
        >>> found = tuning(recording, what="answer", permutations=19)
        >>> found.columns[-1], found.p.shape
        ('keys', (2, 71))
    """
    whole("permutations", permutations, 1)
    whole("bins", bins, 2)
    chosen, labels = layer_of(recording, layer), labels_of(recording, layer, what, output)
    control = PermutationControl.SHIFT
    if labels.per_sample or not any(len(np.unique(x[x >= 0])) > 1 for x in labels.of_step):
        control = PermutationControl.SAMPLES
    label, lengths = _flat(labels, control)
    counts = np.bincount(label, minlength=len(labels.names))
    if (counts > 0).sum() < 2 or len(label) <= (counts > 0).sum():
        seen = ", ".join(f"{name} {n}" for name, n in zip(labels.names, counts, strict=True) if n)
        raise TooFewLabels(
            f"what must be answers with at least two labels that repeat, got {str(what)!r} with {seen or 'none'} "
            f"in {len(label)} {'samples' if control is PermutationControl.SAMPLES else 'steps'}; "
            "record more samples"
        )
    bins = max(2, min(bins, len(label) // _FEWEST))
    permuted = Permuted(label, lengths, control, permutations, seed)
    columns = (*(f"{group} {i}" for group, i in chosen.neurons), *chosen.gates)
    heads = [
        _head(_states(chosen, head, labels, control), columns, permuted, len(labels.names), bins)
        for head in range(chosen.heads)
    ]
    fields = {name: np.stack([h[name] for h in heads]) for name in heads[0]}
    best, best_f = fields.pop("best").max(0), fields.pop("best_f").max(0)
    return Tuning(
        layer=chosen.name,
        what=what,
        names=labels.names,
        columns=columns,
        **fields,  # pyright: ignore[reportArgumentType]
        threshold=threshold(best),
        f_threshold=threshold(best_f),
        counts=counts,
        steps=len(label),
        permutations=permutations,
        control=control,
        bins=bins,
    )


def _flat(labels: Labels, control: PermutationControl) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels [n] of the steps that have one, or of samples, and how many there are in each sample that has any."""
    kept = [x for x in (x[x >= 0] for x in labels.of_step) if len(x)]
    if control is PermutationControl.SAMPLES:
        kept = [x[:1] for x in kept]
    joined = np.concatenate(kept) if kept else np.empty(0, np.int64)
    return joined, np.array([len(x) for x in kept], np.int64)


def _states(layer: LayerRecording, head: int, labels: Labels, control: PermutationControl) -> NDArray[np.float64]:
    """Neurons and gates [n, C] of a head, at the steps that have a label, or their means over samples."""
    parts = []
    for sample, label in enumerate(labels.of_step):
        kept = label >= 0
        if kept.any():
            arrays = (layer.array(name)[sample, : len(label), head] for name in ("states", "gates"))
            rows = np.concatenate([np.asarray(x)[kept] for x in arrays], 1).astype(np.float64)
            parts.append(rows.mean(0, keepdims=True) if control is PermutationControl.SAMPLES else rows)
    return np.concatenate(parts)


def _head(
    x: NDArray[np.float64], columns: tuple[str, ...], permuted: Permuted, labels: int, bins: int
) -> dict[str, NDArray]:
    """What is found in one head, from its states [n, C]."""
    if not np.isfinite(x).all():
        bad = columns[int(np.flatnonzero(~np.isfinite(x).all(0))[0])]
        raise ValueError(f"states must be finite, got NaN or infinity in {bad!r}; the model has diverged")
    still = np.ptp(x, axis=0) <= _STILL
    z, binned = np.where(still, 0.0, standardised(x)), np.where(still, 0, quantile_bins(x, bins))
    information, f = (y[0] for y in associate(z, binned, permuted.label[None], labels))
    total, more, more_f = (np.zeros(x.shape[1]) for _ in range(3))
    best, best_f = [], []
    for labelings in permuted.blocks():
        chance, chance_f = associate(z, binned, labelings, labels)  # [p, C]
        total += chance.sum(0)
        more += (chance >= information * (1 - TIE)).sum(0)
        more_f += (chance_f >= f * (1 - TIE)).sum(0)
        best.append(chance.max(1))
        best_f.append(chance_f.max(1))
    return {
        "information": information,
        "null": total / permuted.count,
        "f": f,
        "p": (1 + more) / (1 + permuted.count),
        "f_p": (1 + more_f) / (1 + permuted.count),
        "means": _means(x, permuted.label, labels),
        "best": np.concatenate(best),
        "best_f": np.concatenate(best_f),
    }


def _means(x: NDArray[np.float64], label: NDArray[np.int64], labels: int) -> NDArray[np.float64]:
    """[C, L] mean of each column over the steps with each label."""
    count = np.bincount(label, minlength=labels)
    sums = np.stack([x[label == i].sum(0) for i in range(labels)], 1)
    return np.where(count > 0, sums / count.clip(min=1), np.nan)
