"""`NACEncoder`: a stack of NAC layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from nacre._util.checks import whole
from nacre.io import saveable
from nacre.layer.attention import NAC
from nacre.layer.config import NACConfig
from nacre.layer.foreign import OPTIONS, RENAMED, explain
from nacre.layer.inputs import padding_mask, require_tensor, same_dtype, sequence
from nacre.layer.streaming.state import StreamState
from nacre.layer.synapses import Factory

_LAYERS = (
    "give the options of its layers as a NACConfig: "
    "nacre.NACEncoder(nacre.NACConfig(d_model=64, num_heads=4), num_layers=2)"
)
_ADVICE = {
    **dict.fromkeys((*OPTIONS, *NACConfig.__dataclass_fields__, "num_layers"), _LAYERS),
    "batch_first": OPTIONS["batch_first"],
    "dim_feedforward": "it is called d_feedforward here",
}


class ResidualBlock(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    Args:
        attention: Any model from [B, T, width] to [B, T, width], called like those of the zoo.
        width: Width of input and output.
        d_feedforward: Hidden width of the feed-forward network.
        dropout: Share of what either branch adds that is dropped in training.

    Example:
        >>> block = ResidualBlock(NAC(8, 2), 8, 32)
        >>> block(torch.randn(2, 5, 8), None, None).shape
        torch.Size([2, 5, 8])
    """

    def __init__(
        self,
        attention: nn.Module,
        width: int,
        d_feedforward: int,
        dropout: float = 0.0,
        **factory: Unpack[Factory],
    ) -> None:
        super().__init__()
        self.attention: Any = attention  # of NAC, or of any other class of the zoo
        self.attention_norm = nn.LayerNorm(width, **factory)
        self.feedforward_norm = nn.LayerNorm(width, **factory)
        self.feedforward = nn.Sequential(
            nn.Linear(width, d_feedforward, **factory), nn.GELU(), nn.Linear(d_feedforward, width, **factory)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        time: Tensor | None,
        padding: Tensor | None,
        query_only: Tensor | None = None,
        read: Tensor | None = None,
    ) -> Tensor:
        """[B, T, width] -> [B, T, width]; [B, 1, width] where one step of each row is read, at places [B, 1]."""
        # Models of others need not know questions, and observers see all steps.
        more = {} if query_only is None else {"query_only": query_only}
        if read is not None and getattr(self.attention, "takes_key_only", False) and not self._observed:
            more["key_only"] = torch.arange(x.shape[1], device=x.device) != read
        found = self.attention(self.attention_norm(x), time=time, key_padding_mask=padding, **more)
        if read is not None:
            x, found = (part.take_along_dim(read.unsqueeze(-1), 1) for part in (x, found))
        return self._add(x, found)

    @property
    def _observed(self) -> bool:
        return getattr(self.attention, "observer", None) is not None

    def step(self, x: Tensor, state: StreamState, time: Tensor | None) -> tuple[Tensor, StreamState]:
        """[B, width] -> [B, width], where the attention is a causal NAC layer."""
        found, state = self.attention.step(self.attention_norm(x), state, time=time)
        return self._add(x, found), state

    def _add(self, x: Tensor, found: Tensor) -> Tensor:
        x = x + self.dropout(found)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


@saveable("NACEncoder")
class NACEncoder(nn.Module):
    """A pre-norm stack of NAC layers, each followed by a feed-forward network.

    Time stamps and padding reach every layer. Each layer draws its wiring with a seed of its own (config.seed,
    config.seed + 1, ...) unless the wiring is given.

    Args:
        config: Options of the layers. Where `d_input` differs from `d_model`, a linear map comes first;
            `dropout` also acts on each residual branch.
        d_feedforward: Hidden width of the feed-forward networks; None for 4 * d_model.

    Example:
        >>> encoder = NACEncoder(NACConfig(d_model=32, num_heads=4, d_input=3), num_layers=2)
        >>> x, t = torch.randn(8, 50, 3), torch.rand(8, 50).cumsum(1)
        >>> encoder(x, time=t).shape
        torch.Size([8, 50, 32])
    """

    @explain(_ADVICE)
    def __init__(
        self,
        config: NACConfig,
        num_layers: int,
        *,
        d_feedforward: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not isinstance(config, NACConfig):
            raise TypeError(f"config must be a nacre.NACConfig, got {type(config).__name__}; {_LAYERS}")
        whole("num_layers", num_layers, 1)
        configs = [replace(config, d_input=None, seed=config.seed + i) for i in range(num_layers)]
        layers = [NAC(**vars(c), device=device, dtype=dtype) for c in configs]
        self._build(config, layers, d_feedforward, device=device, dtype=dtype)

    def _build(
        self, config: NACConfig, layers: list[NAC], d_feedforward: int | None, **factory: Unpack[Factory]
    ) -> None:
        nn.Module.__init__(self)
        self.config = config
        width = 4 * config.d_model if d_feedforward is None else d_feedforward
        self.d_feedforward = whole("d_feedforward", width, 1)
        self.embed = None
        if config.width != config.d_model:
            self.embed = nn.Linear(config.width, config.d_model, **factory)
        self.layers = nn.ModuleList(
            ResidualBlock(layer, config.d_model, width, config.dropout, **factory) for layer in layers
        )
        self.norm = nn.LayerNorm(config.d_model, **factory)

    def _blocks(self) -> list[ResidualBlock]:
        return [block for block in self.layers if isinstance(block, ResidualBlock)]

    @explain(RENAMED)
    def forward(
        self,
        x: Tensor,
        time: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        *,
        query_only: Tensor | None = None,
    ) -> Tensor:
        """[B, T, d_input] -> [B, T, d_model], zeros at padded steps; other arguments as for `NAC`."""
        sequence("x", x, self.config.width, self.norm.weight)
        if key_padding_mask is not None:
            padding_mask("key_padding_mask", key_padding_mask, (x.shape[0], x.shape[1]))
            x = x.masked_fill(key_padding_mask.unsqueeze(-1), 0)
        if self.embed is not None:
            x = self.embed(x)
        for block in self._blocks():
            x = block(x, time, key_padding_mask, query_only)
        x = self.norm(x)
        return x if key_padding_mask is None else x.masked_fill(key_padding_mask.unsqueeze(-1), 0)

    def init_state(
        self, batch_size: int, max_len: int = 4096, *, overflow: str = "error"
    ) -> tuple[StreamState, ...]:
        """An empty memory for each layer; arguments as for `NAC.init_state`."""
        return tuple(b.attention.init_state(batch_size, max_len, overflow=overflow) for b in self._blocks())

    @torch.no_grad()
    def step(
        self, x: Tensor, states: tuple[StreamState, ...], *, time: Tensor | None = None
    ) -> tuple[Tensor, tuple[StreamState, ...]]:
        """One step: output [B, d_model] and states for the next one; arguments as for `NAC.step`."""
        blocks = self._blocks()
        if len(states) != len(blocks):
            raise ValueError(f"states must be {len(blocks)}, one for each layer, got {len(states)}")
        same_dtype("x", require_tensor("x", x, last=self.config.width), self.norm.weight)
        if self.embed is not None:
            x = self.embed(x)
        after = []
        for block, state in zip(blocks, states, strict=True):
            x, state = block.step(x, state, time)
            after.append(state)
        return self.norm(x), tuple(after)

    def to_config(self) -> dict[str, Any]:
        """Plain data for `from_config`."""
        return {
            "options": self.config.to_dict(),
            "d_feedforward": self.d_feedforward,
            "layers": [block.attention.to_config() for block in self._blocks()],
        }

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> NACEncoder:
        """Inverse of `to_config`."""
        encoder = cls.__new__(cls)
        layers = [NAC.from_config(layer) for layer in data["layers"]]
        encoder._build(NACConfig.from_dict(data["options"]), layers, data["d_feedforward"])
        return encoder
