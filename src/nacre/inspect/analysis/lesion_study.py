"""`lesion_study`: silence neurons one after the other, and measure how the answers change."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nacre._util.checks import whole
from nacre.inspect.analysis.lesion import Lesion, is_shared, lesioned, size_of
from nacre.inspect.analysis.rerun import Rerun, metric_of_samples
from nacre.inspect.recording.hooks import check_index, choose_layer, layers_of
from nacre.inspect.recording.recording import GROUPS, Recording
from nacre.layer.attention import NAC

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and named arguments of a layer."""


@dataclass(frozen=True)
class LesionRow:
    """What one lesion does."""

    lesion: Lesion
    change: float  # mean absolute, each output in standard deviations of its intact answers (1 if constant)
    metric: float  # the task's, with the lesion; NaN where the recording has no true answers
    difference: float  # that minus the intact one


@dataclass(frozen=True)
class LesionStudy:
    """What many lesions do, one at a time.

    Attributes:
        metric: Name of the task's metric; empty where the recording has no true answers.
        better: Whether a "higher" or a "lower" metric is better.
        intact: The metric without a lesion.
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
        recording: It must hold its model.
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
        name = choose_layer(layers, layer)
        lesions = all_lesions(layers[name], name)
    names = [choose_layer(layers, layer if one.layer is None else one.layer) for one in lesions]
    lesions = [replace(one, layer=name) for one, name in zip(lesions, names, strict=True)]
    reruns = [Rerun(recording, sample, steps) for sample in range(count)]
    for rerun in reruns:
        rerun.model = model  # one for all
    intact, answers = metric_of_samples(reruns)
    kept = [_unpadded(recording, sample, len(answer)) for sample, answer in enumerate(answers)]
    before = _joined(answers, kept)
    spread = before.std(0, correction=0)
    spread = torch.where(spread > 0, spread, 1.0)
    found: dict[int, LesionRow] = {}
    for name in dict.fromkeys(names):
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

    Where heads share one circuit, its neurons are silent in all heads or in none.

    Example:
        >>> len(all_lesions(NAC(16, 2)))  # 6 + 2 * 6 + 2 * (3 * 8 + 42)
        150
    """

    def heads(group: str) -> Sequence[int | None]:
        return [None] if is_shared(layer, group) else range(layer.config.num_heads)

    groups = [group for group in GROUPS if size_of(layer, group)]
    found = [Lesion(group, layer=name) for group in groups]
    found += [Lesion(group, head=h, layer=name) for group in groups for h in heads(group) if h is not None]
    found += [
        Lesion(group, i, head=h, layer=name)
        for group in groups
        for i in range(size_of(layer, group))
        for h in heads(group)
    ]
    return found


def _unpadded(recording: Recording, sample: int, steps: int) -> Tensor:
    """[T] answers that count: not those of padding."""
    if not recording.has("padding") or steps == 1:
        return torch.ones(steps, dtype=torch.bool)
    return ~torch.from_numpy(recording.padding(sample)[:steps])


def _joined(answers: Sequence[Tensor], kept: Sequence[Tensor]) -> Tensor:
    """[n, O] answers to all samples."""
    return torch.cat([answer[some] for answer, some in zip(answers, kept, strict=True)]).double()


class LesionedHeads:
    """Answers with lesions in single heads, from one run of the layer with the lesion in all heads.

    Heads of a layer are independent until its output map adds them up. So a lesion is made in all heads at once,
    the layer runs once, and for each head its part of that run replaces the intact part.

    Args:
        recording: Where the samples are.
        reruns: The samples. All have the same model, in which the layer is replaced for a moment.
        name: Name of the layer.
    """

    def __init__(self, recording: Recording, reruns: Sequence[Rerun], name: str) -> None:
        self._reruns, self._name, self._model = reruns, name, reruns[0].model
        self._layer = layers_of(self._model)[name]
        # The input of a second call of the layer depends on the first: then there is no shortcut.
        self._twice = f"{name}#2" in recording.layers

    def answers(self, lesions: Mapping[int, Lesion]) -> Iterator[tuple[int, float, list[Tensor]]]:
        """Make lesions of this layer one at a time.

        Yields:
            Key of the lesion, the task's metric and the answers [T or 1, O] to each sample, in any order.
        """
        if self._twice:
            yield from ((i, *metric_of_samples(self._reruns, [lesion])) for i, lesion in lesions.items())
            return
        together: dict[Lesion, dict[int, int | None]] = {}
        for i, lesion in lesions.items():
            if lesion.head is not None:
                check_index("head", lesion.head, self._layer.config.num_heads)
            everywhere = replace(lesion, head=None, layer=None)
            shared = is_shared(self._layer, lesion.group)
            together.setdefault(everywhere, {})[i] = None if shared else lesion.head
        calls = self._calls()
        side_by_side = _with_map(self._layer, 1.0, 0.0)  # gives the output of each head [B, T, H * D]
        intact = _outputs(side_by_side, calls)
        filled = [x != 0 for x in _outputs(_with_map(self._layer, 0.0, 1.0), calls)]
        for everywhere, wanted in together.items():
            silent = _outputs(lesioned(side_by_side, [everywhere]), calls)
            for i, head in wanted.items():
                mixed = [self._mix(*parts, head) for parts in zip(intact, silent, filled, strict=True)]
                yield (i, *self._play(mixed))

    @torch.no_grad()
    def _mix(self, intact: Tensor, silent: Tensor, filled: Tensor, head: int | None) -> Tensor:
        """Output [B, T, d_model] of the layer with one head, or all, taken from the silent run."""
        if head is not None:
            width = self._layer.config.d_head
            mine = slice(head * width, (head + 1) * width)
            whole = intact.clone()
            whole[..., mine] = silent[..., mine]
            silent = whole
        return self._layer.out_proj(silent).masked_fill(~filled, 0)

    def _calls(self) -> list[Call]:
        """What the layer is given in each run of the model, over all samples."""
        calls: list[Call] = []

        def keep(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            calls.append((args, named))

        hook = self._layer.register_forward_pre_hook(keep, with_kwargs=True)
        try:
            metric_of_samples(self._reruns)
        finally:
            hook.remove()
        return calls

    def _play(self, outputs: Sequence[Tensor]) -> tuple[float, list[Tensor]]:
        """The metric and the answers when the layer gives these outputs, run by run."""
        self._put(_Player(outputs))
        try:
            return metric_of_samples(self._reruns)
        finally:
            self._put(self._layer)

    def _put(self, module: nn.Module) -> None:
        """Put a module in the layer's place."""
        if self._model is self._layer:
            for rerun in self._reruns:
                rerun.model = module
            return
        parent, _, child = self._name.rpartition(".")
        setattr(self._model.get_submodule(parent), child, module)


class _Player(nn.Module):
    """Gives precomputed outputs, one after the other."""

    def __init__(self, outputs: Sequence[Tensor]) -> None:
        super().__init__()
        self._outputs = iter(outputs)

    def forward(self, *given: object, **named: object) -> Tensor:
        return next(self._outputs)


@torch.no_grad()
def _outputs(layer: nn.Module, calls: Sequence[Call]) -> list[Tensor]:
    return [layer(*args, **named) for args, named in calls]


@torch.no_grad()
def _with_map(layer: NAC, scale: float, shift: float) -> NAC:
    """A copy of a layer whose output map scales and shifts by constants; exact for 0 and 1."""
    layer = copy.deepcopy(layer)
    width, old = layer.config.d_model, layer.out_proj.weight
    layer.out_proj = nn.Linear(width, width, device=old.device, dtype=old.dtype)
    layer.out_proj.weight.copy_(scale * torch.eye(width))
    layer.out_proj.bias.fill_(shift)
    return layer
