"""`LesionedHeads`: answers with lesions in single heads, from one run of the layer with the lesion in all heads.

Heads of a layer know nothing of each other until its output map adds them up. So a lesion is made in all heads at
once, the layer runs once, and for each head its part of that run takes the place of the intact part.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nacre.inspect.analysis.lesion import Lesion, lesioned
from nacre.inspect.analysis.rerun import Rerun, metric_of_samples
from nacre.inspect.recording.hooks import layers_of
from nacre.inspect.recording.recording import Recording
from nacre.layer.attention import NAC
from nacre.layer.trace import BACKBONE

Call = tuple[tuple[Any, ...], dict[str, Any]]


class LesionedHeads:
    """Makes lesions in one layer of a model, and gives the answers.

    Args:
        recording: Where the samples are.
        reruns: The samples; all of them have the same model, which is changed for a moment and then put right.
        name: Name of the layer.
    """

    def __init__(self, recording: Recording, reruns: Sequence[Rerun], name: str) -> None:
        self._reruns, self._name, self._model = reruns, name, reruns[0].model
        self._layer = layers_of(self._model)[name]
        # What a second call of the layer is given depends on the first: then there is no short cut.
        self._twice = f"{name}#2" in recording.layers

    def answers(self, lesions: Mapping[int, Lesion]) -> Iterator[tuple[int, float, list[Tensor]]]:
        """Make lesions one at a time.

        Args:
            lesions: Number -> lesion of this layer.

        Yields:
            Number, the task's figure and the answers [T or 1, O] to each sample, in any order of the lesions.
        """
        if self._twice:
            yield from ((i, *metric_of_samples(self._reruns, [lesion])) for i, lesion in lesions.items())
            return
        together: dict[Lesion, dict[int, int | None]] = {}
        for i, lesion in lesions.items():
            self._check(lesion)
            shared = self._layer.config.share_backbone and lesion.group in BACKBONE
            everywhere = replace(lesion, head=None, layer=None)
            together.setdefault(everywhere, {})[i] = None if shared else lesion.head
        calls = self._calls()
        heads = _with_map(self._layer, 1.0, 0.0)  # gives what they attended to, side by side [B, T, H * D]
        intact = _outputs(heads, calls)
        filled = [x != 0 for x in _outputs(_with_map(self._layer, 0.0, 1.0), calls)]
        for everywhere, wanted in together.items():
            silent = _outputs(lesioned(heads, [everywhere]), calls)
            for i, head in wanted.items():
                mixed = [self._mix(*parts, head) for parts in zip(intact, silent, filled, strict=True)]
                yield (i, *self._play(mixed))

    def _check(self, lesion: Lesion) -> None:
        heads = self._layer.config.num_heads
        if lesion.head is not None and not 0 <= lesion.head < heads:
            raise ValueError(f"head must be from 0 to {heads - 1}, got {lesion.head}")

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
        """The figure and the answers when the layer gives these outputs, run by run."""
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
    """Gives outputs that are known already, one after the other."""

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
    """A copy of a layer whose output map is this number times what comes, plus a constant; exact for 0 and 1."""
    layer = copy.deepcopy(layer)
    width, old = layer.config.d_model, layer.out_proj.weight
    layer.out_proj = nn.Linear(width, width, device=old.device, dtype=old.dtype)
    layer.out_proj.weight.copy_(scale * torch.eye(width))
    layer.out_proj.bias.fill_(shift)
    return layer
