"""The network of the approximation study: one NAC layer and a linear read-out."""

from enum import StrEnum

from torch import Tensor, nn

from nacre._util.checks import choice
from nacre.layer.attention import NAC
from nacre.study.uat.data import Target

HEADS = 4


class Variant(StrEnum):
    """What is done with the layer's values."""

    WEIGHTED = "weighted"
    """They are weighted with the internal time t, as in the paper's integral."""
    UNWEIGHTED = "unweighted"
    """They are not."""
    AUTHORS = "authors"
    """They are not, and a sigmoid follows the layer, as in the demo of the paper's authors."""


class UatNetwork(nn.Module):
    """A NAC layer that answers once for a sequence.

    The layer's value gate is a row of tanh neurons, so one step without time weighting gives W_o tanh(x w + b), up
    to scales and shifts: the classical network with one hidden layer. The circuit has no say in it, since the
    softmax over one key is 1. With the weighting each head also multiplies by t, a sigmoid of its own. Without the
    weighting, and with neurons of activation "identity", the layer would be affine.

    Args:
        target: "sin": the one step asks itself. "set": an empty query, x = 0, asks all steps.
        variant: What is done with the layer's values.
        width: d_model, a multiple of 4.

    Example:
        >>> net = UatNetwork("set", "weighted", 8)
        >>> net(torch.randn(5, 8, 1)).shape
        torch.Size([5])
    """

    def __init__(self, target: str, variant: str, width: int) -> None:
        super().__init__()
        choice("target", target, Target)
        choice("variant", variant, Variant)
        weighted = variant == Variant.WEIGHTED
        self.layer = NAC(width, HEADS, d_input=1, top_k=8, mode="exact", sparsity=0.5, integrate=weighted)
        self.squash = nn.Sigmoid() if variant == Variant.AUTHORS else nn.Identity()
        self.read = nn.Linear(width, 1)
        self._asks_itself = target == Target.SIN

    def forward(self, x: Tensor) -> Tensor:
        """[N, T, 1] -> [N]."""
        y = self.layer(x) if self._asks_itself else self.layer(x.new_zeros(len(x), 1, 1), x, x)
        return self.read(self.squash(y[:, 0])).squeeze(-1)
