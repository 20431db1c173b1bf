"""`lesion_study`: silence neurons one after the other, and see what becomes of the answers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nacre._util.checks import there_are, whole
from nacre.inspect.analysis.lesion import Lesion, size_of
from nacre.inspect.analysis.lesion_heads import LesionedHeads
from nacre.inspect.analysis.rerun import Rerun, metric_of_samples
from nacre.inspect.recording.hooks import layers_of
from nacre.inspect.recording.recording import GROUPS, Recording
from nacre.layer.attention import NAC
from nacre.layer.trace import BACKBONE


@dataclass(frozen=True)
class LesionRow:
    """What one lesion does.

    Attributes:
        lesion: What is silent.
        change: Mean absolute change of the answers, in units of the intact answers' standard deviation, each
            output in its own; as it is for an output that never changes.
        metric: The task's figure with the lesion; NaN where the recording has no true answers.
        difference: That minus the intact one.
    """

    lesion: Lesion
    change: float
    metric: float
    difference: float


@dataclass(frozen=True)
class LesionStudy:
    """What many lesions do, one at a time.

    Attributes:
        metric: Name of the task's figure; empty where the recording has no true answers.
        better: Whether "higher" or "lower" figures are better.
        intact: The figure without a lesion.
        rows: One for each lesion, in the order in which they were given.
    """

    metric: str
    better: str
    intact: float
    rows: tuple[LesionRow, ...]

    def table(self) -> list[dict[str, int | float | str | None]]:
        """Rows for a file: `head` and `index` are None for all, `target` names the neuron of a cut synapse."""
        return [
            {
                "layer": row.lesion.layer,
                "head": row.lesion.head,
                "group": row.lesion.group,
                "index": row.lesion.index,
                "target": None if row.lesion.target is None else " ".join(map(str, row.lesion.target)),
                "change": row.change,
                "metric": row.metric,
                "difference": row.difference,
            }
            for row in self.rows
        ]


def lesion_study(
    recording: Recording,
    lesions: Sequence[Lesion] | None = None,
    *,
    layer: str | None = None,
    samples: int | None = None,
    steps: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LesionStudy:
    """Show a recorded model its samples again, with one lesion after the other.

    Args:
        recording: The recording; it must hold its model.
        lesions: What is silenced, one at a time; None for `all_lesions` of the layer.
        layer: Name of the layer, for lesions that name none; None for the only one.
        samples: Only so many of the first samples; None for all.
        steps: Only so many of the first steps of each sample; None for all.
        progress: Called with how many lesions of how many are done.

    Returns:
        The study. Answers equal those of `lesioned` but for rounding.

    Raises:
        ValueError: If the recording holds no model, or a lesion names what the model does not have.

    Example:
        >>> from nacre.inspect import record
        >>> recording = record(NAC(16, 2), torch.randn(1, 30, 16), out=tmp / "look")
        >>> study = lesion_study(recording, [Lesion("motor"), Lesion("motor", head=0)])
        >>> bool(study.rows[0].change > study.rows[1].change > 0)
        True
    """
    count = recording.samples if samples is None else min(whole("samples", samples, 1), recording.samples)
    if steps is not None:
        whole("steps", steps, 1)
    model = recording.model()
    layers = layers_of(model)
    if lesions is None:
        name = _only(layer, layers)
        lesions = all_lesions(layers[name], name)
    lesions = [one if one.layer is not None else replace(one, layer=_only(layer, layers)) for one in lesions]
    reruns = [Rerun(recording, sample, steps) for sample in range(count)]
    for rerun in reruns:
        rerun.model = model  # one for all
    intact, answers = metric_of_samples(reruns)
    kept = [_scored(recording, sample, len(answer)) for sample, answer in enumerate(answers)]
    before = _joined(answers, kept)
    spread = before.std(0, correction=0)
    spread = torch.where(spread > 0, spread, 1.0)
    found: dict[int, LesionRow] = {}
    for name in dict.fromkeys(_only(one.layer, layers) for one in lesions):
        mine = {i: one for i, one in enumerate(lesions) if one.layer == name}
        for i, metric, after in LesionedHeads(recording, reruns, name).answers(mine):
            change = ((_joined(after, kept) - before).abs() / spread).mean().item()
            found[i] = LesionRow(lesions[i], change, metric, metric - intact)
            if progress is not None:
                progress(len(found), len(lesions))
    about = recording.about
    rows = tuple(found[i] for i in range(len(lesions)))
    return LesionStudy("" if math.isnan(intact) else about.metric, about.better, intact, rows)


def all_lesions(layer: NAC, name: str | None = None) -> list[Lesion]:
    """Every group in all heads, every group in each head, then every neuron of every head.

    Heads that share one circuit share its neurons, so that these are silent in all heads or in none.

    Args:
        layer: The layer.
        name: Its name in the model.

    Example:
        >>> len(all_lesions(NAC(16, 2)))  # 6 + 2 * 6 + 2 * (3 * 8 + 42)
        150
    """

    def heads(group: str) -> Sequence[int | None]:
        return [None] if group in BACKBONE and layer.config.share_backbone else range(layer.config.num_heads)

    found = [Lesion(group, layer=name) for group in GROUPS]
    found += [Lesion(group, head=h, layer=name) for group in GROUPS for h in heads(group) if h is not None]
    found += [
        Lesion(group, i, head=h, layer=name)
        for group in GROUPS
        for i in range(size_of(layer, group))
        for h in heads(group)
    ]
    return found


def _only(name: str | None, layers: dict[str, NAC]) -> str:
    """Name of a layer; of the only one if none is given."""
    if name is None and len(layers) == 1:
        return next(iter(layers))
    if name is None or name not in layers:
        raise ValueError(f"layer must name a NAC layer, got {name!r}; {there_are(name, layers)}")
    return name


def _scored(recording: Recording, sample: int, steps: int) -> Tensor:
    """[T] answers that count: not those of padding."""
    if not recording.has("padding") or steps == 1:
        return torch.ones(steps, dtype=torch.bool)
    return ~torch.from_numpy(np.asarray(recording.array("padding")[sample, :steps], bool))


def _joined(answers: Sequence[Tensor], kept: Sequence[Tensor]) -> Tensor:
    """[n, O] answers to all samples."""
    return torch.cat([answer[some] for answer, some in zip(answers, kept, strict=True)]).double()
