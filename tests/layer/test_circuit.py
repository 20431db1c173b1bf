"""The general cell, and the gates as its exact fast paths."""

import ncps.wirings
import numpy as np
import pytest
import torch

from nacre import Backbone, NCPCell, SensoryGate, Wiring
from nacre.layer.backbone import plan
from nacre.wiring.builders import WiringKind, backbone_wiring, sensory_wiring
from support.cases import combinations, pairwise

KINDS = [str(k) for k in WiringKind]


def noisy(module):
    for p in module.parameters():
        torch.nn.init.normal_(p)
    return module.double()


def pairs_through(backbone, q, k):
    """[M, D] queries and keys, pairwise: [H, M, 2]."""
    wired = backbone.wire()
    heads = backbone.weights.output_scale.shape[0]
    a, b = wired.project(q.expand(heads, -1, -1), k.expand(heads, -1, -1))
    return wired.settle(a + b)


def test_a_step_is_algorithm_1():
    wiring = backbone_wiring("ncp", 6, 20, 0.5, 1)
    cell = noisy(NCPCell(wiring))
    u, x = torch.randn(3, 6).double(), torch.randn(3, 20).double()
    y, new = cell(u, x)
    w_in, w_rec = cell.weights.input_weight.dense()[0], cell.weights.recurrent_weight.dense()[0]
    assert torch.equal(w_in != 0, torch.as_tensor(wiring.input_adjacency != 0))
    assert torch.equal(w_rec != 0, torch.as_tensor(wiring.adjacency != 0))
    drive = (u * cell.weights.input_scale.weight[0] + cell.weights.input_shift.weight[0]) @ w_in
    want = torch.tanh(x @ w_rec + drive + cell.weights.bias.weight[0])
    torch.testing.assert_close(new, want)
    torch.testing.assert_close(y, want[:, :2] * cell.weights.output_scale + cell.weights.output_shift)


def test_settling_is_stepping_from_rest_with_the_input_held():
    cell = noisy(NCPCell(backbone_wiring("random", 6, 20, 0.5, 1)))
    u = torch.randn(3, 6).double()
    y = state = None
    for _ in range(5):
        y, state = cell(u, state)
    settled, last = cell.settle(u, 5)
    assert torch.equal(settled, y)
    assert torch.equal(last, state)


def test_as_a_recurrent_cell_it_remembers():
    cell = noisy(NCPCell(backbone_wiring("ncp", 6, 20, 0.5, 1)))
    state = None
    _first, _ = cell.settle(torch.randn(1, 6).double(), 1)
    for _ in range(4):
        _y, state = cell(torch.randn(1, 6).double(), state)
    u = torch.randn(1, 6).double()
    assert not torch.allclose(cell(u, state)[0], cell(u)[0])


def test_disabled_groups_stay_silent_and_have_no_parameters():
    wiring = backbone_wiring("ncp", 6, 20, 0.5, 1)
    cell = NCPCell(wiring, output_group="inter", disabled=("command", "motor"))
    y, state = cell.settle(torch.randn(4, 6), 3)
    silent = list(wiring.group("command") + wiring.group("motor"))
    assert (state[:, silent] == 0).all()
    assert (state[:, list(wiring.group("inter"))] != 0).all()
    assert y.shape == (4, len(wiring.group("inter")))
    assert cell.weights.recurrent_weight is None  # inter neurons have no synapses among themselves
    assert cell.weights.bias.weight.numel() == len(wiring.group("inter"))


def test_input_group_limits_where_the_input_goes():
    wiring = backbone_wiring("random", 6, 20, 0.5, 1)
    cell = NCPCell(wiring, input_group="inter", bias=False)
    _, state = cell(torch.randn(4, 6))
    assert (state[:, list(wiring.group("motor"))] == 0).all()
    assert (NCPCell(wiring, bias=False)(torch.randn(4, 6))[1][:, list(wiring.group("motor"))] != 0).any()


def test_parity_sensory_gate_is_the_settled_cell():
    for case in pairwise(KINDS, [True, False], ["tanh", "sigmoid"]):
        kind, bias, activation = case
        gate = noisy(SensoryGate(sensory_wiring(kind, 7, 12, 0.5, 1), bias=bias, activation=activation))
        u = torch.randn(5, 7).double()
        assert torch.allclose(gate(u), gate.cell().settle(u, 1)[0], rtol=1e-12, atol=1e-12), case


WIRINGS = {
    **{kind: backbone_wiring(kind, 6, 20, 0.7, 1) for kind in KINDS},
    "sparse random": backbone_wiring("random", 6, 30, 0.95, 3),
    "motor fed directly": Wiring([[0, 0, 0], [0, 0, 0], [1, 0, 0]], np.ones((6, 3)), ("motor", "motor", "inter")),
    "motor listens to motor": Wiring(
        [[1, -1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0]],
        np.eye(6, 4, 2),
        ("motor", "motor", "command", "inter"),
    ),
    "neuron without any input": Wiring(
        [[0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0]],
        [[0, 0, 1, 0]] * 6,
        ("motor", "motor", "inter", "command"),
    ),
    "dead ends": Wiring(
        [[0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [1, 1, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]],
        [[0, 0, 1, 0, 0]] * 5 + [[0, 0, 0, 1, 0]],
        ("motor", "motor", "inter", "command", "command"),
    ),
    "long chain": Wiring(
        np.eye(8, 8, -1) + np.outer(np.arange(8) == 2, np.arange(8) == 0),
        np.outer(np.ones(6), np.arange(8) == 7),
        ("motor",) * 2 + ("inter",) * 6,
    ),
}


@pytest.mark.parametrize(("name", "extra", "bias"), combinations(list(WIRINGS), [0, 1, 4], [True, False]))
def test_parity_backbone_is_the_settled_cell(name, extra, bias):
    wiring = WIRINGS[name]
    steps = wiring.steps_to(wiring.group("motor")) + extra
    backbone = noisy(Backbone(wiring, heads=2, settle_steps=steps, bias=bias))
    q, k = torch.randn(5, 3).double(), torch.randn(5, 3).double()
    y, states = pairs_through(backbone, q, k)
    for head in range(2):
        cell = backbone.cell(head)
        # What the backbone left out cannot act: any value will do there.
        for mine, its in (
            (backbone.weights.recurrent_weight, cell.weights.recurrent_weight),
            (backbone.weights.input_weight, cell.weights.input_weight),
            (backbone.weights.bias, cell.weights.bias),
        ):
            if mine is not None and its is not None:
                left_out = ~torch.isin(its.index, mine.index)
                its.weight.data[0, left_out] = torch.randn(int(left_out.sum())).double()
        want, state = cell.settle(torch.cat([q, k], 1), steps)
        torch.testing.assert_close(y[head], want, rtol=1e-12, atol=1e-12)
        motor = list(wiring.group("motor"))
        torch.testing.assert_close(
            states[tuple(motor)][head].expand(5, 2), state[:, motor], rtol=1e-12, atol=1e-12
        )


def test_every_parameter_of_any_wiring_acts():
    for name, wiring in WIRINGS.items():
        backbone = noisy(Backbone(wiring))
        y, _ = pairs_through(backbone, torch.randn(50, 3).double() / 3, torch.randn(50, 3).double() / 3)
        y.square().sum().backward()
        for key, p in backbone.named_parameters():
            assert (p.grad != 0).all(), f"{name}: {key}"


def test_default_settle_steps_follow_the_wiring():
    assert Backbone(WIRINGS["ncp"]).settle_steps == 4
    assert Backbone(WIRINGS["long chain"]).settle_steps == 7
    with pytest.raises(ValueError, match="settle_steps must be at least 7 .* with 5 the input does not reach"):
        Backbone(WIRINGS["long chain"], settle_steps=5)


def test_plan_computes_inter_once_and_motor_last():
    wiring = WIRINGS["ncp"]
    once, stages = plan(wiring.input_adjacency, wiring.adjacency, wiring.group("motor"), 4)
    assert once == wiring.group("inter")
    assert [set(s.neurons) <= set(wiring.group("command")) for s in stages] == [True, True, True, False]
    assert stages[-1].neurons == wiring.group("motor")
    # a feed-forward wiring needs one stage, however many steps it settles
    mlp = WIRINGS["mlp"]
    assert len(plan(mlp.input_adjacency, mlp.adjacency, mlp.group("motor"), 9)[1]) == 1


def test_polarity_sets_the_sign_of_new_weights():
    backbone = Backbone(WIRINGS["ncp"])
    signs = backbone.weights.recurrent_weight.dense()[0].sign()
    assert torch.equal(signs, torch.tensor(WIRINGS["ncp"].adjacency).float())


def test_fp64_gradcheck_of_cell_and_gates():
    wiring = Wiring.from_ncps(ncps.wirings.AutoNCP(8, 2), 4)
    cell = noisy(NCPCell(wiring))
    u = torch.randn(2, 4).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda u: cell.settle(u, 4)[0], (u,))
    backbone = noisy(Backbone(wiring))
    parameters = [p.detach().requires_grad_() for p in backbone.parameters()]
    names = [n for n, _ in backbone.named_parameters()]

    class Settle(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = backbone

        def forward(self, q, k):
            return pairs_through(self.net, q, k)[0]

    def run(q, k, *values):
        named = {f"net.{n}": v for n, v in zip(names, values, strict=True)}
        return torch.func.functional_call(Settle(), named, (q, k))

    q, k = torch.randn(2, 2).double().requires_grad_(), torch.randn(2, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(run, (q, k, *parameters))


def test_bad_input_to_a_cell():
    wiring = WIRINGS["ncp"]
    cell = NCPCell(wiring)
    with pytest.raises(ValueError, match=r"u must have 6 numbers in its last dimension, got shape \(3, 5\)"):
        cell(torch.randn(3, 5))
    with pytest.raises(ValueError, match="state must have 20 numbers"):
        cell(torch.randn(3, 6), torch.randn(3, 19))
    with pytest.raises(TypeError, match="floating-point"):
        cell(torch.ones(3, 6, dtype=torch.long))
    with pytest.raises(TypeError, match=r"u must be a torch\.Tensor, got list"):
        cell([1.0])
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        cell.settle(torch.randn(3, 6), 0)
    with pytest.raises(ValueError, match="activation must be one of .* got 'tan'; did you mean 'tanh'"):
        NCPCell(wiring, activation="tan")
    with pytest.raises(ValueError, match="output_group must be one of"):
        NCPCell(wiring, output_group=("motor", "muscle"))
    with pytest.raises(ValueError, match="disabled must be one of"):
        NCPCell(wiring, disabled=("brain",))
    with pytest.raises(ValueError, match="output_group 'motor' has no active neuron"):
        NCPCell(wiring, disabled=("motor",))
    with pytest.raises(ValueError, match="no input reaches input_group 'command'"):
        NCPCell(wiring, input_group="command")


def test_masked_parameter_says_what_it_is():
    assert "existing=" in repr(NCPCell(WIRINGS["ncp"]).weights.input_weight)


def test_several_groups_can_be_fed_and_read():
    wiring = backbone_wiring("random", 6, 20, 0.5, 1)
    cell = NCPCell(wiring, input_group=("inter", "motor"), output_group=("inter", "motor"))
    y, state = cell(torch.randn(4, 6))
    assert torch.equal(y, state)
    only = NCPCell(wiring, input_group=("inter",), output_group=("inter", "motor"), bias=False)
    assert (only(torch.randn(4, 6))[1][:, list(wiring.group("motor"))] == 0).all()
