"""Several processes on one cell: a batch in parts with the mathematics of the whole; what is refused."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data import from_arrays
from nacre.data.batches import part_of
from nacre.data.dataset import is_scored
from nacre.tasks.recipe_sections import NetworkRecipe
from nacre.train.lightning_module import Training
from nacre.train.run_cell import run_cell
from nacre.train.scale.options import Processes
from nacre.train.scale.torchrun import launch, needs_launch
from nacre.train.scale.worker_group import WorkerGroup, join_group
from support.train import (
    cell,
    nacre,
    outcome,
    spirals,
    task_of,
    waves,
    with_data,
)


class Fake(WorkerGroup):
    """One of several processes, without the others."""

    def __init__(self, rank, size):
        self.rank, self.processes = rank, Processes(size)


def holes(kind="step-regression"):
    """Sequences of 3 to 9 steps, some of whose numbers are not known."""
    random = np.random.default_rng(0)
    x = [random.normal(size=(n, 2)) for n in (3, 9, 4, 7, 5, 3, 8, 6, 9)]
    y = [random.normal(size=(len(item), 2)) if kind == "step-regression" else random.normal(size=2) for item in x]
    task = task_of(from_arrays(x, y, kind=kind, name="holes"))
    unknown = task.data.y.clone()
    unknown[::3, 0] = torch.nan  # one number of the two
    unknown[1::4] = torch.nan
    return with_data(task, y=unknown)


def strided():
    task = waves()
    return replace(task, recipe=replace(task.recipe, network=NetworkRecipe(8, 2, conv=((4, 3, 2),))))


def training(task, model, group):
    torch.manual_seed(0)
    network = task.network(model, 0, 0).double()
    module = Training(network, task.recipe.training, 0, 12, group)
    module.logged = []
    module.log = lambda name, value, **options: module.logged.append((name, value, options))
    return module


def doubled(batch):
    return batch._replace(x=batch.x.double(), y=batch.y.double() if batch.y.is_floating_point() else batch.y)


def gradients(module):
    return {name: parameter.grad for name, parameter in module.network.named_parameters()}


# Parts of batches.


@given(st.integers(1, 9), st.integers(1, 5))
def test_parts_hold_every_sequence_once_as_long_as_before_and_stand_ins_score_nothing(sequences, parts):
    task = holes()
    batch = task.data.batch(torch.arange(sequences))
    pieces = [part_of(batch, part, parts) for part in range(parts)]
    real = pieces[:sequences]
    steps = {tuple(row.flatten().tolist()) for piece in real for row in piece.x}
    assert steps == {tuple(row.flatten().tolist()) for row in batch.x}
    assert sum(len(piece.x) for piece in real) == sequences
    for piece in pieces:
        assert piece.x.shape[1:] == batch.x.shape[1:]
        assert len({len(value) for value in piece if value is not None}) == 1
    for stand_in in pieces[sequences:]:
        assert len(stand_in.x) == 1
        assert not is_scored(stand_in.y, task.data.kind).any()


def test_a_stand_in_of_a_classifier_scores_nothing():
    task = waves()
    stand_in = part_of(task.data.batch(torch.arange(1)), 1, 2)
    assert not is_scored(stand_in.y, task.data.kind).any()


MAKERS, MODELS = (waves, spirals, holes, strided), ("nac", "ot-transformer", "deepstate")  # two add to the loss
# Each kind of task, model and pair of numbers in `make test`, all of their combinations in `make test-deep`.
FEW = [(waves, "nac", (5, 2)), (waves, "deepstate", (1, 2)), (holes, "ot-transformer", (4, 3))]
FEW += [(holes, "nac", (1, 2)), (strided, "ot-transformer", (5, 2)), (strided, "deepstate", (4, 3))]
FEW += [(spirals, "nac", (4, 3))]
CASES = [
    pytest.param(*case, marks=() if case in FEW else pytest.mark.deep)
    for case in product(MAKERS, MODELS, [(5, 2), (4, 3), (1, 2)])
]


@pytest.mark.parametrize(("make", "model", "parts"), CASES)
def test_the_mean_over_processes_is_the_loss_and_gradient_of_one(make, model, parts):
    sequences, size = parts
    task = make()
    batch = doubled(task.data.batch(torch.arange(sequences)))
    alone = training(task, model, WorkerGroup())
    alone.training_step(batch, 0).backward()
    others = [training(task, model, Fake(rank, size)) for rank in range(size)]
    for one in others:
        one.training_step(batch, 0).backward()
    logged = torch.stack([one.logged[0][1] for one in others]).mean()
    torch.testing.assert_close(logged, alone.logged[0][1], rtol=1e-12, atol=1e-14)
    for name, wanted in gradients(alone).items():
        found = torch.stack([gradients(one)[name] for one in others]).mean(0)
        torch.testing.assert_close(
            found, wanted, rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("kind", ["step-regression", "regression"])
def test_the_validation_loss_of_several_is_that_of_one(kind):
    task = holes(kind)
    batches = [doubled(task.data.batch(torch.arange(9)[part])) for part in (slice(0, 5), slice(5, 6), slice(6, 9))]

    def loss(group):
        module = training(task, "sdpa", group)
        for batch in batches:
            module.validation_step(batch, 0)
        values = [value * options["batch_size"] for _, value, options in module.logged]
        return sum(values), sum(options["batch_size"] for *_, options in module.logged), module.logged

    total, weight, logged = loss(WorkerGroup())
    assert not any(options["sync_dist"] for *_, options in logged)
    parts = [loss(Fake(rank, 2)) for rank in range(2)]
    assert all(options["sync_dist"] for *_, logged in parts for *_, options in logged)
    # Lightning adds values times sizes over processes, and divides by the sum of the sizes.
    found = sum(part[0] for part in parts) / sum(part[1] for part in parts)
    torch.testing.assert_close(found, total / weight, rtol=1e-12, atol=0.0)


def test_each_process_drops_out_other_neurons_and_the_first_those_of_one_process(monkeypatch):
    monkeypatch.setattr(Training, "global_step", 7)
    draws = []
    for group in (WorkerGroup(), Fake(0, 2), Fake(1, 2), Fake(1, 2)):
        training(waves(), "sdpa", group).on_train_batch_start(None, 0)
        draws.append(torch.rand(5))
    assert draws[0].equal(draws[1])
    assert not draws[1].equal(draws[2])
    assert draws[2].equal(draws[3])


# Who is started, and what is refused.


def test_processes_are_started_only_where_there_are_several_and_torchrun_has_not_started_them(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert needs_launch(Processes(2))
    assert needs_launch(Processes(1, 2))
    assert not needs_launch(Processes())
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "some")
    assert not needs_launch(Processes(2))


def test_several_nodes_get_the_command_to_type_on_each(monkeypatch):
    monkeypatch.setattr("sys.argv", ["nacre", "train", "spiral", "--devices", "4", "--nodes", "2"])
    wanted = (
        r"--nodes 2 needs torchrun.*torchrun --nnodes 2 --nproc-per-node 4 .* -m nacre train spiral --devices 4"
    )
    with pytest.raises(ValueError, match=wanted):
        launch(Processes(4, 2))


@pytest.mark.parametrize(
    ("processes", "world", "local"),
    [(Processes(), 2, 2), (Processes(2), 4, 4), (Processes(2, 2), 4, 4), (Processes(2), 4, 2)],
)
def test_a_world_that_is_not_the_one_asked_for_is_named_by_one_process(monkeypatch, processes, world, local):
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("WORLD_SIZE", world), ("LOCAL_WORLD_SIZE", local)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("RANK", "0")
    with (
        pytest.raises(ValueError, match=rf"started {world} processes, {local} on this node.*--nproc-per-node"),
        join_group(processes),
    ):
        pass
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as end, join_group(processes):
        pass
    assert end.value.code is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--executor", "ray", "--devices", "2"], "--executor ray gives each cell one process, got --devices 2"),
        (["--executor", "ray", "--nodes", "2"], "got --devices 1 --nodes 2; choose one"),
        (["--address", "auto"], "--address, --cpus and --gpus need --executor ray"),
        (["--cpus", "2"], "need --executor ray"),
        (["--executor", "ray", "--address", ""], "address must be host:port"),
    ],
)
def test_options_that_do_not_go_together_are_refused(monkeypatch, capsys, tmp_path, options, message):
    monkeypatch.chdir(tmp_path)
    assert nacre(monkeypatch, "train", "spiral", *options) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_outcomes_of_one_process_have_no_word_of_processes(tmp_path):
    run = cell(waves(), tmp_path)
    run_cell(run)
    assert not {"processes", "strategy"} & set(outcome(run.directory)[3])
