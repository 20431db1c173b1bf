"""`NACEncoder`: NAC layers on top of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from nacre._util.checks import padding_mask, require_tensor, same_dtype, sequence, whole
from nacre.io import saveable
from nacre.layer.attention import NAC
from nacre.layer.config import NACConfig
from nacre.layer.streaming import StreamState


class NACBlock(nn.Module):
    """One layer of the stack: x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(
        self, attention: NAC, d_feedforward: int, device: torch.device | str | None, dtype: torch.dtype | None
    ) -> None:
        super().__init__()
        width = attention.config.d_model
        self.attention = attention
        self.attention_norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.feedforward_norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.feedforward = nn.Sequential(
            nn.Linear(width, d_feedforward, device=device, dtype=dtype),
            nn.GELU(),
            nn.Linear(d_feedforward, width, device=device, dtype=dtype),
        )
        self.dropout = nn.Dropout(attention.config.dropout)

    def forward(self, x: Tensor, time: Tensor | None, padding: Tensor | None) -> Tensor:
        """[B, T, d_model] -> [B, T, d_model]."""
        found = self.attention(self.attention_norm(x), time=time, key_padding_mask=padding)
        return self._add(x, found)

    def step(self, x: Tensor, state: StreamState, time: Tensor | None) -> tuple[Tensor, StreamState]:
        """[B, d_model] -> [B, d_model]."""
        found, state = self.attention.step(self.attention_norm(x), state, time=time)
        return self._add(x, found), state

    def _add(self, x: Tensor, found: Tensor) -> Tensor:
        x = x + self.dropout(found)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))


@saveable("NACEncoder")
class NACEncoder(nn.Module):
    """A stack of NAC layers with feed-forward parts, normalised before each part (pre-norm).

    Time stamps and padding reach every layer. Layers are alike, but each draws its wiring with a seed of its own
    (config.seed, config.seed + 1, ...) unless the wiring is given.

    Args:
        config: Options of the layers. Where `d_input` differs from `d_model`, a linear map comes first;
            `dropout` also acts on what each part adds.
        num_layers: Number of layers.
        d_feedforward: Width inside the feed-forward parts; None for 4 * d_model.
        device: Where the parameters live.
        dtype: Their type.

    Example:
        >>> encoder = NACEncoder(NACConfig(d_model=32, num_heads=4, d_input=3), num_layers=2)
        >>> x, t = torch.randn(8, 50, 3), torch.rand(8, 50).cumsum(1)
        >>> encoder(x, time=t).shape
        torch.Size([8, 50, 32])
    """

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
            raise TypeError(f"config must be a nacre.NACConfig, got {type(config).__name__}")
        whole("num_layers", num_layers, 1)
        configs = [replace(config, d_input=None, seed=config.seed + i) for i in range(num_layers)]
        layers = [NAC(**vars(c), device=device, dtype=dtype) for c in configs]
        self._build(config, layers, d_feedforward, device, dtype)

    def _build(
        self,
        config: NACConfig,
        layers: list[NAC],
        d_feedforward: int | None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        nn.Module.__init__(self)
        self.config = config
        self.d_feedforward = (
            4 * config.d_model if d_feedforward is None else whole("d_feedforward", d_feedforward, 1)
        )
        self.embed = None
        if config.width != config.d_model:
            self.embed = nn.Linear(config.width, config.d_model, device=device, dtype=dtype)
        self.layers = nn.ModuleList(NACBlock(a, self.d_feedforward, device, dtype) for a in layers)
        self.norm = nn.LayerNorm(config.d_model, device=device, dtype=dtype)

    def _blocks(self) -> list[NACBlock]:
        return [block for block in self.layers if isinstance(block, NACBlock)]

    def forward(self, x: Tensor, time: Tensor | None = None, key_padding_mask: Tensor | None = None) -> Tensor:
        """Encode sequences.

        Args:
            x: [B, T, d_input].
            time: [B, T] time stamps, as for `NAC`.
            key_padding_mask: [B, T] bool, True = padding.

        Returns:
            [B, T, d_model]; zeros at padded steps.
        """
        sequence("x", x, self.config.width, self.norm.weight)
        if key_padding_mask is not None:
            padding_mask("key_padding_mask", key_padding_mask, (x.shape[0], x.shape[1]))
            x = x.masked_fill(key_padding_mask.unsqueeze(-1), 0)  # before anything is computed from it
        if self.embed is not None:
            x = self.embed(x)
        for block in self._blocks():
            x = block(x, time, key_padding_mask)
        x = self.norm(x)
        return x if key_padding_mask is None else x.masked_fill(key_padding_mask.unsqueeze(-1), 0)

    def init_state(
        self, batch_size: int, max_len: int = 4096, *, overflow: str = "error"
    ) -> tuple[StreamState, ...]:
        """Empty memories for a stack of causal layers, one for each; arguments as for `NAC.init_state`."""
        blocks = self._blocks()
        return tuple(b.attention.init_state(batch_size, max_len, overflow=overflow) for b in blocks)

    @torch.no_grad()
    def step(
        self, x: Tensor, states: tuple[StreamState, ...], *, time: Tensor | None = None
    ) -> tuple[Tensor, tuple[StreamState, ...]]:
        """Go on by one step: what `forward` gives for the newest step of all so far.

        Args:
            x: [B, d_input] newest input of each stream.
            states: From `init_state` or the step before; their tensors are written to.
            time: [B] time stamps, never decreasing; at every step or at none.

        Returns:
            Output [B, d_model] and the states for the next step.
        """
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
        """Plain data from which `from_config` makes the same stack, without its weights."""
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
