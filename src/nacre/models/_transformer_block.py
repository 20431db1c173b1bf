"""The post-norm transformer block, and the base of the models that repeat it with shared weights."""

from dataclasses import replace

from torch import Tensor, nn

from nacre._util.checks import whole
from nacre.models._base import SequenceModel, Steps
from nacre.models.sdpa import SDPA


class TransformerBlock(nn.Module):
    """A block as Vaswani et al. (2017) published it.

        h = LN(x + attention(x)),    f(x) = LN(h + W_2 relu(W_1 h + b_1) + b_2)

    Equal to `torch.nn.TransformerEncoderLayer` with the same weights, except that the key projection has no bias.
    Without `d_feedforward` the hidden layer has the width `d_model`.
    """

    def __init__(
        self, d_model: int, num_heads: int, d_feedforward: int | None, dropout: float, causal: bool
    ) -> None:
        super().__init__()
        hidden = d_model if d_feedforward is None else whole("d_feedforward", d_feedforward, 1)
        self.attention = SDPA(d_model, d_model, num_heads, causal=causal, dropout=dropout)
        self.attention_norm = nn.LayerNorm(d_model)
        self.feedforward = nn.Sequential(
            nn.Linear(d_model, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, d_model)
        )
        self.feedforward_norm = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, steps: Steps) -> Tensor:
        """The block's output [B, T, d_model] for x [B, T, d_model], with the padding of `steps`."""
        h = self.attention_norm(x + self.drop(self.attention.run(replace(steps, x=x))))
        return self.feedforward_norm(h + self.drop(self.feedforward(h)))


class BlockFlow(SequenceModel):
    """Base of models that take Euler steps through one block, from a linear map of the input."""

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        steps: int,
        d_feedforward: int | None,
        dropout: float,
        causal: bool,
    ) -> None:
        super().__init__(d_input, d_model)
        self.num_heads = num_heads
        self.steps = whole("steps", steps, 1)
        self.d_feedforward = d_feedforward
        self.dropout = dropout
        self.causal = causal
        self.input_proj = nn.Linear(d_input, d_model)
        self.block = TransformerBlock(d_model, num_heads, d_feedforward, dropout, causal)
