"""A backbone as rows: what the rows compute is the settled cell."""

import numpy as np
import pytest
import torch

from layer.test_circuit import WIRINGS, noisy
from nacre import Backbone
from nacre.native.program import Base, evaluate


@pytest.mark.parametrize("name", WIRINGS)
@pytest.mark.parametrize("extra", [0, 2])
def test_parity_rows_are_the_settled_cell(name, extra):
    wiring = WIRINGS[name]
    steps = wiring.steps_to(wiring.group("motor")) + extra
    backbone = noisy(Backbone(wiring, heads=2, settle_steps=steps))
    q, k = torch.randn(5, 3).double(), torch.randn(5, 3).double()
    wired, program = backbone.wire(), backbone.circuit.program
    drive = sum(wired.project(q.expand(2, -1, -1), k.expand(2, -1, -1)))
    motor = evaluate(program, "tanh", drive, None, wired.synapses(), wired.bias)[-2:].movedim(0, -1)
    for head in range(2):
        want, _ = backbone.cell(head).settle(torch.cat([q, k], 1), steps)
        torch.testing.assert_close(backbone.weights.read(motor)[head], want, rtol=1e-12, atol=1e-12)


def test_rows_hear_only_earlier_rows_and_end_with_the_outputs():
    for name, wiring in WIRINGS.items():
        program = Backbone(wiring).circuit.program
        assert (program.source < program.target).all(), name
        assert (np.diff(program.target) >= 0).all(), name
        held = program.kind == Base.ROW
        assert (program.base[held] < np.flatnonzero(held)).all(), name
        assert program.active[-2:].all(), name


def test_synapses_from_neurons_computed_once_are_walked_once():
    backbone = Backbone(WIRINGS["ncp"], settle_steps=7)
    program = backbone.circuit.program
    once = len(backbone.once)
    from_once = np.count_nonzero(program.source < once)
    assert from_once == np.count_nonzero(WIRINGS["ncp"].adjacency[list(backbone.once)])
