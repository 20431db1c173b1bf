"""The demo: its task, seeds, errors and controls, and what it shows of a trace."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from nacre.data.sets.spirals import END, HALF, load_spirals
from nacre.demo import run
from nacre.demo.figures import summarise
from nacre.study.spiral.data import direction_mean
from nacre.tasks.recipe import Profile, load_recipe
from nacre.tasks.task import load_task
from nacre.train.cell import Cell
from nacre.train.run_cell import run_cell
from support.demo import N, make_small
from support.pages import tool

CONTROLS = ["straight lines, then last point held", "average training spiral of its family"]


@pytest.fixture
def small(monkeypatch):
    make_small(monkeypatch)
    for name in ("plot_spirals", "plot_losses", "plot_circuit", "plot_trace"):
        monkeypatch.setattr(run, name, lambda *_: b"")


@pytest.fixture
def untrained(small, monkeypatch):
    """Without training; a list of the cells that would have been trained, and of their networks."""
    asked = []
    monkeypatch.setattr(run, "fit_cell", lambda cell, network, _: asked.append((cell, network)))
    monkeypatch.setattr(run, "_read_log", lambda _: {"step": [0.0]})
    return asked


def measure(steps=1, seed=1, spread=0.02):
    return run.compare(Console(quiet=True), steps, seed, spread)[0]


# --- task and seeds -----------------------------------------------------------------------------------------


def test_the_task_is_that_of_nacre_train_with_other_spirals():
    recipe = load_recipe("spiral").at(Profile.STANDARD)
    task = run.load_demo(run.STEPS, 7, 0.05)
    assert replace(task.recipe, data=recipe.data) == recipe  # the steps, too
    assert task.data.digest == load_spirals(seed=7, spread=0.05).digest
    assert task.data.digest != load_task(recipe).data.digest
    assert run.load_demo(80, 7, 0.05).recipe.training.steps == 80


def test_all_models_get_the_same_spirals_and_the_seed_is_that_of_everything(untrained, monkeypatch):
    measure(seed=7)
    assert [cell.model for cell, _ in untrained] == ["nac-plus", "sdpa", "cfc-fc", "nac"]
    for cell, network in untrained:
        assert (cell.fold, cell.seed, cell.profile) == (0, 7, Profile.STANDARD)
        assert cell.task is untrained[0][0].task
        assert cell.task.data.digest == load_spirals(N, seed=7).digest
        expected = cell.task.network(cell.model, 0, 7).state_dict()
        assert all(torch.equal(expected[name], value) for name, value in network.state_dict().items())


def test_the_number_of_steps_reaches_training_in_whole_rounds(small, monkeypatch):
    monkeypatch.setattr(run, "MODELS", ("nac-plus",))
    result = measure(steps=21)
    assert result.settings == {"seed": 1, "steps": 40, "spread": 0.02}
    assert result.losses["nac-plus"]["step"] == [2.0 * i for i in range(1, 21)]


@pytest.mark.slow
def test_it_is_deterministic_under_its_seed(small, monkeypatch):
    monkeypatch.setattr(run, "MODELS", ("nac-plus", "cfc-fc"))
    first = measure()
    assert replace(measure(), seconds={}) == replace(first, seconds={})
    assert measure(seed=2).losses != first.losses
    assert measure(spread=0.05).losses != first.losses


def test_bad_settings(tmp_path):
    with pytest.raises(ValueError, match="steps must be at least 1"):
        run.run_demo(tmp_path, steps=0)
    for seed in (0, 100):  # these are what the settings were chosen on
        with pytest.raises(ValueError, match=f"seed must be 1 to 99, got {seed}"):
            run.run_demo(tmp_path, seed=seed)
    with pytest.raises(ValueError, match="spread must lie in"):
        run.run_demo(tmp_path, spread=0.2)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        run.run_demo(tmp_path / "file")


def test_ctrl_c_leaves_no_file(small, tmp_path, monkeypatch):
    runs = []

    def interrupted(cell, *_):
        cell.directory.mkdir(parents=True)
        runs.append(cell.out)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "fit_cell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.run_demo(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert [folder.exists() for folder in runs] == [False]


# --- errors and controls ------------------------------------------------------------------------------------


def test_parity_errors_are_those_of_nacre_train(small, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "MODELS", ("nac-plus",))
    found = measure(steps=20, seed=3).models["nac-plus"]["mse"]
    cell = Cell(run.load_demo(20, 3, 0.02), "nac-plus", 0, 3, Profile.STANDARD, tmp_path)
    metrics = run_cell(cell)["metrics"]
    for part in ("interpolation", "extrapolation"):
        assert found[part] == pytest.approx(metrics[f"{part} mse"], rel=1e-6)


def test_sequences_are_taken_apart_into_spirals():
    data = load_spirals(N, seed=4)
    index = torch.tensor([3, 8, 21])
    spirals = run.spirals_of(data, index)
    assert spirals.x.shape == (3, 50, 2)
    assert spirals.target.shape == (3, 150, 2)
    for i, number in enumerate(index.tolist()):
        rows = range(200 * number, 200 * (number + 1))
        seen = [row for row in rows if data.values[row, 2] == 1]
        asked = [row for row in rows if data.values[row, 2] == 0]
        assert torch.equal(spirals.x[i], data.values[seen, :2])
        assert torch.equal(spirals.time[i], data.time[seen])
        assert torch.equal(spirals.target[i], data.y[asked])
        assert torch.equal(spirals.target_time[i], data.time[asked])
    step = spirals.target.diff(dim=1).norm(dim=-1)  # clockwise ones wind inwards, the others outwards
    assert torch.equal(step[:, :HALF].sum(1) > step[:, HALF:].sum(1), spirals.clockwise)


def test_straight_lines_interpolate_and_then_hold():
    test = run.spirals_of(load_spirals(N), torch.arange(N))
    control = run.straight_lines(test)
    assert control.shape == test.target.shape
    torch.testing.assert_close(control[:, HALF:], test.x[:, -1:].expand(-1, HALF, -1), check_dtype=False)
    at = test.target_time.unsqueeze(2) == test.time.unsqueeze(1)  # [n, 150, 50]: every observation is asked about
    assert (at.sum((1, 2)) == 50).all()
    spiral, asked, seen = at.nonzero().unbind(1)
    torch.testing.assert_close(control[spiral, asked], test.x[spiral, seen], check_dtype=False)
    assert (control - test.target)[:, :HALF].square().mean().sqrt() < 0.2 < (control - test.target).abs().max()


def test_the_controls_learn_from_training_spirals_alone(untrained):
    result = measure()
    assert list(result.controls) == CONTROLS
    task = untrained[0][0].task
    split = task.splits[0]
    train, test = (run.spirals_of(task.data, part) for part in (split.train, split.test))
    average = direction_mean(train, test)
    for turn in (False, True):
        wanted = train.target[train.clockwise == turn].mean(0)
        assert (average[test.clockwise == turn] == wanted).all()
    outside = torch.cat([split.train, split.valid])
    spread = run.spirals_of(task.data, outside).target.double().flatten(0, 1).std(0, correction=0)
    for name, guess in zip(CONTROLS, (run.straight_lines(test), average), strict=True):
        off = (guess - test.target) / spread
        assert result.controls[name]["mse"]["interpolation"] == pytest.approx(off[:, :HALF].square().mean().item())
        assert result.controls[name]["mae"]["extrapolation"] == pytest.approx(off[:, HALF:].abs().mean().item())
    assert result.spirals == {"train": len(split.train), "valid": len(split.valid), "test": len(split.test)}


# --- the trace ----------------------------------------------------------------------------------------------


def trace_of(small_task, model):
    network = small_task.network(model, 0, 0)
    return network, run.trace_of(network, small_task.data, small_task.splits[0].test[:1])


def test_a_trace_is_of_the_layer_in_the_network_and_leaves_no_observer(small):
    task = run.load_demo(20, 1, 0.02)
    network, trace = trace_of(task, "nac-plus")
    layer = run.layer_of(network)
    assert layer.observer is None
    inputs = []
    hook = layer.register_forward_pre_hook(lambda _, args, kwargs: inputs.append((args, kwargs)), with_kwargs=True)
    with torch.no_grad():
        batch = task.data.batch(task.splits[0].test[:1])
        network(batch.x, batch.time, batch.key_padding_mask, query_only=batch.query_only)
        hook.remove()
        (args, kwargs) = inputs[0]
        again = layer(*args, **kwargs, return_trace=True)[1]
    assert torch.equal(trace.index, again.index)
    torch.testing.assert_close(trace.weights, again.weights)
    torch.testing.assert_close(trace.command, again.command)


def test_the_trace_is_summarised_by_attention_weight(small):
    task = run.load_demo(20, 1, 0.02)
    _, trace = trace_of(task, "nac-plus")
    clock, command, gates = summarise(trace).values()
    weights = trace.weights[0, 0, 70]
    assert list(gates) == [r"$\phi$ (target)", r"$\omega$ (decay rate)", "t (internal time)"]
    for values, gate in zip(gates.values(), (trace.phi, trace.omega, trace.t), strict=True):
        assert values.shape == (200,)
        assert values[70] == pytest.approx(float(weights @ gate[0, 0, 70]), rel=1e-5)
    means = (trace.weights[0, 0, ..., None] * trace.command[0, 0]).sum(1).numpy()  # [200, n]
    order = np.argsort(-means.std(0))[:3]
    assert list(command) == [f"command {i}" for i in order]
    np.testing.assert_allclose(np.stack(list(command.values()), 1), means[:, order], rtol=1e-5, atol=1e-6)
    # A clock neuron is what its name says of the time from key to query.
    time = task.data.batch(task.splits[0].test[:1]).time[0] / END
    elapsed = time[70] - time[trace.index[0, 0, 70]]
    for name, values in clock.items():
        wave, scale = name[:3], float(name.removesuffix(")").split(" / ")[1])
        expected = weights.double() @ getattr(torch, wave)(elapsed / scale)
        assert values[70] == pytest.approx(float(expected), abs=0.02), name  # names have three digits
    _, trace = trace_of(task, "nac")
    assert len(summarise(trace)) == 2  # it has no clock


# --- the tool -----------------------------------------------------------------------------------------------


def test_the_tool_for_several_seeds_writes_every_error(untrained, tmp_path, monkeypatch):
    demo_seeds = tool("demo_seeds")
    written = {}
    monkeypatch.setattr(run, "plot_spirals", lambda data, *_: data.x.numpy().tobytes())
    monkeypatch.setattr(demo_seeds, "SEEDS", (1, 2))
    monkeypatch.setattr(demo_seeds, "PICTURE", tmp_path / "spirals.png")
    monkeypatch.setattr(demo_seeds, "write_result", lambda name, result: written.update({name: result}))
    demo_seeds.main()
    result = written["spirals-demo.json"]
    assert {"command", "commit", "machine", "versions"} <= set(result)
    assert list(result["seconds"]) == list(result["parameters"]) == list(run.MODELS)
    for metric in ("mse", "mae"):
        assert list(result[metric]) == [*run.MODELS, *CONTROLS]
        for errors in result[metric].values():
            assert [len(errors[part]) for part in ("interpolation", "extrapolation")] == [2, 2]
    data = load_spirals(N, seed=1)
    shown = run.spirals_of(data, run.load_demo(20, 1, 0.02).splits[0].test).x
    assert (tmp_path / "spirals.png").read_bytes() == shown.numpy().tobytes()
