"""ODEFormer as a layer: Euler steps through one transformer block, named after d'Ascoli et al. (2023)."""

from torch import Tensor

from nacre._util.checks import real
from nacre.io import saveable
from nacre.models._base import Steps
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Real, Whole
from nacre.models._transformer_block import BlockFlow


@register(
    ModelInfo(
        "odeformer",
        kind="CT-attention",
        in_paper=True,
        paper="d'Ascoli et al., 2023",
        summary="Euler steps through one transformer block",
        uses_time=False,
        causal=False,
        cost="S (T² d + T d²)",
        checked="torch.nn.MultiheadAttention",
    ),
    space={"steps": Whole(1, 6), "step_size": Real(0.05, 0.5, log=True)},
)
@saveable("ODEFormer")
class ODEFormer(BlockFlow):
    """A transformer block f taken as the derivative of its input.

        y = W x + b,    then S times, with the same weights:  y <- y + h f(y)

    The published ODEFormer is no layer, but a transformer that reads a trajectory and writes the formula of its
    differential equation. This one reconstructs what the NAC paper compares with under that name. As there, f is
    the whole post-norm block with its residual paths, so that |f(y)| is about sqrt(d_model) for any y.

    Args:
        steps: Number S of steps.
        step_size: Length h of a step.
        d_feedforward: Width of the block's hidden layer; None means `d_model`.
        dropout: Share dropped in training, as in `torch.nn.TransformerEncoderLayer`.
        causal: Whether step i sees only steps up to i.

    Example:
        >>> ODEFormer(7, 64, 4)(torch.randn(2, 10, 7)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        num_heads: int,
        *,
        steps: int = 3,
        step_size: float = 0.25,
        d_feedforward: int | None = None,
        dropout: float = 0.0,
        causal: bool = False,
    ) -> None:
        super().__init__(d_input, d_model, num_heads, steps, d_feedforward, dropout, causal)
        self.step_size = real("step_size", step_size, 0.0, float("inf"), open_low=True)

    def run(self, steps: Steps) -> Tensor:
        """See `SequenceModel`."""
        y = self.input_proj(steps.x)
        for _ in range(self.steps):
            y = y + self.step_size * self.block(y, steps)
        return y
