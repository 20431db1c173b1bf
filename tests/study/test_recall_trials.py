"""tools/recall_trials.py: every trial runs, and changes what nac-plus does."""

from pathlib import Path

import pytest
import torch

from nacre.study.recall.data import draw
from nacre.study.recall.network import RecallNetwork
from nacre.study.spec import ModelSpec

NAMES = (
    "explore",
    "anneal",
    "coarse",
    "coarse-1-block",
    "to-circuit",
    "raw",
    "tied",
    "fixed-gain",
    "short-periods",
)


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    import recall_trials

    monkeypatch.setattr(recall_trials.match, "_SHORTEST", 8.0)  # and put back what a trial changes
    return recall_trials


def losses(spec, steps=3):
    """Of a few training steps."""
    torch.manual_seed(0)
    net = RecallNetwork(spec)
    optimiser = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
    found = []
    for step in range(steps):
        sample = draw("time", 16, 40, torch.Generator().manual_seed(step))
        loss = torch.nn.functional.cross_entropy(net(sample), sample.answer)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    assert net.eval()(sample).isfinite().all()
    return found


def test_all_trials_are_tested(trials):
    assert tuple(trials.TRIALS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_trial_trains_and_is_not_nac_plus(trials, name):
    options = trials.TRIALS[name][2]
    plain = losses(ModelSpec("nac", tuple(options.items())))
    assert losses(trials.TrialSpec(name)) != plain


def test_the_layer_that_is_changed_equals_nac_plus(trials, monkeypatch):
    monkeypatch.setitem(trials.TRIALS, "unchanged", (trials.Trial, None, trials.PLUS))
    plain = losses(ModelSpec("nac", tuple(trials.PLUS.items())))
    assert losses(trials.TrialSpec("unchanged")) == pytest.approx(plain, rel=1e-5)
