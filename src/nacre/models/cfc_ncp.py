"""Closed-form continuous-time network (Hasani et al., 2022) in the wiring of a neural circuit policy."""

import numpy as np
import torch
from torch import Tensor, nn

from nacre._util.checks import real, whole
from nacre.io import saveable
from nacre.layer.fingerprint import Fingerprinted
from nacre.layer.synapses import MaskedParameter
from nacre.models._base import Steps
from nacre.models._cfc_recurrence import MODES, ClosedForm, held_for
from nacre.models._recurrent import RecurrentModel, State
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice, Real
from nacre.wiring.builders import check_size
from nacre.wiring.wiring import Wiring


class WiredLayer(Fingerprinted):
    """One group of n neurons: sparse synapses from the group before (`mask` [inputs, n]), dense recurrent ones."""

    def __init__(self, mask: np.ndarray, mode: str) -> None:
        super().__init__(mask)
        inputs, units = mask.shape
        self.recurrence = ClosedForm(units, mode)
        # Only the contents are sparse; the heads that decide between them see every input.
        heads = [mask] if mode == "pure" else [mask, mask, np.ones_like(mask), np.ones_like(mask)]
        self.input_weight = MaskedParameter(np.concatenate(heads, 1))
        self.recurrent_weight = nn.Parameter(torch.empty(units, len(heads) * units))
        self.bias = nn.Parameter(torch.empty(len(heads) * units))
        glorot = (6 / (inputs + 2 * units)) ** 0.5  # of one head, a map from [inputs + units] to [units]
        for weight in (self.input_weight.weight, self.recurrent_weight):
            nn.init.uniform_(weight, -glorot, glorot)
        bound = (inputs + units) ** -0.5
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor, elapsed: Tensor, state: Tensor | None = None) -> Tensor:
        """[B, T, inputs] and [B, T, 1] -> states [B, T, n], from a state [B, n] or zeros."""
        drive = nn.functional.linear(x, self.input_weight.dense()[0].T, self.bias)
        return self.recurrence(drive, elapsed, self.recurrent_weight, state=state)


@register(
    ModelInfo(
        "cfc-ncp",
        kind="CT-RNN",
        in_paper=True,
        paper="Hasani et al., 2022",
        summary="closed-form continuous-time network, neurons wired as an NCP",
        uses_time=True,
        causal=True,
        cost="T d²",
        checked="ncps 1.0.1",
    ),
    space={"sparsity": Real(0.1, 0.9), "mode": Choice(MODES)},
)
@saveable("WiredCfC")
class WiredCfC(RecurrentModel):
    """Three closed-form layers in a row, inter -> command -> motor neurons, and a linear map to the output.

    Each layer is a CfC without backbone, z = [inputs, h]. Its maps F and G (see `nacre.models.cfc.CfC`) have only
    the synapses of the wiring from the group before, and all those among the group's own neurons; A and B are
    dense. All layers take the same elapsed time, 1 at the first step. This is `ncps.torch.CfC` in wired mode,
    except that weights which ncps multiplies by zero do not exist here.

    Ours: the wiring is AutoNCP with max(d_model, 8) neurons, max(2, d_model // 4) of them motor neurons, and the
    motor neurons' states go through a linear map to width d_model. A layer needs only its own past and the layer
    below, so each runs over all steps before the next one starts. All modes but "pure" have a compiled kernel on
    CPU.

    Args:
        sparsity: Share of the synapses between two groups that are left out, from 0.1 to 0.9.
        seed: Seed of the wiring.
        mode: As in `nacre.models.cfc.CfC`.

    Example:
        >>> model = WiredCfC(7, 64)
        >>> [layer.recurrent_weight.shape[0] for layer in model.layers]
        [29, 19, 16]
        >>> model(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        *,
        sparsity: float = 0.5,
        seed: int = 22222,
        mode: str = "default",
        time_scale: float = 1.0,
    ) -> None:
        super().__init__(d_input, d_model, time_scale)
        self.sparsity = real("sparsity", sparsity, 0.1, 0.9)
        self.seed = whole("seed", seed, 0)
        self.mode = mode
        masks = _masks(d_input, d_model, sparsity, seed)
        self.layers = nn.ModuleList(WiredLayer(mask, mode) for mask in masks)
        self.out_proj = nn.Linear(masks[-1].shape[1], d_model)

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        layers = (layer for layer in self.layers if isinstance(layer, WiredLayer))
        return tuple(like.new_zeros(like.shape[0], len(layer.recurrent_weight)) for layer in layers)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        states, elapsed = [steps.x], held_for(steps)
        for layer, before in zip(self.layers, state or [None] * len(self.layers), strict=True):
            states.append(layer(states[-1], elapsed, before))
        return self.out_proj(states[-1]), tuple(states[1:])


def _masks(d_input: int, d_model: int, sparsity: float, seed: int) -> list[np.ndarray]:
    """Synapses onto inter, command and motor neurons from the group before each: [inputs, n] bool."""
    from ncps.wirings import AutoNCP  # keeps `import nacre` light

    check_size(d_input, max(d_model, 8))
    source = AutoNCP(max(d_model, 8), max(2, d_model // 4), sparsity_level=sparsity, seed=seed)
    wiring = Wiring.from_ncps(source, inputs=d_input)
    inter, command, motor = (list(wiring.group(name)) for name in ("inter", "command", "motor"))
    between = [wiring.adjacency[np.ix_(*groups)] != 0 for groups in ((inter, command), (command, motor))]
    return [wiring.input_adjacency[:, inter] != 0, *between]
