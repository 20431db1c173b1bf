"""The options of a NAC layer, checked once."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypedDict

from nacre._util.checks import choice, did_you_mean, flag, real, whole
from nacre.layer.dynamics import Mode
from nacre.native.activations import ACTIVATIONS
from nacre.wiring.builders import DEFAULT_SEED, MAX_SPARSITY, WiringKind, default_backbone_units
from nacre.wiring.wiring import Wiring


class Phi(StrEnum):
    """Range of the content target phi."""

    SIGMOID = "sigmoid"
    TANH = "tanh"
    LINEAR = "linear"


class Selection(StrEnum):
    """How the keys of a query are chosen."""

    SQRT = "sqrt"
    """Best blocks of about sqrt(S) keys, then best keys (the paper's Algorithm 2)."""
    EXACT = "exact"
    """Best keys among all."""


class Match(StrEnum):
    """What acts on the content target directly, beside the circuit."""

    NONE = "none"
    """Nothing: the paper's layer, whose choice of keys no gradient reaches."""
    CONTENT = "content"
    """How alike query and key are."""
    BOTH = "both"
    """How alike they are, and whether the time between them is what the query looks for."""


_INTEGERS = {"d_model": 2, "num_heads": 1, "euler_steps": 1, "seed": 0}  # and the least value of each
_INTEGERS_OR_NONE = {"d_input": 1, "top_k": 1, "block_size": 1, "reach": 1, "settle_steps": 1, "backbone_units": 5}
# Every query has top_k columns, be there keys for them or not, and every settle step its rows in a program.
_LARGEST: dict[str, int] = {"top_k": 2**20, "settle_steps": 1024}
_CHOICES = {"mode": Mode, "phi": Phi, "selection": Selection, "match": Match, "activation": ACTIVATIONS}


class RareOptions(TypedDict, total=False):
    """Rarely used options of `NAC`; see `NACConfig` for their meaning."""

    phi: str
    selection: str
    block_size: int | None
    reach: int | None
    match: str
    gain: float
    euler_steps: int
    settle_steps: int | None
    activation: str
    omega_min: float
    integrate: bool
    share_backbone: bool
    backbone_units: int | None
    time_scale: float
    seed: int
    bias: bool


@dataclass(frozen=True, kw_only=True)
class NACConfig:
    """All options of a `NAC` layer; those from `d_model` to `dropout` are explained there.

    Attributes:
        phi: Range of the content target: "sigmoid", "tanh" or "linear".
        selection: How the keys of a query are chosen: "sqrt" (blocks of neighbours) or "exact" (compares all).
        block_size: Keys in a block of "sqrt"; None for floor(sqrt(S)), where a row has S valid keys, and for 64 in
            causal layers.
        reach: Keys with which "sqrt" compares a query, in whole blocks; None for as few blocks as hold
            `top_k` keys, as in the paper.
        match: Synapses by which query and key act on the content target directly: "none" (the paper), "content" or
            "both" (content and elapsed time). Keys are then chosen by their strength, which learns.
        gain: Initial strength of these synapses, > 0.
        euler_steps: Least number of steps of mode "euler".
        settle_steps: Steps in which the backbone settles; None for max(4, what the wiring needs).
        activation: Nonlinearity of all neurons.
        omega_min: Smallest decay rate.
        integrate: Whether values are weighted with the internal time t (the paper's integral).
        share_backbone: One circuit for all heads instead of one each.
        backbone_units: Neurons of a generated backbone; None for the paper's d_model + floor(d_model / 0.6).
        time_scale: Time stamps are divided by this; choose about the typical time between related events.
        seed: Seed of generated wirings. Weights come from torch's global generator.
        bias: Whether neurons, gates and output have additive constants.
    """

    d_model: int
    num_heads: int
    d_input: int | None = None
    top_k: int | None = 8
    mode: str = "exact"
    sparsity: float = 0.5
    wiring: str | Wiring = "ncp"
    causal: bool = False
    dropout: float = 0.0
    phi: str = "sigmoid"
    selection: str = "sqrt"
    block_size: int | None = None
    reach: int | None = None
    match: str = "none"
    gain: float = 8.0
    euler_steps: int = 6
    settle_steps: int | None = None
    activation: str = "tanh"
    omega_min: float = 1e-3
    integrate: bool = True
    share_backbone: bool = False
    backbone_units: int | None = None
    time_scale: float = 1.0
    seed: int = DEFAULT_SEED
    bias: bool = True

    def __post_init__(self) -> None:
        """Check every option, and how they fit together."""
        for name, least in _INTEGERS.items():
            whole(name, getattr(self, name), least)
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model must be a multiple of num_heads, got d_model={self.d_model}, num_heads={self.num_heads}"
            )
        for name, least in _INTEGERS_OR_NONE.items():
            if (value := getattr(self, name)) is not None:
                whole(name, value, least, _LARGEST.get(name, sys.maxsize))
        for name, allowed in _CHOICES.items():
            choice(name, getattr(self, name), allowed)
        for name in ("causal", "integrate", "share_backbone", "bias"):
            flag(name, getattr(self, name))
        for name, high in (("sparsity", MAX_SPARSITY), ("dropout", 1.0)):
            object.__setattr__(self, name, real(name, getattr(self, name), 0.0, high))
        for name in ("gain", "omega_min", "time_scale"):
            object.__setattr__(self, name, real(name, getattr(self, name), 0.0, math.inf, open_low=True))
        if isinstance(self.wiring, str):
            choice("wiring", self.wiring, WiringKind)
        else:
            self._adopt_wiring()

    def _adopt_wiring(self) -> None:
        """Convert a wiring that the user gave, and check that it fits the layer."""
        inputs = 2 * self.d_head
        wiring = self.wiring
        if not isinstance(wiring, Wiring):
            if not hasattr(wiring, "adjacency_matrix"):
                kinds = ", ".join(repr(str(k)) for k in WiringKind)
                raise TypeError(
                    f"wiring must be one of {kinds}, a nacre.Wiring or an ncps wiring, got {type(wiring).__name__}"
                )
            wiring = Wiring.from_ncps(wiring, inputs)
            object.__setattr__(self, "wiring", wiring)
        if wiring.num_inputs != inputs or len(wiring.group("motor")) != 2:
            raise ValueError(
                f"wiring must have {inputs} inputs (query and key of one head, 2 * d_model / num_heads) and "
                f"2 motor neurons (phi and omega), got {wiring}"
            )
        if self.backbone_units is not None:
            raise ValueError("backbone_units belongs to a generated wiring; the given one has its own size")

    @property
    def d_head(self) -> int:
        """Width D of a head."""
        return self.d_model // self.num_heads

    @property
    def width(self) -> int:
        """Width of the inputs."""
        return self.d_model if self.d_input is None else self.d_input

    @property
    def units(self) -> int:
        """Neurons of a generated backbone."""
        return default_backbone_units(self.d_model) if self.backbone_units is None else self.backbone_units

    @property
    def uses_time_gate(self) -> bool:
        """Whether the layer has a time gate: steady logits without integration never use t."""
        return self.integrate or self.mode != Mode.STEADY

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if isinstance(self.wiring, Wiring):
            values["wiring"] = self.wiring.to_dict()
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NACConfig:
        """Inverse of `to_dict`."""
        values = dict(values)
        if values.get("selection") == "cluster":
            raise ValueError(
                "it was saved with selection='cluster', which nacre no longer has; "
                "train it again with selection='sqrt' and reach=256"
            )
        if isinstance(values.get("wiring"), dict):
            values["wiring"] = Wiring.from_dict(values["wiring"])
        return cls(**values)


def refuse_unknown(options: Mapping[str, object]) -> None:
    """Refuse keywords of `NAC` that are no option."""
    known = list(RareOptions.__annotations__)
    for name in options:
        if name not in known:
            hint = did_you_mean(name, [*known, "top_k", "mode", "sparsity", "wiring", "causal"])
            raise TypeError(f"NAC has no option {name!r}{hint}; further options are {', '.join(known)}")
