"""The demo's networks: cores that keep to their rules, in one body, and the summary of a trace."""

import numpy as np
import pytest
import torch

from nacre.data.sets.spirals import END, HALF, make_spirals
from nacre.demo.figures import summarise
from nacre.demo.networks import CORES, CfCCore, NACCore, SDPACore
from nacre.demo.run import build

every_core = pytest.mark.parametrize("name", CORES)


def batch(n=3):
    _, test = make_spirals(n=30)
    return test.x[:n], test.time[:n], test.target_time[:n]


def net_of(name):
    return build(name, seed=0)


@every_core
def test_a_batch_equals_its_samples(name):
    net, inputs = net_of(name), batch()
    with torch.no_grad():
        whole = net(*inputs)
        assert whole.shape == (3, 150, 2)
        for i in range(3):
            torch.testing.assert_close(whole[i : i + 1], net(*(x[i : i + 1] for x in inputs)))


@every_core
def test_every_parameter_gets_a_gradient(name):
    net = net_of(name)
    net(*batch(8)).square().sum().backward()
    still = [n for n, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


def test_a_shift_of_time_changes_nothing_in_the_nac_core():
    core, (_, time, asked) = NACCore(), batch()
    seen, questions = torch.randn(3, 50, 16), torch.randn(3, 150, 16)
    with torch.no_grad():
        torch.testing.assert_close(core.encode(seen, time + 64), core.encode(seen, time), atol=1e-5, rtol=1e-4)
        here, there = (core.decode(questions, asked + s, seen, time + s) for s in (0, 64))
        torch.testing.assert_close(here, there, atol=1e-5, rtol=1e-4)
        assert not torch.allclose(here, core.decode(questions, asked + 3, seen, time), atol=1e-4)


def test_the_sdpa_core_knows_time_only_from_its_inputs():
    core, (_, time, asked) = SDPACore(), batch()
    seen, questions = torch.randn(3, 50, 16), torch.randn(3, 150, 16)
    assert torch.equal(core.encode(seen, time), core.encode(seen, 2 * time))
    assert torch.equal(core.decode(questions, asked, seen, time), core.decode(questions, 2 * asked, seen, time))


@every_core
def test_who_looks_ahead(name):
    """A change of the 20th observation: CfC alone does not notice it before that moment."""
    net, (x, time, asked) = net_of(name), batch()
    moved = x.clone()
    moved[:, 20] += 0.3
    earlier = asked < time[:, 20:21]
    with torch.no_grad():
        before, after = net(x, time, asked), net(moved, time, asked)
    assert torch.equal(before[earlier], after[earlier]) == (name == "CfC")
    at = asked == time[:, 20:21]
    assert at.sum() == 3
    assert (before[at] != after[at]).all()  # seen at the asked time itself counts


def test_the_cfc_core_equals_a_loop_over_single_steps():
    core, time, asked = CfCCore(), torch.tensor([[1.0, 2.5, 4.0]]), torch.tensor([[0.5, 1.0, 3.0, 9.0]])
    seen, questions = torch.randn(1, 3, 16), torch.randn(1, 4, 16)
    zero, end = torch.zeros(1, 16), END

    def step(cell, x, state, elapsed):
        return cell(x, state, torch.tensor([[elapsed / end]]))[0]

    state, states = zero, []
    for i, elapsed in enumerate([0.0, 1.5, 1.5]):
        state = step(core.encoder, seen[:, i], state, elapsed)
        states.append(state)
    torch.testing.assert_close(core.encode(seen, time), torch.stack(states, 1))

    starts = [(zero, 0.0), (seen[:, 0], 0.0), (seen[:, 1], 0.5), (seen[:, 2], 5.0)]
    wanted = [step(core.decoder, questions[:, i], *start) for i, start in enumerate(starts)]
    torch.testing.assert_close(core.decode(questions, asked, seen, time), torch.stack(wanted, 1))


def test_elapsed_time_matters_to_the_cfc_core():
    core, (_, time, asked) = CfCCore(), batch()
    seen, questions = torch.randn(3, 50, 16), torch.randn(3, 150, 16)
    assert not torch.allclose(core.encode(seen, time), core.encode(seen, 2 * time), atol=1e-4)
    later = asked[:, HALF:]
    here, there = (core.decode(questions[:, HALF:], later + s, seen, time) for s in (0, 3))
    assert not torch.allclose(here, there, atol=1e-4)


def test_the_trace_is_summarised_by_attention_weight():
    with torch.no_grad():
        trace = net_of("NAC").trace(*batch(1))
    neurons, gates = summarise(trace)
    assert list(gates) == [r"$\phi$ (target)", r"$\omega$ (decay rate)", "t (internal time)"]
    weights = trace.weights[0, 0, 70]
    for values, gate in zip(gates.values(), (trace.phi, trace.omega, trace.t), strict=True):
        assert values.shape == (150,)
        assert values[70] == pytest.approx(float(weights @ gate[0, 0, 70]), rel=1e-5)
    means = (trace.weights[0, 0, ..., None] * trace.command[0, 0]).sum(1).numpy()  # [150, n]
    order = np.argsort(-means.std(0))[:3]
    assert list(neurons) == [f"command {i}" for i in order]
    np.testing.assert_allclose(np.stack(list(neurons.values()), 1), means[:, order], rtol=1e-5, atol=1e-6)


def test_only_nac_has_a_trace():
    with pytest.raises(TypeError, match="only a NACCore has a trace, got SDPACore"):
        net_of("SDPA").trace(*batch(1))
