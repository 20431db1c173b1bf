"""`nacre study uat`: what makes a layer nonlinear, functions, network, runs, table and figure."""

import csv
import json
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nacre import NAC
from nacre.cli.app import app
from nacre.study.uat import command
from nacre.study.uat import run as uat_run
from nacre.study.uat.command import Uat, run_uat, runs_of
from nacre.study.uat.data import Target, controls, draw, grid, held_out, training, value
from nacre.study.uat.run import (
    BUDGETS,
    FitBudget,
    UatNetwork,
    UatRun,
    Variant,
    answers,
    batches,
    score,
    train,
)
from nacre.study.uat.table import print_rows, read_results, rows_of

FEW = FitBudget(3, 16, 1e-2)


def quiet(step, loss):
    pass


def run(target="sin", variant="weighted", width=8, seed=0, budget=FEW):
    return UatRun(target, variant, width, seed, budget)


def bend(layer):
    """Largest second difference over even inputs, as a share of the range: 0 for an affine layer of one step."""
    y = layer(torch.linspace(-3, 3, 61, dtype=torch.float64).view(-1, 1, 1)).detach()[:, 0]
    return ((y[2:] - 2 * y[1:-1] + y[:-2]).abs().max() / (y.max() - y.min())).item()


def test_one_step_is_affine_only_without_tanh_neurons_and_without_time_weighting():
    for activation in ("tanh", "identity"):
        for integrate in (False, True):
            layer = NAC(16, 4, d_input=1, activation=activation, integrate=integrate, dtype=torch.float64)
            affine = activation == "identity" and not integrate
            assert (bend(layer) < 1e-12) is affine, (activation, integrate)
            assert (bend(layer) > 1e-4) is not affine, (activation, integrate)


def test_one_step_without_weighting_is_the_value_gate_and_the_circuit_has_no_say():
    layer = UatNetwork("sin", "unweighted", 8).layer
    x = torch.randn(20, 1, 1)
    before = layer(x)
    torch.testing.assert_close(before, layer.out_proj(layer.value_gate(x)))
    for part in (layer.query_gate, layer.key_gate, layer.backbone, layer.time_gate):
        part.reset_parameters()
    torch.testing.assert_close(layer(x), before)


def test_one_step_with_weighting_is_the_value_gate_times_a_sigmoid_of_each_head():
    layer = UatNetwork("sin", "weighted", 8).layer
    x = torch.randn(20, 1, 1)
    y, trace = layer(x, return_trace=True)
    t = trace.t[:, :, 0, 0]  # [N, H]
    assert t.std(0).min() > 0
    wanted = layer.out_proj(layer.value_gate(x)[:, 0] * t.repeat_interleave(2, 1))
    torch.testing.assert_close(y[:, 0], wanted)
    layer.backbone.reset_parameters()
    torch.testing.assert_close(layer(x), y)


@pytest.mark.parametrize("variant", Variant)
def test_a_network_reads_out_one_answer_and_only_the_authors_squashes(variant):
    net = UatNetwork("sin", variant, 8)
    assert net.layer.config.integrate is (variant == "weighted")
    x = torch.randn(5, 1, 1)
    inside = net.layer(x)[:, 0]
    if variant == "authors":
        inside = 1 / (1 + torch.exp(-inside))
    torch.testing.assert_close(net(x), inside @ net.read.weight[0] + net.read.bias)


@pytest.mark.parametrize("variant", Variant)
def test_a_set_is_answered_whatever_its_order_and_every_number_counts(variant):
    net = UatNetwork("set", variant, 8)
    x = draw("set", 4, torch.Generator().manual_seed(0)).x.requires_grad_()
    y = net(x)
    torch.testing.assert_close(net(x[:, torch.randperm(8)]), y)
    y.sum().backward()
    assert (x.grad != 0).all()


def test_the_functions_are_what_they_say():
    x, y = draw("set", 30, torch.Generator().manual_seed(1))
    assert x.shape == (30, 8, 1)
    assert -2 <= x.min() < -1.9
    assert 1.9 < x.max() <= 2
    for row, got in zip(x[..., 0].tolist(), y.tolist(), strict=True):
        assert got == pytest.approx(math.log(sum(math.exp(2 * v) for v in row) / 8) / 2, abs=1e-6)
    x, y = draw("sin", 300, torch.Generator().manual_seed(1))
    assert x.shape == (300, 1, 1)
    assert 6 < x.max() <= 2 * math.pi
    assert -2 * math.pi <= x.min() < -6
    assert y.tolist() == [pytest.approx(math.sin(v), abs=1e-6) for v in x.flatten().tolist()]


@pytest.mark.parametrize("target", Target)
def test_no_held_out_point_is_trained_on(target):
    asked = held_out(target)
    assert len(asked.y) == 1000
    for seed in range(3):
        seen = training(target, seed)
        assert len(seen.y) == 3200
        assert not {*seen.x[:, 0, 0].tolist()} & {*asked.x[:, 0, 0].tolist()}
    assert torch.equal(held_out(target).x, asked.x)
    assert not torch.equal(training(target, 0).x, training(target, 1).x)


def test_controls_are_least_squares_fits():
    seen, asked = training("sin", 0), held_out("sin")
    found = controls("sin")
    assert list(found) == ["constant", "affine"]
    assert found["constant"] == pytest.approx((asked.y - seen.y.mean()).square().mean().item(), rel=1e-4)
    line = np.polyfit(seen.x.flatten().double(), seen.y.double(), 1)
    left = np.polyval(line, asked.x.flatten().double()) - asked.y.double().numpy()
    assert found["affine"] == pytest.approx((left**2).mean(), rel=1e-4)
    found = controls("set")
    assert found["constant"] > 2 * found["affine"] > 4 * found["sum of functions"] > 0


def test_each_epoch_holds_every_point_once_in_a_new_order():
    order = batches(10, 4, torch.Generator().manual_seed(0))
    epochs = [torch.cat([next(order) for _ in range(3)]).tolist() for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_run_is_repeatable_and_holds_what_defines_it():
    for target, variant in (("sin", "weighted"), ("set", "unweighted"), ("sin", "authors")):
        one = run(target, variant, 4)
        found = one.do(quiet)
        assert found == one.do(quiet)
        assert UatRun.of(json.loads(json.dumps(found))) == one
        assert run(target, variant, 4, 1).do(quiet)["error"] != found["error"]
        assert (found["fit"] is None) == (target == "set")


def test_a_run_trains_and_tells_its_steps():
    told = []
    trained = run(budget=FitBudget(60, 64, 2e-2)).do(lambda step, loss: told.append((step, loss)))
    assert [step for step, _ in told] == list(range(1, 61))
    torch.manual_seed(0)
    before, _ = score(UatNetwork("sin", "weighted", 8), held_out("sin"))
    assert trained["error"] < 0.7 * before
    assert trained["error"] <= trained["largest"] ** 2
    assert len(trained["fit"]) == 500


def test_the_rate_falls_to_0():
    budget = FitBudget(8, 16, 1e-2)
    torch.manual_seed(0)
    net = UatNetwork("sin", "weighted", 4)
    after = []
    train(net, run(width=4, budget=budget), lambda *_: after.append(net.read.bias.item()))
    moves = [abs(b - a) for a, b in pairwise(after)]
    assert moves[-1] < moves[0] / 5


def test_scores_are_mean_squared_and_largest_errors():
    net = UatNetwork("set", "authors", 4)
    points = draw("set", 40, torch.Generator().manual_seed(3))
    left = [a - b for a, b in zip(answers(net, points.x).tolist(), points.y.tolist(), strict=True)]
    error, largest = score(net, points)
    assert error == pytest.approx(sum(v * v for v in left) / 40)
    assert largest == pytest.approx(max(abs(v) for v in left))


def test_a_fit_that_diverges_is_a_failure_that_names_its_step(monkeypatch):
    nan = torch.full((3200,), math.nan)
    monkeypatch.setattr(uat_run, "training", lambda *_: training("sin", 0)._replace(y=nan))
    with pytest.raises(RuntimeError, match="the loss is nan at step 1; lower the rate, 0.01"):
        run().do(quiet)


def test_profiles_have_the_runs_and_budgets_that_they_promise(tmp_path):
    for profile, count in (("quick", 54), ("paper", 90)):
        runs = runs_of(profile)
        assert len(runs) == len({one.path(tmp_path) for one in runs}) == count
        assert {one.seed for one in runs} == {0, 1, 2}
    for budget in BUDGETS["paper"].values():
        assert budget == FitBudget(150 * 3200 // 64, 64, 1e-3)


def test_rows_are_means_over_seeds_and_shares_of_the_least_width():
    results = [run(width=width, seed=seed).do(quiet) for width in (16, 4) for seed in range(2)]
    results += [run("set", "authors", 4).do(quiet)]
    narrow, wide, other = rows_of(results)
    assert (narrow.width, wide.width, wide.seeds, wide.steps) == (4, 16, 2, 3)
    errors = [r["error"] for r in results[:2]]
    assert wide.error == pytest.approx(sum(errors) / 2)
    assert (wide.lowest, wide.highest) == (min(errors), max(errors))
    assert wide.largest == pytest.approx(sum(r["largest"] for r in results[:2]) / 2)
    assert wide.share == pytest.approx(wide.error / narrow.error)
    assert (narrow.share, other.share) == (1, 1)
    assert (other.target, other.variant) == ("set", "authors")


def test_the_table_fits_80_columns_and_names_the_controls(capsys):
    from rich.console import Console

    print_rows(rows_of([run(t, v, 4).do(quiet) for t in Target for v in Variant]), Console(width=80))
    text = " ".join(capsys.readouterr().out.split())
    assert "…" not in text
    assert text.count(f"affine {controls('sin')['affine']:.4f}") == 1
    assert text.count("sum of functions") == 1


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setitem(BUDGETS, "quick", dict.fromkeys(Target, FEW))
    monkeypatch.setitem(command.WIDTHS, "quick", (4,))
    monkeypatch.setattr(command, "SEEDS", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("_small")
def test_the_command_from_an_empty_directory_and_another_budget_is_another_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["study", "uat", "--profile", "quick"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "studies" / "uat"
    with (folder / "uat.csv").open() as file:
        rows = list(csv.DictReader(file))
    wanted = [(t, v, "4") for t in Target for v in Variant]
    assert [(r["target"], r["variant"], r["width"]) for r in rows] == wanted
    assert {r["seeds"] for r in rows} == {"2"}
    assert (folder / "uat.png").read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr(command, "plot_uat", lambda results: b"")
    run("set", "authors", 4, 1).path(folder).unlink()
    assert [r["seed"] for r in run_uat(Uat(out=folder))] == [1]
    monkeypatch.setattr(command, "SEEDS", 1)
    monkeypatch.setitem(BUDGETS, "quick", dict.fromkeys(Target, FEW._replace(steps=2)))
    assert len(run_uat(Uat(out=folder))) == 6
    with (folder / "uat.csv").open() as file:
        assert {row["steps"] for row in csv.DictReader(file)} == {"2"}
    assert len(read_results(folder)) == 18


def test_bad_input_is_refused_before_anything_is_run(tmp_path):
    with pytest.raises(ValueError, match="profile must be one of"):
        run_uat(Uat("slow", tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="width must be a multiple of the 4 heads, got 6"):
        run(width=6)
    with pytest.raises(ValueError, match="variant must be one of"):
        run(variant="wieghted")


def test_a_damaged_file_is_named(tmp_path):
    path = run().path(tmp_path)
    path.parent.mkdir(parents=True)
    for text in ("", "{}", "[]", '{"fit": null}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"weighted-width8-seed0.json is damaged"):
            read_results(tmp_path)


def test_the_grid_spans_the_sine():
    x, y = grid()
    assert x.shape == (500, 1, 1)
    assert x[0].item() == pytest.approx(-2 * math.pi)
    assert x[-1].item() == pytest.approx(2 * math.pi)
    assert torch.equal(y, value("sin", x))
