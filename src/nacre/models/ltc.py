"""Liquid time-constant networks (Hasani et al., 2021), fully connected and wired as a neural circuit policy."""

import torch
from torch import Tensor, nn

from nacre._util.checks import real, whole
from nacre.io import saveable
from nacre.models._base import Steps
from nacre.models._ltc_neurons import LTCNeurons
from nacre.models._recurrent import RecurrentModel, State
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Real, Whole
from nacre.wiring.builders import check_size
from nacre.wiring.wiring import Wiring


@register(
    ModelInfo(
        "ltc-fc",
        kind="CT-RNN",
        in_paper=True,
        paper="Hasani et al., 2021",
        summary="liquid time-constant network, fully connected",
        uses_time=True,
        causal=True,
        cost="T S d²",
        checked="ncps 1.0.1",
    ),
    space={"unfolds": Whole(3, 12)},
)
@saveable("LTCFC")
class LTCFC(RecurrentModel):
    """d_model liquid time-constant neurons, each connected to all and to all inputs; all are outputs.

    For neuron j, with y = sigmoid(sigma (u - mu)) of each synapse,

        capacity_j dv_j/dt = leak_j (rest_j - v_j) + sum over synapses i -> j of w_ij y_ij(u_i) (E_ij - v_j),

    where sources u are the neurons' v and the inputs x * scale + shift, held for the time since the step before
    (one unit at the first). The output is v * scale + shift. Neurons start at 0 and take the fused semi-implicit
    steps of ncps, see `LTCNeurons`: with the same parameters, the outputs are those of ncps.

    Ours: w, leak and capacity are softplus of raw parameters that start at ncps' initial values, so that training
    cannot make them negative (ncps leaves clamping to its user); each row has its own time (ncps takes one for all
    rows); steps of no time leave the state as it is. Inputs have the scale and shift of ncps, although sigma and
    mu of their synapses could express the same.

    Args:
        unfolds: Solver steps for each step of the sequence.

    Example:
        >>> LTCFC(7, 16)(torch.rand(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(self, d_input: int, d_model: int, *, unfolds: int = 6, time_scale: float = 1.0) -> None:
        from ncps.wirings import FullyConnected  # keeps `import nacre` light

        super().__init__(d_input, d_model, time_scale)
        self.unfolds = whole("unfolds", unfolds, 1)
        check_size(d_input, d_model)
        self.neurons = LTCNeurons(Wiring.from_ncps(FullyConnected(d_model), d_input), unfolds)
        self.output_scale = nn.Parameter(torch.ones(d_model))
        self.output_shift = nn.Parameter(torch.zeros(d_model))

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        return (like.new_zeros(like.shape[0], self.d_model),)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        states = self.neurons(steps.x, steps.elapsed(1.0), state and state[0])
        return states * self.output_scale + self.output_shift, (states,)


@register(
    ModelInfo(
        "ltc-ncp",
        kind="CT-RNN",
        in_paper=True,
        paper="Lechner et al., 2020; Hasani et al., 2021",
        summary="liquid time-constant network wired as a neural circuit policy",
        uses_time=True,
        causal=True,
        cost="T S d²",
        checked="ncps 1.0.1",
    ),
    space={"unfolds": Whole(3, 12), "sparsity": Real(0.1, 0.9)},
)
@saveable("LTCNCP")
class LTCNCP(RecurrentModel):
    """The neurons of `LTCFC`, wired sparsely: inputs -> inter -> command (recurrent) -> motor, then a linear map.

    The wiring is ncps' `AutoNCP` of max(d_model, 8) neurons, of which max(2, d_model // 4) are motor neurons. The
    published network ends at the motor neurons. The linear map from them to d_model is ours; it takes the place of
    ncps' scale and shift of each output, which it contains.

    Args:
        unfolds: Solver steps for each step of the sequence.
        sparsity: Share of the synapses between two groups that are left out, from 0.1 to 0.9.
        seed: Seed of the wiring.

    Example:
        >>> LTCNCP(7, 16)(torch.rand(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        *,
        unfolds: int = 6,
        sparsity: float = 0.5,
        seed: int = 22222,
        time_scale: float = 1.0,
    ) -> None:
        from ncps.wirings import AutoNCP  # keeps `import nacre` light

        super().__init__(d_input, d_model, time_scale)
        self.unfolds = whole("unfolds", unfolds, 1)
        self.sparsity = real("sparsity", sparsity, 0.1, 0.9)
        self.seed = whole("seed", seed, 0)
        self.motors = max(2, d_model // 4)
        check_size(d_input, max(d_model, 8))
        source = AutoNCP(max(d_model, 8), self.motors, sparsity_level=sparsity, seed=seed)
        self.neurons = LTCNeurons(Wiring.from_ncps(source, d_input), unfolds)
        self.out_proj = nn.Linear(self.motors, d_model)

    def start(self, like: Tensor) -> State:
        """See `RecurrentModel`."""
        return (like.new_zeros(like.shape[0], len(self.neurons.rest)),)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        states = self.neurons(steps.x, steps.elapsed(1.0), state and state[0])
        return self.out_proj(states[..., : self.motors]), (states,)  # ncps puts motor neurons first
