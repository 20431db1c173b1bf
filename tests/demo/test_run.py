"""The demo: its seeds, batches, errors and controls."""

from pathlib import Path

import pytest
import torch
from rich.console import Console

from nacre.data.sets.spirals import HALF, make_spirals
from nacre.demo import report, run
from nacre.demo.networks import CORES, SpiralNet


def measure(monkeypatch, seed, spread=0.02):
    monkeypatch.setattr(run, "_draw", lambda *_: {})
    monkeypatch.setattr(run, "BATCH", 4)
    monkeypatch.setattr(run, "make_spirals", lambda seed, spread: make_spirals(30, seed, spread))
    return run.compare(Console(quiet=True), 2, seed, spread)[0]


def test_it_is_deterministic_under_its_seed(monkeypatch):
    first = measure(monkeypatch, 1)
    assert measure(monkeypatch, 1) == first
    assert measure(monkeypatch, 2).losses != first.losses
    assert measure(monkeypatch, 1, spread=0.05).losses != first.losses


def test_the_seed_is_that_of_data_weights_and_batches(monkeypatch):
    seeds = []
    build, train = run.build, run._train
    monkeypatch.setattr(run, "_draw", lambda *_: {})
    monkeypatch.setattr(
        run, "make_spirals", lambda seed, spread: seeds.append(seed) or make_spirals(30, seed, spread)
    )
    monkeypatch.setattr(run, "build", lambda name, seed: seeds.append(seed) or build(name, seed))
    monkeypatch.setattr(run, "_train", lambda *args: seeds.append(args[-1]) or train(*args))
    run.compare(Console(quiet=True), 1, 7, 0.02)
    assert seeds == [7] * (1 + 2 * len(CORES))


def test_all_models_see_the_same_batches(monkeypatch):
    train, _ = make_spirals()
    seen = []
    monkeypatch.setattr(SpiralNet, "forward", lambda self, *args: seen.append(args) or self.at.bias.sum())
    nets = [run.build(name, seed=0) for name in CORES]
    for net in nets:
        list(run._train(net, train, 2, seed=5))
    for other in (seen[2:4], seen[4:6]):
        for ours, theirs in zip(seen[:2], other, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert not torch.equal(seen[0][0], seen[1][0])


def test_bodies_start_from_the_same_weights():
    nac, *others = (run.build(name, seed=0) for name in CORES)
    body = {k: v for k, v in nac.state_dict().items() if not k.startswith("core.")}
    for other in others:
        state = other.state_dict()
        assert all(torch.equal(v, state[k]) for k, v in body.items())
    assert not torch.equal(body["where.weight"], run.build("NAC", 1).where.weight)


def test_short_schedules():
    train, _ = make_spirals(n=12)
    for steps in (1, 9, 10, 11):
        assert len(list(run._train(run.build("SDPA", seed=0), train, steps, seed=0))) == steps


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


def test_ctrl_c_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(*_args):
        yield 1.0
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.run_demo(tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- errors and controls ------------------------------------------------------------------------------------


def test_the_errors_are_of_the_right_parts():
    target = torch.zeros(2, 150, 2)
    guess = target.clone()
    guess[:, HALF:, 0], guess[:, HALF:, 1] = 3.0, -4.0
    guess[0, :HALF] = 1.0
    assert run._errors(guess, target) == {
        "rmse": {"interpolation": 1.0, "extrapolation": 5.0},
        "mae": {"interpolation": 1.0, "extrapolation": 7.0},
    }


def test_straight_lines_interpolate_and_then_hold():
    _, test = make_spirals()
    control = run._straight_lines(test)
    assert control.shape == test.target.shape
    torch.testing.assert_close(control[:, -1], test.x[:, -1].double(), check_dtype=False)
    errors = run._errors(control, test.target)["rmse"]
    assert errors["interpolation"] < 0.02 < errors["extrapolation"]


def test_the_family_average_knows_the_family_only():
    train, test = make_spirals()
    average = run.direction_mean(train, test)
    for turn in (False, True):
        wanted = train.target[train.clockwise == turn].mean(0)
        assert (average[test.clockwise == turn] == wanted).all()


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(*_args):
        raise OSError("No space left on device")

    (tmp_path / "a.png").write_bytes(b"old")
    monkeypatch.setattr("nacre.io.os.replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        report.write_atomic(tmp_path / "a.png", b"new")
    assert [f.read_bytes() for f in tmp_path.iterdir()] == [b"old"]


def test_the_tool_for_several_seeds_writes_every_error(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "tools"))
    import demo_seeds

    written = {}
    monkeypatch.setattr(run, "_draw", lambda *_: {})
    monkeypatch.setattr(run, "make_spirals", lambda seed, spread: make_spirals(30, seed, spread))
    monkeypatch.setattr(demo_seeds, "SEEDS", (1, 2))
    monkeypatch.setattr(demo_seeds, "STEPS", 1)
    monkeypatch.setattr(
        demo_seeds, "write_result", lambda name, result: written.update({name: result}) or Path(__file__)
    )
    demo_seeds.main()
    result = written["spirals-demo.json"]
    assert {"command", "commit", "machine", "versions"} <= set(result)
    for metric in ("rmse", "mae"):
        assert list(result[metric]) == [
            *CORES,
            "straight lines, then last point held",
            "average training spiral of its family",
        ]
        for errors in result[metric].values():
            assert [len(errors[part]) for part in ("interpolation", "extrapolation")] == [2, 2]
