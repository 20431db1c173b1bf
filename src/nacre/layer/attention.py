"""`NAC`: the Neuronal Attention Circuit as a layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from nacre._util.tracing import values_are_hidden
from nacre.io import saveable
from nacre.layer.backbone import Backbone, WiredBackbone
from nacre.layer.clock import clock_stamps, since_first
from nacre.layer.config import Match, NACConfig, RareOptions, refuse_unknown
from nacre.layer.foreign import ARGUMENTS, OPTIONS, explain
from nacre.layer.gates import TimeGateHeads
from nacre.layer.inputs import Inputs, Packing, prepare
from nacre.layer.match import MatchSynapse
from nacre.layer.pair_stage import attend
from nacre.layer.pairs import Tokens
from nacre.layer.selection.choose import choose_keys
from nacre.layer.sensory import SensoryGate
from nacre.layer.streaming import state as streaming
from nacre.layer.streaming.plan import step_by_kernel
from nacre.layer.streaming.state import StreamState
from nacre.layer.synapses import Factory
from nacre.layer.trace import Observer, Scene, Trace, TraceBuilder
from nacre.wiring.builders import WiringKind, backbone_wiring, sensory_wiring
from nacre.wiring.wiring import Wiring

EFFECT_START = 0.1  # how far effects lie from 1 in a new layer, at most


@saveable("NAC")
class NAC(nn.Module):
    """Attention whose logits are solutions of da/dt = -omega a + phi, with gates from a neuronal circuit.

    Queries, keys and values come from sensory neurons; for each selected query-key pair a circuit of inter,
    command and motor neurons settles and gives the content target phi and the decay rate omega; the internal
    time t = sigmoid(-t_a |t_query - t_key| + t_b) says how far the logit has come, and weights the value.

    Args:
        d_model: Width of the output, at least 2 and a multiple of `num_heads`.
        num_heads: Number of heads.
        d_input: Width of the inputs; None for `d_model`.
        top_k: Keys a query attends to; None for all.
        mode: "exact", "euler" or "steady" solution of the logit's equation.
        sparsity: Nominal share of synapses left out, 0 to 0.95; `Wiring.density` gives the real one.
        wiring: "ncp", "random", "dense", "mlp", or a backbone of your own (`nacre.Wiring` or `ncps`) with
            2 * d_model / num_heads inputs (and 2 for each scale of `clock`) and 2 motor neurons (3 with
            `inhibition`); sensory gates are then "ncp".
        causal: Whether a query sees only keys up to itself.
        dropout: Share of attention weights dropped in training.
        **rare: Further options, see `NACConfig`.

    Example:
        >>> layer = NAC(d_model=64, num_heads=4)
        >>> x, t = torch.randn(2, 100, 64), torch.rand(2, 100).cumsum(1)
        >>> layer(x, time=t).shape
        torch.Size([2, 100, 64])
    """

    aux_loss = None  # models may add to the loss; this one adds nothing
    takes_key_only = True  # it saves time where not all answers are read
    observer: Observer | None = None
    """Sees every forward pass without changing it; set by `nacre.inspect` while it records."""

    @explain(OPTIONS)
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_input: int | None = None,
        top_k: int | None = 8,
        mode: str = "exact",
        sparsity: float = 0.5,
        wiring: str | Wiring | Any = "ncp",  # noqa: ANN401  Any: a wiring of ncps, which has no types
        causal: bool = False,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **rare: Unpack[RareOptions],
    ) -> None:
        super().__init__()
        refuse_unknown(rare)
        self.config = config = NACConfig(
            d_model=d_model,
            num_heads=num_heads,
            d_input=d_input,
            top_k=top_k,
            mode=mode,
            sparsity=sparsity,
            wiring=wiring,
            causal=causal,
            dropout=dropout,
            **rare,
        )
        if isinstance(config.wiring, Wiring):
            kind, backbone = str(WiringKind.NCP), config.wiring
        else:
            kind = config.wiring
            backbone = backbone_wiring(
                kind, config.circuit_inputs, config.units, config.sparsity, config.seed, config.motors
            )
        sensory = sensory_wiring(kind, config.width, d_model, config.sparsity, config.seed)
        self._build(sensory, backbone, device=device, dtype=dtype)

    def _build(self, sensory: Wiring, backbone: Wiring, **factory: Unpack[Factory]) -> None:
        config, bias = self.config, self.config.bias
        heads, width = config.num_heads, config.d_head

        def gate() -> SensoryGate:
            activation = config.sensory_activation or config.activation
            return SensoryGate(sensory, activation=activation, bias=bias, **factory)

        self.query_gate, self.key_gate, self.value_gate = gate(), gate(), gate()
        self.backbone = Backbone(
            backbone,
            1 if config.share_backbone else heads,
            clock=2 * config.clock,
            settle_steps=config.settle_steps,
            activation=config.activation,
            bias=bias,
            **factory,
        )
        self.time_gate = self.match = None
        if config.uses_time_gate:
            self.time_gate = TimeGateHeads(heads, width, bias=bias, **factory)
        if config.match != Match.NONE:
            self.match = MatchSynapse(heads, width, config.match, config.gain, bias=bias, **factory)
        self.out_proj = nn.Linear(config.d_model, config.d_model, bias=bias, **factory)
        self._soften_effects()

    def reset_parameters(self) -> None:
        """Draw new weights from torch's global generator."""
        for part in (self.query_gate, self.key_gate, self.value_gate, self.backbone, self.out_proj):
            part.reset_parameters()
        for part in (self.time_gate, self.match):
            if part is not None:
                part.reset_parameters()
        self._soften_effects()

    def _soften_effects(self) -> None:
        """Let effects begin near 1 for all pairs: others are noise on the values, and slow learning down."""
        if self.config.inhibition:
            nn.init.constant_(self.backbone.weights.output_scale[:, 2], EFFECT_START)

    @explain(ARGUMENTS)
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        time: Tensor | None = None,
        key_time: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        query_only: Tensor | None = None,
        key_only: Tensor | None = None,
        causal: bool | None = None,
        return_trace: bool = False,
    ) -> Tensor | tuple[Tensor, Trace]:
        """Attend: `layer(x, time, key_padding_mask)`, or `layer(q, k, v, time=..., key_time=...)`.

        Args:
            query: [B, T, d_input]; alone, it is also key and value (self attention).
            key: [B, S, d_input] for cross attention. In self attention, `time` may have its place: that is the
                order in which all models are called.
            value: [B, S, d_input], together with `key`. In self attention, `key_padding_mask` may have its place.
            time: [B, T] time stamps of the queries in any unit, or [T] for all rows; only differences matter.
                None: elapsed time 1.
            key_time: [B, S] or [S] stamps of the keys, for cross attention.
            key_padding_mask: [B, S] bool, True = padding: never attended, whatever it holds.
            query_only: [B, T] bool, in self attention with `time`: steps that ask but are never attended to, such
                as moments whose value is wanted.
            key_only: [B, T] bool, in self attention: steps that are attended to but not answered, which saves
                time where only some answers are read; their outputs are zeros.
            causal: Whether a query sees only keys up to itself in this call; None: as the layer was made.
            return_trace: Whether to return a `Trace` of every gate and neuron as well.

        Returns:
            [B, T, d_model]; zeros at queries that are padded, not answered, or without any valid key. With
            `return_trace`, a pair of that and the trace.
        """
        config = self.config
        if causal is not None and causal != config.causal:
            config = replace(config, causal=causal)
        masks = key_padding_mask, query_only, key_only
        inputs = prepare(config, self.out_proj.weight, query, key, value, time, key_time, *masks)
        if not return_trace:
            return self._attend(config, inputs, self.observer)
        builder = TraceBuilder(self.observer)
        return self._attend(config, inputs, builder), builder.trace()

    def _attend(self, config: NACConfig, inputs: Inputs, observer: Observer | None) -> Tensor:
        """Output [B, T, d_model], computed without padding."""
        # A compiled or vectorised program cannot have shapes that depend on data: it keeps the padding.
        whole = values_are_hidden()
        queries = Packing.of(inputs.query, None if whole else inputs.unanswered)
        keys = Packing.of(inputs.key, None if whole else inputs.key_padding)
        wired = self.backbone.wire()
        tokens, valid, index, (q, k, v) = self._tokens(config, wired, inputs, queries, keys)
        watch = None
        if observer is not None:
            stamps = None if inputs.stamps is None else inputs.stamps[0]
            observer.begin(Scene(queries, index, valid, q, k, v, stamps, self.backbone.wiring))
            watch = observer.see
        heads = attend(tokens, wired, config, config.dropout if self.training else 0.0, watch)
        y = queries.unpack(self.out_proj(heads.flatten(1)))
        empty = ~valid.any(-1).any(1)  # [B, T] no key at all: padding, and queries that see nothing else
        return y.masked_fill(empty.unsqueeze(-1), 0)

    def init_state(self, batch_size: int, max_len: int = 4096, *, overflow: str = "error") -> StreamState:
        """An empty memory of `max_len` steps with which a causal layer runs step by step.

        After `max_len` steps, overflow "error" refuses the next step; "slide" goes on, remembers at least the last
        `max_len` steps, and forgets older ones, a block of keys at a time.
        """
        offered = 0 if self.match is None else self.match.width
        return streaming.new_state(self.config, self._owner(), batch_size, max_len, overflow, offered)

    @torch.no_grad()
    def step(self, x: Tensor, state: StreamState, *, time: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """Output [B, d_model] of the newest step, and the state for the next one.

        Equals the causal `forward`. Compares the newest step with the mean keys of max_len / block_size blocks,
        and with the keys of a few of them. Without gradients: train with `forward`.

        Args:
            x: [B, d_input] newest input of each stream.
            state: From `init_state` or the step before; its tensors are written to.
            time: [B] time stamps, never decreasing; at every step or at none.

        Example:
            >>> layer = NAC(d_model=64, num_heads=4, causal=True).eval()
            >>> state = layer.init_state(batch_size=2, max_len=1000)
            >>> y, state = layer.step(torch.randn(2, 64), state, time=torch.tensor([0.0, 0.3]))
            >>> y.shape
            torch.Size([2, 64])
        """
        config = self.config
        streaming.check_shapes(config, self.owners()[0], x, state, time)
        if (taken := step_by_kernel(self, x, state, time)) is not None:
            return taken
        if not torch.compiler.is_compiling():
            streaming.check_values(self._owner(), state, time)
        shape = (x.shape[0], config.num_heads, config.d_head)
        q, k, v = (gate(x).view(shape) for gate in (self.query_gate, self.key_gate, self.value_gate))
        asked = offered = None
        if self.match is not None:
            stamp = streaming.since_start(state, time, config.time_scale)
            asked, offered = self.match.asked(q, stamp), self.match.offered(k, stamp)
        state = streaming.push(state, k, v, offered, time)
        place, valid = streaming.select(state, q if asked is None else asked, config)
        # The chosen keys of all streams in one row, each head its own: [H, B * K, ...].
        k, v = (streaming.take(ring, place).transpose(0, 1).flatten(1, 2) for ring in (state.key, state.value))
        if offered is not None:
            offered = streaming.take(state.offered, place).transpose(1, 2).flatten(0, 1)  # [B * K, H, E]
        index = torch.arange(k.shape[1], device=k.device).view(1, x.shape[0], -1).expand(k.shape[0], -1, -1)
        wired = self.backbone.wire()
        tokens = self._pair_tokens(
            wired,
            (q.transpose(0, 1), k, v.transpose(0, 1)),
            (asked, offered),
            streaming.stamps(state, place, time),
            streaming.moments(state, place, time, config.time_scale) if config.clock else None,
            (index, valid.transpose(0, 1)),
        )
        heads = attend(tokens, wired, config, config.dropout if self.training else 0.0)
        return self.out_proj(heads.flatten(1)), state

    def _owner(self) -> Tensor:
        """A few numbers that identify the states of this layer."""
        return torch.cat([weight.detach().flatten()[:4] for weight in self.owners()])

    def owners(self) -> list[Tensor]:
        """The weights whose first numbers tell the states of this layer from those of others."""
        weights: list[Tensor] = [gate.weights.input_weight.weight for gate in (self.key_gate, self.value_gate)]
        return [*weights, *([] if self.match is None else self.match.parameters())]

    def _heads(self, x: Tensor) -> Tensor:
        """[B, T, H * D] -> [B, H, T, D]."""
        return x.unflatten(-1, (self.config.num_heads, -1)).transpose(1, 2)

    def _tokens(
        self, config: NACConfig, wired: WiredBackbone, inputs: Inputs, queries: Packing, keys: Packing
    ) -> tuple[Tokens, Tensor, Tensor, list[Tensor]]:
        """Tokens of the pair stage, valid and index [B, H, T, K], and q, k and v [B, H, T or S, D]."""
        q = self.query_gate(queries.pack(inputs.query))
        k, v = self.key_gate(keys.pack(inputs.key)), self.value_gate(keys.pack(inputs.value))
        apart = [self._heads(p.unpack(x)) for p, x in ((queries, q), (keys, k), (keys, v))]
        q, k, v = (x.unflatten(1, (config.num_heads, -1)) for x in (q, k, v))  # [N, H, D]
        asked, offered = self._match(inputs, queries, keys, q, k)
        compared = apart[:2]
        if asked is not None and offered is not None:
            compared = [self._heads(p.unpack(x.flatten(1))) for p, x in ((queries, asked), (keys, offered))]
        masks = inputs.key_padding, inputs.unanswered
        moments = None
        if config.clock or config.near:
            moments = clock_stamps(inputs, config.time_scale)
        index, valid = choose_keys(config, compared[0], compared[1], *masks, inputs.stamps, moments)
        first = torch.arange(keys.batch, device=index.device).view(-1, 1, 1, 1) * keys.length  # of each sequence
        tokens = self._pair_tokens(
            wired,
            (q.transpose(0, 1), k.transpose(0, 1), v),
            (asked, offered),
            None if inputs.stamps is None else (queries.pack(inputs.stamps[0]), keys.pack(inputs.stamps[1])),
            (queries.pack(moments[0]), keys.pack(moments[1])) if moments and config.clock else None,
            (keys.number(_head_first(index + first, queries)), _head_first(valid, queries)),
        )
        return tokens, valid, index, apart

    def _pair_tokens(
        self,
        wired: WiredBackbone,
        sensory: tuple[Tensor, Tensor, Tensor],  # [H, R, D], [H, S, D] and [S, H, D]
        match: tuple[Tensor | None, Tensor | None],  # [R, H, E] and [S, H, E]
        stamps: tuple[Tensor, Tensor] | None,  # [R] and [S], or of each head [H, S]
        moments: tuple[Tensor, Tensor] | None,  # likewise, for the clock
        chosen: tuple[Tensor, Tensor],  # index and valid, [H, R, K]
    ) -> Tokens:
        """What the pair stage needs, projected once for each token."""
        q, k, v = sensory
        query_drive, key_drive = wired.project(q, k)
        query_gate, key_gate = (None, None) if self.time_gate is None else self.time_gate(q, k)
        return Tokens(
            query_drive, key_drive, v, query_gate, key_gate,
            *(stamps or (None, None)), *(moments or (None, None)), *match, *chosen,
        )  # fmt: skip

    def _match(
        self, inputs: Inputs, queries: Packing, keys: Packing, q: Tensor, k: Tensor
    ) -> tuple[Tensor, Tensor] | tuple[None, None]:
        """What queries [N, H, D] look for and keys offer, [N, H, E]."""
        if self.match is None:
            return None, None
        if inputs.stamps is None:
            return self.match.asked(q, None), self.match.offered(k, None)
        query_stamp, key_stamp = since_first(inputs.stamps, inputs.key_padding, self.config.time_scale)
        return self.match.asked(q, queries.pack(query_stamp)), self.match.offered(k, keys.pack(key_stamp))

    def to_config(self) -> dict[str, Any]:
        """Plain data for `from_config`, without the weights."""
        return {
            "options": self.config.to_dict(),
            "sensory_wiring": self.query_gate.wiring.to_dict(),
            "backbone_wiring": self.backbone.wiring.to_dict(),
        }

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> NAC:
        """Inverse of `to_config`. Wirings are read, not drawn again: no change of ncps can alter them."""
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.config = config = NACConfig.from_dict(data["options"])
        sensory, backbone = (Wiring.from_dict(data[name]) for name in ("sensory_wiring", "backbone_wiring"))
        sizes = (
            sensory.num_inputs,
            len(sensory.group("sensory")),
            backbone.num_inputs,
            len(backbone.group("motor")),
        )
        wanted = config.width, config.d_model, config.circuit_inputs, config.motors
        if sizes != wanted:
            raise ValueError(
                "the wirings must have inputs and sensory neurons, and inputs and motor neurons, as the options "
                f"say: {wanted}, got {sizes}"
            )
        layer._build(sensory, backbone)
        return layer

    def extra_repr(self) -> str:
        """The options that matter most."""
        c = self.config
        return f"{c.d_model}, {c.num_heads}, top_k={c.top_k}, mode={c.mode!r}, sparsity={c.sparsity}"


def _head_first(x: Tensor, queries: Packing) -> Tensor:
    """[B, H, T, K] -> [H, N, K], the rows of the N queries that are kept."""
    # By way of T * K: torch.export fails on the direct way where K = T (all pairs).
    x = x.flatten(2).transpose(0, 1).reshape(x.shape[1], -1, x.shape[3])
    return x if queries.rows is None else x.index_select(1, queries.rows)
