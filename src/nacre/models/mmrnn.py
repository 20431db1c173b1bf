"""mmRNN, also ODE-LSTM (Lechner and Hasani, 2022): memory in an LSTM cell, time in its output."""

from torch import Tensor, nn

from nacre._util.checks import choice, whole
from nacre.io import saveable
from nacre.models._base import Steps, unbind_time
from nacre.models._flow import SOLVERS, drifting_steps, flow, tanh_field
from nacre.models._lstm import LSTMModel
from nacre.models._recurrent import State, stack
from nacre.models._registry import ModelInfo, register
from nacre.models._search_space import Choice, Whole


@register(
    ModelInfo(
        "mmrnn",
        kind="CT-RNN",
        in_paper=True,
        paper="Lechner and Hasani, 2022",
        summary="LSTM whose output, but not its memory, flows in time",
        uses_time=True,
        causal=True,
        cost="T S d²",
        checked="torch.nn.LSTMCell, torchdiffeq",
        version=2,  # 2: solver steps of at most 5 units
    ),
    space={"solver": Choice((*SOLVERS,)), "unfolds": Whole(1, 6)},
)
@saveable("MMRNN")
class MMRNN(LSTMModel):
    """Mixed-memory recurrent network: an LSTM step, after which only h flows for the elapsed time.

        h', c = LSTM step from x and the last h, c
        h = state after dh/dt = V tanh(U h + a) + b, from h', for the time since the last step

    Memory c never flows, so that gradients reach far back through it however long the gaps are. States start at 0;
    output i is h after input i and its flow, which at the first step takes 1 unit of time. The order of the two
    steps, the field, whose hidden layer has the width d_model, and 3 solver steps are those of the paper's PyTorch
    code. Ours: the bias of the forget gate starts at 1, the others at 0; no solver step is longer than 5 units, so
    that a gap of more than 5 `unfolds` units counts as that long.

    Args:
        solver: "euler", "heun" or "rk4".
        unfolds: Solver steps between two inputs.

    Example:
        >>> MMRNN(7, 64)(torch.randn(2, 10, 7), time=torch.rand(2, 10).cumsum(1)).shape
        torch.Size([2, 10, 64])
    """

    def __init__(
        self, d_input: int, d_model: int, *, solver: str = "euler", unfolds: int = 3, time_scale: float = 1.0
    ) -> None:
        super().__init__(d_input, d_model, time_scale)
        choice("solver", solver, SOLVERS)
        self.solver = solver
        self.unfolds = whole("unfolds", unfolds, 1)
        self.field_in = nn.Linear(d_model, d_model)
        self.field_out = nn.Linear(d_model, d_model)

    def unroll(self, steps: Steps, state: State | None = None) -> tuple[Tensor, State]:
        """See `RecurrentModel`."""
        (dt,) = unbind_time([drifting_steps(steps.elapsed(1.0), self.unfolds)])
        h, c = state or self.start(steps.x)  # [B, d]
        field = tanh_field(self.field_in, self.field_out)
        states: list[State] = []
        for inputs, length in zip(self.cell.inputs(steps.x), dt, strict=True):
            h, c = self.cell(inputs, h, c)
            h = flow(field, h, length, self.unfolds, self.solver)
            states.append((h, c))
        after = stack(states)
        return after[0], after
