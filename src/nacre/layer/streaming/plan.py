"""`step_by_kernel`: a streamed step by one call of a kernel, for which a layer is laid out once.

A plan is kept as long as nothing of the layer changes, so that a step costs little beside the step itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from nacre.layer.clock import clock_periods
from nacre.layer.config import Match, Selection
from nacre.layer.pair_stage import pair_options
from nacre.native import library
from nacre.native.activations import ACTIVATIONS
from nacre.native.selection import MOST_KEYS
from nacre.native.step import Refusal, StepPlan, StepWeights, run_step

if TYPE_CHECKING:
    from nacre.layer.attention import NAC
    from nacre.layer.streaming.state import StreamState


@dataclass(frozen=True)
class _Kept:
    """A plan, and what must still be so for it to hold."""

    plan: StepPlan | None  # None if the kernel cannot do it
    config: object
    members: Sequence[tuple[Mapping[str, object], str, object]]  # where each submodule and parameter was found
    versions: Sequence[tuple[Tensor, int, int]]  # of each parameter, with where its numbers are
    hooks: Sequence[Mapping[int, object]]  # which must be empty

    def holds(self, layer: NAC) -> bool:
        return (
            layer.config is self.config
            and all(found.get(name) is member for found, name, member in self.members)
            and all(x._version == version and x.data_ptr() == place for x, version, place in self.versions)
            and not any(self.hooks)
        )


_KEPT: WeakKeyDictionary[NAC, _Kept] = WeakKeyDictionary()


def step_by_kernel(
    layer: NAC, x: Tensor, state: StreamState, time: Tensor | None
) -> tuple[Tensor, StreamState] | None:
    """What `NAC.step` gives; None, with nothing written, where PyTorch must take the step or refuse it."""
    if not library.runs(x, state.key) or not all(part.is_contiguous() for part in state):
        return None
    if layer.training and layer.config.dropout:
        return None
    stamps = None if time is None else time.double().contiguous()
    for _ in range(2):  # again if the weights have changed in a way that only the kernel sees
        kept = _KEPT.get(layer)
        if kept is None or not kept.holds(layer):
            kept = _KEPT[layer] = _keep(layer)
        if kept.plan is None or not _fits(state, kept.plan):
            return None
        refusal, y = run_step(kept.plan, state._asdict(), x.contiguous(), stamps)
        if refusal == Refusal.FINE:
            return y, state._replace(length=state.length + 1)
        del _KEPT[layer]
    return None


def _fits(state: StreamState, plan: StepPlan) -> bool:
    """Whether all tensors of a state are as the kernel takes them: one from a file may be anything."""
    if state.stamp.dim() != 3 or state.limit.numel() != 1:
        return False
    batch, blocks, size = state.stamp.shape
    width, match = plan.pairs.value_width, plan.pairs.match_width
    ring = (batch, plan.heads, blocks, size)
    numbers = (state.key, state.value, state.offered, state.centroid, state.owner)
    return (
        state.key.shape == state.value.shape == (*ring, width)
        and state.offered.shape == (*ring, match)
        and state.centroid.shape == (*ring[:3], match or width)
        and state.origin.shape == state.length.shape == (batch,)
        and state.owner.shape == plan.laid_owner.shape
        and all(part.dtype == plan.laid_owner.dtype and part.device.type == "cpu" for part in numbers)
        and state.stamp.dtype == state.origin.dtype == torch.float64
        and state.length.dtype == torch.int64
    )


def _keep(layer: NAC) -> _Kept:
    modules = list(layer.modules())
    tables: list[Mapping[str, object]] = [table for m in modules for table in (m._modules, m._parameters)]
    members = [(table, name, member) for table in tables for name, member in table.items()]
    parameters = list(layer.parameters())
    hooks = [found for m in modules if m is not layer for found in (m._forward_hooks, m._forward_pre_hooks)]
    can = _has_kernel(layer, modules, parameters) and not any(hooks)
    versions = [(x, x._version, x.data_ptr()) for x in parameters] if can else []
    return _Kept(_lay_out(layer) if can else None, layer.config, members, versions, hooks)


def _has_kernel(layer: NAC, modules: list[nn.Module], parameters: list[nn.Parameter]) -> bool:
    """Whether the kernel knows all that the layer does; subclasses may do more."""
    config = layer.config
    return (
        config.top_k is not None
        and config.top_k <= MOST_KEYS
        and config.selection == Selection.SQRT
        and config.match != Match.BOTH
        and layer.backbone.circuit.has_kernel
        and ACTIVATIONS[layer.query_gate.activation].code is not None
        and all(type(m).__module__.startswith(("nacre.layer.", "torch.nn.modules.")) for m in modules)
        and library.runs(*parameters)
        and not any(x.is_inference() for x in parameters)  # which do not count their changes
    )


@torch.no_grad()
def _lay_out(layer: NAC) -> StepPlan:
    config, backbone, wired, width = layer.config, layer.backbone, layer.backbone.wire(), layer.config.d_head
    gates = (layer.query_gate, layer.key_gate, layer.value_gate)
    laid = [gate.laid_out() for gate in gates]
    sensory, bias, scale, shift = (torch.cat(parts, -1).contiguous() for parts in zip(*laid, strict=True))
    motor_scale, motor_shift = wired.output_map()
    time_gate, out = layer.time_gate, layer.out_proj
    weights = StepWeights(
        sensory=sensory,
        sensory_bias=bias,
        sensory_scale=scale,
        sensory_shift=shift,
        by_query=wired.input_weight[:, :width].contiguous(),
        by_key=wired.input_weight[:, width : 2 * width].contiguous(),
        drive_bias=wired.bias[:, backbone.pick_projected].contiguous(),
        gain=None if layer.match is None else layer.match.gain[0].contiguous(),
        time_weight=None if time_gate is None else time_gate.weight.detach().clone(),
        time_bias=None if time_gate is None else _or_zeros(time_gate.bias, time_gate.weight[:, 0]),
        out_weight=out.weight.detach().T.contiguous(),
        out_bias=_or_zeros(out.bias, out.weight[:, 0]),
        periods=torch.tensor(clock_periods(config.clock), dtype=torch.float64),
    )
    return StepPlan(
        weights=weights,
        circuit=backbone.circuit,
        synapses=wired.synapses().contiguous(),
        constant=wired.bias.contiguous(),
        scale=motor_scale.detach().clone(),
        shift=motor_shift.detach().clone(),
        options=pair_options(config, matched=layer.match is not None, timed=time_gate is not None),
        heads=config.num_heads,
        selected=config.top_k or 0,
        near=config.near,
        reach=config.reach or 0,
        activation=_code(layer.query_gate.activation),
        owner=layer.owners(),
        laid_owner=torch.cat([x.detach().flatten()[:4] for x in layer.owners()]),
    )


def _code(activation: str) -> int:
    code = ACTIVATIONS[activation].code
    assert code is not None  # `_has_kernel` has seen to that
    return code


def _or_zeros(bias: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like).contiguous() if bias is None else bias.detach().clone()
