"""Closed-form continuous-time network (Hasani et al., 2022) with all units connected."""

import itertools

from torch import Tensor, nn
from torch.nn.functional import linear

from nacre._util.budget import afford
from nacre._util.checks import whole
from nacre.io import saveable
from nacre.models._base import Steps
from nacre.models._cfc_recurrence import MODES, ClosedForm, held_for
from nacre.models._recurrent import RecurrentModel, State
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice, Whole

# LeCun's tanh, 1.7159 tanh(0.666 u), with the numbers as ncps rounds them.
INNER, OUTER = 0.666, 1.7159


@register(
    ModelInfo(
        "cfc-fc",
        kind="CT-RNN",
        in_paper=True,
        paper="Hasani et al., 2022",
        summary="closed-form continuous-time network, fully connected",
        uses_time=True,
        causal=True,
        cost="T m d",
        checked="ncps 1.0.1",
    ),
    space={"backbone_units": Whole(16, 256, log=True), "backbone_layers": Whole(1, 3), "mode": Choice(MODES)},
)
@saveable("CfC")
class CfC(RecurrentModel):
    """A recurrent network whose state follows a closed formula instead of a solver.

    With z = backbone([x_t, h]), layers of LeCun's tanh 1.7159 tanh(0.666 u), and elapsed time e_t:

        "default": h' = (1 - s) tanh(F z) + s tanh(G z),  s = sigmoid((A z) e_t + B z)
        "no_gate": h' = tanh(F z) + s tanh(G z)
        "pure":    h' = a - a f exp(-e_t (|w| + |f|)),    f = F z, with a and w of each unit

    The output is h'. All maps have biases. Outputs equal those of `CfC` of ncps, with the sign of A that ncps uses
    (the derivation in the paper has the other; A learns either). Ours: each sample has its own elapsed time, 1 at
    the first step; in "pure" mode a starts at 1 and w at small random numbers. The first two modes have a compiled
    kernel on CPU for a backbone of at most one layer.

    Args:
        d_model: Number of units, which are the output.
        backbone_units: Width of the backbone's layers.
        backbone_layers: Number of layers of the backbone; 0 for none.

    Example:
        >>> model = CfC(7, 64)
        >>> model(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        *,
        backbone_units: int = 128,
        backbone_layers: int = 1,
        mode: str = "default",
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.backbone_units = whole("backbone_units", backbone_units, 1)
        self.backbone_layers = whole("backbone_layers", backbone_layers, 0)
        self.mode = mode
        afford("the backbone", self.backbone_layers)
        self.recurrence = ClosedForm(d_model, mode)
        widths = [d_input + d_model] + [backbone_units] * backbone_layers
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
        self.backbone = nn.ModuleList(layers)
        self.heads = nn.Linear(widths[-1], self.recurrence.heads * d_model)
        for weight in (*(layer.weight for layer in layers), *self.heads.weight.split(d_model)):
            nn.init.xavier_uniform_(weight)

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        return (like.new_zeros(like.shape[0], self.d_model),)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        (weight, bias), *later = self._weights()
        drive = linear(steps.x, weight[:, : self.d_input], bias)  # [B, T, k]
        recurrent = weight[:, self.d_input :].T
        further = (x for w, b in later for x in (w.T, b))
        states = self.recurrence(drive, held_for(steps), recurrent, *further, state=state and state[0])
        return states, (states,)

    def _weights(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of every layer, with the constants of LeCun's tanh in them, so that tanh is plain."""
        weights = []
        before = 1.0
        for layer in (x for x in self.backbone if isinstance(x, nn.Linear)):
            weights.append((layer.weight * (before * INNER), layer.bias * INNER))
            before = OUTER
        return [*weights, (self.heads.weight * before, self.heads.bias)]
