"""`time_tuning`: which neurons and gates of a circuit depend on the time from key to query, beyond chance.

A neuron of the circuit has a state for each pair of a step and one of its keys. Its strength is the share of its
variance over pairs that lies between bins of elapsed time.

Steps are no independent trials: where what keys hold drifts, a neuron that knows nothing of time goes with it for
a while. So the control works on runs of steps: samples, or parts of them, 16 at least. A permutation flips the
sign of some runs: of all that states differ, from key to key of a step, from their mean in that step. That keeps
the queries, and how alike neighbouring keys and steps are. What goes with elapsed time by accident is up in some
runs and down in others; what is up in most of them is tuned. A trend longer than a run looks like tuning.

A neuron may also know the time without a clock, from what keys hold: near ones are like the query, and far ones
were chosen. So there is a second control, the strength while all clock neurons of the layer are silent.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nacre._util.checks import whole
from nacre.inspect.analysis.association import ONE_IN, TIE, threshold
from nacre.inspect.analysis.bin_sums import BinSums, edges_of, label_of
from nacre.inspect.analysis.labels import layer_of
from nacre.inspect.analysis.lesion import Lesion
from nacre.inspect.analysis.pairs import GATES, Pairs, pairs_of
from nacre.inspect.analysis.tuning import Row, TooFewLabels, name_column
from nacre.inspect.recording.layer_writer import OF_CIRCUIT
from nacre.inspect.recording.recording import Recording

_FEWEST = 8  # pairs of a bin, about


@dataclass(frozen=True, eq=False)
class TimeTuning:
    """What neurons and gates have to do with elapsed time. H heads, C columns, L bins of elapsed time.

    Attributes:
        layer: Name of the layer.
        unit: Of time: that of the stamps, empty if not known, or "steps" if there were none.
        columns: [C] "clock 3" and so on for neurons of the circuit, then "phi", "omega", "logits"
            and, with inhibition, "effect".
        clock_scales: Scales of the clock: neurons are cosines, then sines, of elapsed time divided by them.
        elapsed: [L] mean time from key to query in each bin, ascending; negative for keys later than the query.
        counts: [H, L] pairs in each bin.
        strength: [H, C] share of the variance of a state that lies between bins (the correlation ratio, squared).
        null: [H, C] mean of the same over the permutations.
        z: [H, C] how many standard deviations of the permutations the strength is above the null; 0 for what
            never changes.
        p: [H, C] share of permutations with as large a strength, (1 + count) / (1 + permutations).
        silent: [H, C] strength while the clock is silent, NaN for clock neurons; None for layers without a clock.
        threshold: z that the best of all neurons, gates and heads exceeds in 5 % of the permutations. What is
            above it is tuned, with a family-wise error of about 5 %. Infinite below 19 permutations.
        means: [H, C, L] tuning curves: mean state in each bin; NaN in bins without a pair.
        spread: [H, C, L] standard deviation in each bin.
        pairs: How many of all heads were looked at.
        permutations: Permutations that were tried.
        runs: Runs of steps, of which permutations flip the signs.
    """

    layer: str
    unit: str
    columns: tuple[str, ...]
    clock_scales: tuple[float, ...]
    elapsed: NDArray[np.float64]
    counts: NDArray[np.int64]
    strength: NDArray[np.float64]
    null: NDArray[np.float64]
    z: NDArray[np.float64]
    p: NDArray[np.float64]
    silent: NDArray[np.float64] | None
    threshold: float
    means: NDArray[np.float64]
    spread: NDArray[np.float64]
    pairs: int
    permutations: int
    runs: int

    @property
    def hopeless(self) -> str:
        """Why nothing could be above the threshold, whatever the neurons do; empty if something could."""
        if (ways := 2 ** (self.runs - 1)) >= ONE_IN:  # all signs flipped are as good as none
            return ""
        return f"the signs of {self.runs} runs of steps can be flipped in {ways} ways only, {ONE_IN} are needed"

    @property
    def above(self) -> NDArray[np.bool_]:
        """[H, C] whose z is above the threshold."""
        return self.z > self.threshold * (1 + TIE)  # equal ones may differ by rounding

    def rows(self) -> list[Row]:
        """A row for each neuron and gate of each head, the best tuned first, with its tuning curve.

        Gates have index -1. "highest at" and "lowest at" are the elapsed times at which the curve is highest and
        lowest; None if it is flat.
        """
        above, found = self.above, []
        names = _distinct(self.elapsed)
        for place in np.argsort(-self.strength, axis=None, kind="stable"):
            at = divmod(int(place), len(self.columns))
            row = name_column(at[0], self.columns[at[1]])
            row |= {name: float(getattr(self, name)[at]) for name in ("strength", "null", "z", "p")}
            row["above"] = bool(above[at])
            unknown = self.silent is None or np.isnan(self.silent[at])
            row["silent clock"] = None if unknown else float(self.silent[at])  # pyright: ignore[reportOptionalSubscript]
            curve = self.means[at]
            flat = self.strength[at] == 0
            row["highest at"] = None if flat else float(self.elapsed[np.nanargmax(curve)])
            row["lowest at"] = None if flat else float(self.elapsed[np.nanargmin(curve)])
            for name, value in zip(names, curve, strict=True):
                row[f"mean at {name}"] = None if np.isnan(value) else float(value)
            found.append(row)
        return found


def time_tuning(
    recording: Recording,
    layer: str | None = None,
    *,
    permutations: int = 200,
    seed: int = 0,
    bins: int = 25,
    most: int = 2**14,
) -> TimeTuning:
    """Find the neurons and gates of a layer that depend on the time from key to query.

    The recorded model runs on the recorded samples again.

    Args:
        recording: Made by `record` or `record_run`.
        layer: Name of the layer; None for the only one.
        permutations: How many permutations, in which runs have other signs, are tried.
        seed: Of the permutations, and of the choice of steps.
        bins: Bins of elapsed time with about as many pairs each, at most one for each eight pairs; one for each
            elapsed time, if there are no more.
        most: Pairs of each head that are looked at, about; of more, steps are chosen at random.

    Raises:
        TooFewLabels: If all pairs have the same elapsed time.
        ValueError: If the recording holds no model, a state is not finite, or the layer attends to other steps
            than its own.

    Example:
        >>> from nacre.inspect import record
        >>> recording = record(NAC(16, 2, clock=3, near=8), torch.randn(1, 60, 16), out=tmp / "look")
        >>> found = time_tuning(recording, permutations=19)
        >>> bool(found.strength[0, found.columns.index("clock 1")] > 0.9), found.unit
        (True, 'steps')
    """
    whole("permutations", permutations, 1)
    whole("bins", bins, 2)
    whole("most", most, 1)
    chosen = layer_of(recording, layer)
    heads = pairs_of(recording, chosen, most, seed)
    everything = np.concatenate([head.elapsed for head in heads])
    edges = edges_of(everything, max(2, min(bins, len(everything) // len(heads) // _FEWEST)))
    if not len(edges):
        raise TooFewLabels(f"all {len(everything)} pairs have the same elapsed time; record longer samples")
    gates = (gate for gate in GATES if gate in chosen.gates)
    columns = (*(f"{group} {i}" for group in OF_CIRCUIT for i in range(chosen.sizes[group])), *gates)
    found = [_head(head, edges, columns, permutations, seed) for head in heads]  # flips are those of all heads
    fields = {name: np.stack([one[name] for one in found]) for name in found[0]}
    runs = int(fields.pop("runs").min())
    best, label, silent = fields.pop("best").max(0), label_of(everything, edges), None
    if count := chosen.sizes["clock"]:
        # "#2" is a second call of the same layer.
        lesion = Lesion("clock", layer=chosen.name.partition("#")[0])
        quiet = pairs_of(recording, chosen, most, seed, [lesion])
        silent = np.stack([BinSums.of(head, edges).strength() for head in quiet])
        silent[:, :count] = np.nan
    return TimeTuning(
        layer=chosen.name,
        unit=recording.about.time_unit if chosen.has("time") else "steps",
        columns=columns,
        clock_scales=tuple(chosen.clock_scales),
        elapsed=np.bincount(label, everything) / np.bincount(label),
        **fields,  # pyright: ignore[reportArgumentType]
        silent=silent,
        threshold=threshold(best),
        pairs=len(everything),
        permutations=permutations,
        runs=runs,
    )


def _head(
    pairs: Pairs, edges: NDArray[np.float64], columns: tuple[str, ...], permutations: int, seed: int
) -> dict[str, NDArray]:
    """What is found in one head."""
    x, label = pairs.states, label_of(pairs.elapsed, edges)
    if not np.isfinite(x).all():
        bad = columns[int(np.flatnonzero(~np.isfinite(x).all(0))[0])]
        raise ValueError(f"states must be finite, got NaN or infinity in {bad!r}; the model has diverged")
    flipped = BinSums.of(pairs, edges)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (permutations, len(flipped.within)))
    strength, chance = flipped.strength(), flipped.strengths(signs)
    null, scale = chance.mean(0), chance.std(0)
    scale = np.where(scale > TIE, scale, np.inf)
    counts, hot = flipped.counts, np.eye(len(flipped.counts))[label]  # [n, L]
    with np.errstate(invalid="ignore"):
        means = (x.T @ hot) / counts
        off = x - np.nan_to_num(means).T[label]  # from the curve
        spread = np.sqrt((off**2).T @ hot / counts)
    return {
        "runs": np.array(signs.shape[1]),
        "counts": counts,
        "strength": strength,
        "null": null,
        "z": (strength - null) / scale,
        "p": (1 + (chance >= strength * (1 - TIE)).sum(0)) / (1 + permutations),
        "means": means,
        "spread": spread,
        "best": ((chance - null) / scale).max(1),
    }


def _distinct(values: NDArray[np.float64]) -> list[str]:
    """Numbers as text, with as few digits as tell them apart."""
    texts = [f"{value:.4g}" for value in values]
    for digits in range(5, 18):
        if len(set(texts)) == len(texts):
            break
        texts = [f"{value:.{digits}g}" for value in values]
    return texts
