"""`attend`: the pair stage of a layer, by the compiled kernel where it can run and in PyTorch elsewhere."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from nacre.layer.backbone import WiredBackbone
from nacre.layer.clock import clock_states
from nacre.layer.config import Match, NACConfig
from nacre.layer.dynamics import LONGEST
from nacre.layer.pairs import (
    Gates,
    Tokens,
    Watch,
    attend_in_torch,
    mix,
    pair_gates,
    query_chunks,
    shares,
    take_rows,
)
from nacre.native.pairs import (
    MODE_CODES,
    PHI_CODES,
    FixedInputs,
    LearnedInputs,
    PairOptions,
    PairStage,
    Seen,
    attend_seen,
    attend_selected,
    can_attend,
)
from nacre.native.program import evaluate


def attend(
    tokens: Tokens, wired: WiredBackbone, config: NACConfig, dropout: float, watch: Watch | None = None
) -> Tensor:
    """Attended values [R, H, D]. A watch changes no bit of them.

    Neither path stores the neurons of all pairs: both compute them again in the backward pass.
    """
    if not torch.compiler.is_compiling():
        learned, stage = kernel_inputs(tokens, wired, config, dropout)
        if can_attend(learned, stage):
            if watch is not None:
                return _attend_watched(learned, stage, wired, config, watch)
            return attend_selected(learned, stage)
    return attend_in_torch(tokens, wired, config, dropout, watch)


def kernel_inputs(
    tokens: Tokens, wired: WiredBackbone, config: NACConfig, dropout: float
) -> tuple[LearnedInputs, PairStage]:
    """The pair stage as the compiled kernel takes it."""
    scale, shift = wired.output_map()
    learned = LearnedInputs(
        query=tokens.query_drive,
        key=tokens.key_drive,
        value=tokens.value,
        query_gate=tokens.query_gate,
        key_gate=tokens.key_gate,
        asked=tokens.asked,
        offered=tokens.offered,
        weight=wired.synapses(),
        constant=wired.bias,
        scale=scale,
        shift=shift,
    )
    dtype, timed = tokens.query_drive.dtype, tokens.query_gate is not None
    moments = (tokens.query_moment, tokens.key_moment)
    phases = [None if x is None else clock_states(x, config.clock, dtype) for x in moments]
    keep = nn.functional.dropout(learned.query.new_ones(tokens.index.shape), dropout) if dropout else None
    stamps = (tokens.query_stamp, tokens.key_stamp) if timed else (None, None)
    fixed = FixedInputs(stamps[0], stamps[1], phases[0], phases[1], tokens.index, tokens.valid, keep)
    options = pair_options(config, matched=tokens.asked is not None, timed=timed)
    slowly = partial(_attend_slowly, wired=wired, config=config)
    return learned, PairStage(wired.backbone.circuit, options, fixed, slowly)


def pair_options(config: NACConfig, *, matched: bool, timed: bool) -> PairOptions:
    """Options of a layer as the kernel takes them."""
    return PairOptions(
        phi=PHI_CODES[config.phi],
        mode=MODE_CODES[config.mode],
        match=0 if not matched else 2 if config.match == Match.START else 1,
        euler_steps=config.euler_steps,
        integrate=config.integrate and timed,
        omega_min=config.omega_min,
        time_scale=config.time_scale,
        longest=LONGEST,
    )


def _attend_slowly(
    learned: LearnedInputs, fixed: FixedInputs, wired: WiredBackbone, config: NACConfig
) -> tuple[Tensor, Seen]:
    """What the kernel computes, in PyTorch."""
    tokens = Tokens(
        query_drive=learned.query,
        key_drive=learned.key,
        value=learned.value,
        query_gate=learned.query_gate,
        key_gate=learned.key_gate,
        query_stamp=fixed.query_stamp,
        key_stamp=fixed.key_stamp,
        query_moment=None,
        key_moment=None,
        asked=learned.asked,
        offered=learned.offered,
        index=fixed.index,
        valid=fixed.valid,
    )
    everything, circuit = slice(None), wired.backbone.circuit
    clock = _clock_of_phases(fixed)
    drive = learned.query.unsqueeze(2) + take_rows(learned.key, fixed.index)  # [H, R, K, P]
    states = evaluate(circuit.program, circuit.activation, drive, clock, learned.weight, learned.constant)
    scale, shift = (x.T.reshape(x.shape[1], -1, 1, 1) for x in (learned.scale, learned.shift))
    gates = pair_gates(tokens, states[-len(scale) :] * scale + shift, clock, config, everything)
    share = shares(gates, config, 0.0)
    out = mix(share if fixed.keep is None else share * fixed.keep, learned.value, fixed.index)
    nothing = torch.zeros_like(gates.phi)
    seen = Seen(
        phi=gates.phi,
        omega=gates.omega,
        t=nothing if gates.t is None else gates.t,
        logits=gates.logits,
        weights=gates.weights,
        match=nothing if gates.match is None else gates.match,
        effect=nothing + 1 if gates.effect is None else gates.effect,
        clock=nothing[..., None][..., :0] if clock is None else clock,
        states=states,
    )
    return out, seen


def _clock_of_phases(fixed: FixedInputs) -> Tensor | None:
    """Clock neurons [H, R, K, 2 scales] of pairs: cosine and sine of the differences of their phases."""
    if fixed.query_phase is None or fixed.key_phase is None:
        return None
    cos_now, sin_now = fixed.query_phase[:, None].chunk(2, -1)  # [R, 1, scales]
    key_phase = fixed.key_phase.expand(len(fixed.index), *fixed.key_phase.shape[-2:])
    cos_then, sin_then = take_rows(key_phase, fixed.index).chunk(2, -1)  # [H, R, K, scales]
    return torch.cat([cos_now * cos_then + sin_now * sin_then, sin_now * cos_then - cos_now * sin_then], -1)


def _attend_watched(
    learned: LearnedInputs, stage: PairStage, wired: WiredBackbone, config: NACConfig, watch: Watch
) -> Tensor:
    """Attended values, with the gates and neurons of the same pass shown to a watch, in chunks of queries."""
    backbone, fixed = wired.backbone, stage.fixed
    timed, matched = learned.query_gate is not None, learned.asked is not None
    parts = []
    for some in query_chunks(fixed.index, len(backbone.circuit.program.kind)):
        here = replace(
            fixed,
            query_stamp=None if fixed.query_stamp is None else fixed.query_stamp[some],
            query_phase=None if fixed.query_phase is None else fixed.query_phase[some],
            index=fixed.index[:, some],
            valid=fixed.valid[:, some],
            keep=None if fixed.keep is None else fixed.keep[:, some],
        )
        part = replace(
            learned,
            query=learned.query[:, some],
            query_gate=None if learned.query_gate is None else learned.query_gate[..., some],
            asked=None if learned.asked is None else learned.asked[some],
        )
        out, seen = attend_seen(part, replace(stage, fixed=here))
        gates = Gates(
            phi=seen.phi,
            omega=seen.omega,
            t=seen.t if timed else None,
            logits=seen.logits,
            weights=seen.weights,
            match=seen.match if matched else None,
            effect=seen.effect if config.inhibition else None,
            clock=seen.clock if config.clock else None,
        )
        states = seen.states[list(backbone.last_rows.values())].flatten(2).movedim(0, -1)  # [H, C * K, n]
        watch(some, gates, {tuple(backbone.last_rows): states})
        parts.append(out)
    return torch.cat(parts)
