"""OT-Transformer (Kan et al., 2025): a transformer as a flow, with a transport cost."""

from torch import Tensor

from nacre._util.checks import real
from nacre.io import saveable
from nacre.models._base import Steps
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Real, Whole
from nacre.models._transformer_block import BlockFlow


@register(
    ModelInfo(
        "ot-transformer",
        kind="CT-attention",
        in_paper=True,
        paper="Kan et al., 2025",
        summary="transformer block as a flow with a transport cost",
        uses_time=False,
        causal=False,
        cost="S (T² d + T d²)",
        checked="torch.nn.TransformerEncoderLayer",
    ),
    space={"steps": Whole(2, 8), "penalty": Real(0.01, 2.0, log=True)},
)
@saveable("OTTransformer")
class OTTransformer(BlockFlow):
    """A transformer block f as the velocity of a flow, with a loss that favours short paths.

        y_0 = W x + b,    y_(m+1) = y_m + (h / M) f(y_m)

    for a horizon h in M Euler steps with the same weights. In training

        aux_loss = penalty / 2 * sum over m of (h / M) * mean(f(y_m)²)

    over features and valid steps, but not those that only ask, to be added to the loss.

    As published, f is added whole, with its residual paths and last norm. That norm fixes mean(f²) up to its own
    weight and bias, on which the cost mostly acts. The published f may be a stack of blocks; here it is one
    post-norm block.

    Args:
        steps: Number M of steps.
        horizon: Length h of the flow.
        penalty: Weight of the transport cost.
        d_feedforward: Width of the block's hidden layer; None means `d_model`.
        dropout: Share dropped in training, as in `torch.nn.TransformerEncoderLayer`.
        causal: Whether step i sees only steps up to i.

    Example:
        >>> OTTransformer(7, 64, 4)(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        steps: int = 5,
        horizon: float = 1.0,
        penalty: float = 0.5,
        d_feedforward: int | None = None,
        dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__(d_input, d_model, num_heads, steps, d_feedforward, dropout, causal)
        self.horizon = real("horizon", horizon, 0.0, float("inf"), open_low=True)
        self.penalty = real("penalty", penalty, 0.0, float("inf"))

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        y = self.input_proj(steps.x)
        step_size = self.horizon / self.steps
        cost = y.new_zeros(())
        for _ in range(self.steps):
            velocity = self.block(y, steps)
            y = y + step_size * velocity
            if self.training:
                cost = cost + step_size * _mean_square(velocity, steps)
        self.aux_loss = self.penalty / 2 * cost if self.training else None
        return y


def _mean_square(velocity: Tensor, steps: Steps) -> Tensor:
    """Mean square of [B, T, d] over features and steps that are neither padding nor questions, 0 without any."""
    hidden = steps.hidden()
    if hidden is None:
        return velocity.square().mean()
    total = velocity.masked_fill(hidden.unsqueeze(-1), 0).square().sum()
    return total / ((~hidden).sum() * velocity.shape[-1]).clamp(min=1)
