"""Whatever is done to the files of a saved model, `nacre.load` gives a module that runs, ValueError or OSError."""

import shutil

import pytest
import torch

import nacre
from nacre.data.dataset import Kind
from support.fuzz import Damage
from support.hypothesis import DEEP
from support.memory import takes_at_most

SEEDS = 1000 if DEEP else 40  # of each case


def network(**options):
    return nacre.TaskNetwork("nac-plus", Kind.REGRESSION, 2, 2, d_model=4, num_heads=2, **options)


CASES = {
    "nac": lambda: nacre.NAC(4, 2, d_input=3, share_backbone=True, mode="steady", integrate=False),
    "nac-plus": lambda: nacre.create("nac-plus", d_input=3, d_model=4, num_heads=2, causal=True).double(),
    "encoder": lambda: nacre.NACEncoder(nacre.NACConfig(d_model=4, num_heads=1, d_input=3), 1, d_feedforward=2),
    "cfc-ncp": lambda: nacre.create("cfc-ncp", d_input=3, d_model=4, num_heads=1),
    "network": lambda: network(conv=[(3, 3, 1)], dense=[2], dropout=0.1, options={"seed": 3, "top_k": 2}),
    "run": lambda: network(image={"size": [4, 4], "conv": [[1, 3, 1]], "tokens": "frames"}),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Directories of all cases, and of a run."""
    torch.manual_seed(0)
    places = {case: tmp_path_factory.mktemp("saved") / case for case in CASES}
    for case, make in CASES.items():
        nacre.save(make(), places[case] / "model" if case == "run" else places[case])
    return places


def run(model):
    """A forward pass on inputs of the width that the module says it has."""
    kind = next(p.dtype for p in model.parameters())
    time = torch.tensor([[0.0, 1.0, 1.5, 4.0, 9.0]])
    if isinstance(model, nacre.TaskNetwork):
        image = model.config["image"]
        features = (*image["size"], model.config["d_input"]) if image else (model.config["d_input"],)
        steps = 1 if image and image.get("tokens") == "columns" else 5
        x = torch.ones(1, steps, *features, dtype=kind)
        return model(x, time[:, :steps], torch.zeros(1, steps).bool())
    width = model.d_input if hasattr(model, "d_input") else model.config.width
    return model(torch.ones(1, 5, width, dtype=kind), time=time)


def outcome(directory):
    try:
        model = nacre.load(directory)
    except (ValueError, OSError):
        return "refused"
    assert not model.training
    with torch.no_grad():
        assert len(run(model)) == 1
    return "ran"


@pytest.mark.parametrize("case", CASES)
def test_damage_is_refused_or_harmless(saved, tmp_path, case):
    outcomes = []
    for seed in range(SEEDS):
        place = tmp_path / "damaged"
        shutil.copytree(saved[case], place)
        damage = Damage(f"{case} {seed}", place / "model" if case == "run" else place)
        done = damage.do()
        try:
            with takes_at_most(40):
                outcomes.append(outcome(place))
        except BaseException as error:
            error.add_note(f"case {case}, seed {seed}: {done}")
            raise
        shutil.rmtree(place)
    assert {"refused", "ran"} == set(outcomes)
    assert outcomes.count("refused") > SEEDS / 2


@pytest.mark.parametrize("case", CASES)
def test_without_damage_all_run(saved, case):
    assert outcome(saved[case]) == "ran"
