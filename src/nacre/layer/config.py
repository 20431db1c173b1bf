"""The options of a NAC layer, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, TypedDict

from nacre._util.checks import choice, did_you_mean
from nacre._util.options import Flag, Integer, Number, OneOf, check_options
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
    """How the likeness of query and key acts on a logit, beside the circuit."""

    NONE = "none"
    """Not at all: the paper's layer, whose choice of keys no gradient reaches."""
    START = "start"
    """It is where the logit starts, a(0)."""
    CONTENT = "content"
    """It is added to the content target phi."""
    BOTH = "both"
    """It is added to phi, and so is whether the time between them is what the query looks for."""


class RareOptions(TypedDict, total=False):
    """Rarely used options of `NAC`, as its keywords; `NACConfig` declares what they are."""

    phi: str
    selection: str
    block_size: int | None
    reach: int | None
    near: int
    match: str
    gain: float
    clock: int
    euler_steps: int
    settle_steps: int | None
    activation: str
    sensory_activation: str | None
    omega_min: float
    integrate: bool
    inhibition: bool
    share_backbone: bool
    backbone_units: int | None
    time_scale: float
    seed: int
    bias: bool


@dataclass(frozen=True, kw_only=True)
class NACConfig:
    """All options of a `NAC` layer; those from `d_model` to `dropout` are explained there.

    Each option is declared here, with its type, check, default and meaning; `RareOptions` names those that `NAC`
    takes as further keywords.
    """

    d_model: Annotated[int, Integer(2)]
    num_heads: Annotated[int, Integer(1)]
    d_input: Annotated[int | None, Integer(1)] = None
    top_k: Annotated[int | None, Integer(1, 2**20)] = 8  # every query has so many columns, be there keys or not
    mode: Annotated[str, OneOf(Mode)] = "exact"
    sparsity: Annotated[float, Number(0.0, MAX_SPARSITY)] = 0.5
    wiring: str | Wiring = "ncp"
    causal: Annotated[bool, Flag()] = False
    dropout: Annotated[float, Number(0.0, 1.0)] = 0.0
    phi: Annotated[str, OneOf(Phi)] = "sigmoid"
    """Range of the content target: "sigmoid", "tanh" or "linear"."""
    selection: Annotated[str, OneOf(Selection)] = "sqrt"
    """How the keys of a query are chosen: "sqrt" (blocks of neighbours) or "exact" (compares all)."""
    block_size: Annotated[int | None, Integer(1)] = None
    """Keys in a block of "sqrt"; None for floor(sqrt(S)), where a row has S valid keys, and for 64 in causal
    layers."""
    reach: Annotated[int | None, Integer(1)] = None
    """Keys with which "sqrt" compares a query, in whole blocks; None for as few blocks as hold `top_k` keys,
    as in the paper."""
    near: Annotated[int, Integer(0)] = 0
    """How many of a query's `top_k` keys are the nearest in time, whatever they hold; the others are the best
    matches. Without time stamps, the nearest by place. In causal layers, the latest."""
    match: Annotated[str, OneOf(Match)] = "none"
    """How the likeness of query and key acts on a logit directly: "none" (the paper), "start" (it is where the
    logit starts), "content" (it is added to phi) or "both" (likeness and elapsed time are added to phi). Keys
    are then chosen by it, and the choice learns."""
    gain: Annotated[float, Number(0.0, open_low=True)] = 8.0
    """Initial strength of the match, > 0."""
    clock: Annotated[int, Integer(0, 12)] = 0
    """Time scales of the clock neurons, by which the circuit knows the time from key to query: two neurons for
    each scale, its cosine and sine. 0 for none (the paper). Scales are 4 apart, with `time_scale` in the
    middle; without time stamps, the circuit is told how many valid steps lie between."""
    euler_steps: Annotated[int, Integer(1)] = 6
    """Least number of steps of mode "euler"."""
    settle_steps: Annotated[int | None, Integer(1, 1024)] = None  # each has its rows in a program
    """Steps in which the backbone settles; None for max(4, what the wiring needs)."""
    activation: Annotated[str, OneOf(ACTIVATIONS)] = "tanh"
    """Nonlinearity of the neurons."""
    sensory_activation: Annotated[str | None, OneOf(ACTIVATIONS)] = None
    """That of the sensory neurons; None for the same."""
    omega_min: Annotated[float, Number(0.0, open_low=True)] = 1e-3
    """Smallest decay rate."""
    integrate: Annotated[bool, Flag()] = True
    """Whether values are weighted with the internal time t (the paper's integral)."""
    inhibition: Annotated[bool, Flag()] = False
    """Whether a third motor neuron sets the effect 1 + m of each value: above 0 it excites, below 0 it inhibits.
    Attention weights alone can only excite."""
    share_backbone: Annotated[bool, Flag()] = False
    """One circuit for all heads instead of one each."""
    backbone_units: Annotated[int | None, Integer(5)] = None
    """Neurons of a generated backbone; None for the paper's d_model + floor(d_model / 0.6)."""
    time_scale: Annotated[float, Number(0.0, open_low=True)] = 1.0
    """Time stamps are divided by this; choose about the typical time between related events."""
    seed: Annotated[int, Integer(0)] = DEFAULT_SEED
    """Seed of generated wirings. Weights come from torch's global generator."""
    bias: Annotated[bool, Flag()] = True
    """Whether neurons, gates and output have additive constants."""

    def __post_init__(self) -> None:
        """Check every option, and how they fit together."""
        check_options(self)
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model must be a multiple of num_heads, got d_model={self.d_model}, num_heads={self.num_heads}"
            )
        if self.top_k is not None and self.near > self.top_k:
            raise ValueError(f"near must be at most top_k={self.top_k}, of which it is a part, got {self.near}")
        if self.match == Match.START and self.mode == Mode.STEADY:
            raise ValueError("match='start' needs mode 'exact' or 'euler': a steady logit has forgotten its start")
        if isinstance(self.wiring, str):
            choice("wiring", self.wiring, WiringKind)
        else:
            self._adopt_wiring()

    def _adopt_wiring(self) -> None:
        """Convert a wiring that the user gave, and check that it fits the layer."""
        inputs = self.circuit_inputs
        wiring = self.wiring
        if not isinstance(wiring, Wiring):
            if not hasattr(wiring, "adjacency_matrix"):
                kinds = ", ".join(repr(str(k)) for k in WiringKind)
                raise TypeError(
                    f"wiring must be one of {kinds}, a nacre.Wiring or an ncps wiring, got {type(wiring).__name__}"
                )
            wiring = Wiring.from_ncps(wiring, inputs)
            object.__setattr__(self, "wiring", wiring)
        if wiring.num_inputs != inputs or len(wiring.group("motor")) != self.motors:
            clock = f" and {2 * self.clock} clock neurons" if self.clock else ""
            motors = (
                "3 motor neurons (phi, omega and effect)" if self.inhibition else "2 motor neurons (phi and omega)"
            )
            raise ValueError(
                f"wiring must have {inputs} inputs (query and key of one head, 2 * d_model / num_heads{clock}) "
                f"and {motors}, got {wiring}"
            )
        if self.backbone_units is not None:
            raise ValueError("backbone_units belongs to a generated wiring; the given one has its own size")

    @property
    def d_head(self) -> int:
        """Width D of a head."""
        return self.d_model // self.num_heads

    @property
    def circuit_inputs(self) -> int:
        """Inputs of the circuit: sensory neurons of query and key, and clock neurons."""
        return 2 * self.d_head + 2 * self.clock

    @property
    def motors(self) -> int:
        """Motor neurons of the circuit: of phi, of omega, and of the effect where the layer inhibits."""
        return 3 if self.inhibition else 2

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
