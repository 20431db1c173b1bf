"""`ModelStack`: models of the zoo in residual blocks, called like a single model."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nacre.layer.encoder import ResidualBlock
from nacre.layer.streaming.state import StreamState


class ModelStack(nn.Module):
    """A linear map, a residual block around each model, and a norm: what is around a layer in today's networks.

    Args:
        models: One for each block, from d_model to d_model.
        d_input: Width of the input.
        d_model: Width of the blocks; their feed-forward networks are four times as wide.
        dropout: Share of what each branch of a block adds that is dropped in training.

    Example:
        >>> stack = ModelStack([nacre.create("sdpa", d_input=8, d_model=8, num_heads=2)], d_input=3, d_model=8)
        >>> stack(torch.randn(2, 5, 3)).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, models: Sequence[nn.Module], d_input: int, d_model: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Linear(d_input, d_model)
        self.blocks = nn.ModuleList(ResidualBlock(model, d_model, 4 * d_model, dropout) for model in models)
        self.norm = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Tensor,
        time: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        *,
        query_only: Tensor | None = None,
        read: Tensor | None = None,
    ) -> Tensor:
        """[B, T, d_input] -> [B, T, d_model], zeros at padded steps.

        Where only one step of each row is read, at places [B, 1], it is all that the last block answers: [B, 1,
        d_model].
        """
        if key_padding_mask is not None:
            x = x.masked_fill(key_padding_mask.unsqueeze(-1), 0)
        x = self.embed(x)
        for block in self.blocks[:-1]:
            x = block(x, time, key_padding_mask, query_only)
        x = self.norm(self.blocks[-1](x, time, key_padding_mask, query_only, read))
        if key_padding_mask is None:
            return x
        padding = key_padding_mask if read is None else key_padding_mask.gather(1, read)
        return x.masked_fill(padding.unsqueeze(-1), 0)

    def init_state(self, batch_size: int, max_len: int = 4096, *, overflow: str = "error") -> StreamState:
        """Memory of a stack of one causal NAC layer, with which it runs step by step; arguments as for `NAC`."""
        (block,) = self.blocks
        return block.attention.init_state(batch_size, max_len, overflow=overflow)  # pyright: ignore

    def step(self, x: Tensor, state: StreamState, *, time: Tensor | None = None) -> tuple[Tensor, StreamState]:
        """One step of such a stack: [B, d_input] -> [B, d_model], and the state for the next one."""
        (block,) = self.blocks
        x, state = block.step(self.embed(x), state, time)  # pyright: ignore[reportCallIssue]
        return self.norm(x), state

    @property
    def aux_loss(self) -> Tensor | None:
        """What the models add to the loss; None if nothing."""
        models: list[Any] = [block.attention for block in self.blocks]
        losses = [loss for model in models if (loss := getattr(model, "aux_loss", None)) is not None]
        return torch.stack(losses).sum() if losses else None
