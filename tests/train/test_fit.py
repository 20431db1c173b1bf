"""`fit`: the budget, what is learned, what is kept, and when it ends."""

import math
from dataclasses import replace
from typing import ClassVar

import lightning as L
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data import from_arrays
from nacre.data.batches import Rounds
from nacre.tasks.recipe import Precision, Profile
from nacre.tasks.recipe_sections import NetworkRecipe, TrainingRecipe
from nacre.train import fit as fit_module
from nacre.train.fit import ROUNDS, Budget, budget_of, fit, looked_at
from nacre.train.lightning_module import Training, rate_share
from nacre.train.run_cell import run_cell
from support.callbacks import Break
from support.train import MODEL, TINY, cell, read_log, spirals, steps_of_part, task_of, waves, with_data


def train(
    task, directory, model=MODEL, *, seed=0, profile=Profile.QUICK, callbacks=(), precision=Precision.FLOAT32
):
    """A network after training, and how it went."""
    network, split, recipe = task.network(model, 0, seed), task.splits[0], task.recipe.training
    budget = budget_of(recipe, profile, len(split.train))
    options = {"seed": seed, "directory": directory, "callbacks": callbacks, "precision": precision}
    return network, fit(network, task.data, split, recipe, budget, **options)


def same(one, other):
    states = one.state_dict(), other.state_dict()
    return states[0].keys() == states[1].keys() and all(states[0][k].equal(states[1][k]) for k in states[0])


def loss_of(network, task, index):
    """Mean loss over all answers, in one batch."""
    batch = task.data.batch(index)
    with torch.no_grad():
        return network.eval().loss(network(batch.x, batch.time, batch.key_padding_mask), batch.y).item()


class Gradients(L.Callback):
    """Keeps the gradients that the optimiser was given."""

    def __init__(self):
        self.seen = []

    def on_train_batch_end(self, trainer, module, *args):
        self.seen.append([p.grad.clone() for p in module.network.parameters() if p.grad is not None])

    def norms(self):
        return [torch.cat([g.flatten() for g in step]).norm().item() for step in self.seen]


@given(st.integers(1, 10_000), st.integers(1, 10_000), st.integers(1, 64), st.sampled_from([*ROUNDS]))
def test_a_budget_of_steps_has_rounds_that_hold_them(steps, sequences, batch_size, profile):
    name = {Profile.QUICK: "quick_steps", Profile.STANDARD: "steps"}[profile]
    recipe = TrainingRecipe(**{name: steps}, batch_size=batch_size, patience=7, quick_valid=33)
    budget = budget_of(recipe, profile, sequences)
    rounds = ROUNDS[profile]
    assert budget == Budget(profile, rounds, budget.steps, 7, 33)
    assert steps <= budget.rounds * budget.steps < steps + rounds


@given(st.integers(1, 500), st.floats(0, 1))
def test_the_learning_rate_rises_to_its_value_and_falls_to_zero(steps, warmup):
    recipe = TrainingRecipe(warmup=warmup)
    shares = [rate_share(step, recipe, steps) for step in range(steps)]
    assert all(0 <= share <= 1 for share in shares)
    top = shares.index(max(shares))
    assert shares[:top] == sorted(shares[:top])
    assert shares[top:] == sorted(shares[top:], reverse=True)
    if warmup * steps >= 1:
        assert shares[0] <= 1 / (warmup * steps)
    if (1 - warmup) * steps >= 1:
        assert shares[-1] == pytest.approx(0, abs=1e-12)
    constant = TrainingRecipe(warmup=warmup, schedule="constant")
    assert {rate_share(step, constant, steps) for step in range(steps)} == {1.0}


def test_training_follows_the_schedule(tmp_path):
    class Rates(L.Callback):
        seen: ClassVar[list[float]] = []

        def on_train_batch_start(self, trainer, *args):
            self.seen.append(trainer.optimizers[0].param_groups[0]["lr"])

    task = waves(quick_steps=12, lr=0.25, warmup=0.5)
    train(task, tmp_path, callbacks=(Rates(),))
    recipe = task.recipe.training
    assert Rates.seen == pytest.approx([0.25 * rate_share(step, recipe, 12) for step in range(12)])


@pytest.mark.parametrize(("sequences", "steps"), [(64, 4), (65, 5), (1, 1)])
def test_a_paper_budget_sees_every_sequence_once_a_round(sequences, steps):
    recipe = TrainingRecipe(batch_size=16, epochs=9, patience=3, quick_steps=1, quick_valid=1)
    assert budget_of(recipe, Profile.PAPER, sequences) == Budget(Profile.PAPER, 9, steps, 3, None)


def test_every_model_gets_the_same_budget_and_takes_all_of_it(tmp_path):
    task = waves(patience=100)
    results = [run_cell(cell(task, tmp_path, model)) for model in ("nac", "sdpa")]
    kept = ("profile", "steps", "batch_size", "steps_taken", "stopped_early", "diverged")
    budgets = [{key: result["budget"][key] for key in kept} for result in results]
    assert budgets == [dict(zip(kept, ("quick", 12, 4, 12, False, False), strict=True))] * 2


def test_a_paper_run_trains_by_epochs(tmp_path):
    task = waves(epochs=3, batch_size=3)
    _, fitted = train(task, tmp_path, profile=Profile.PAPER)
    assert len(task.splits[0].train) == 8
    assert [row["step"] for row in read_log(tmp_path)] == [3, 6, 9]
    assert fitted.steps_taken == 9


def test_few_validation_sequences_are_spread_over_the_part():
    valid = torch.arange(100, 200)
    some = looked_at(valid, Budget(Profile.QUICK, 6, 1, 1, 5))
    assert some.tolist() == [100, 124, 149, 174, 199]
    for most in (100, None):
        assert looked_at(valid, Budget(Profile.PAPER, 6, 1, 1, most)).equal(valid)


@pytest.mark.slow
def test_training_lowers_both_losses_and_logs_a_row_for_each_round(tmp_path, capfd):
    train(waves(n=90, quick_steps=90, quick_valid=30, lr=0.02), tmp_path)
    assert (tmp_path / "log.csv").read_text().startswith("step,train_loss,valid_loss\n")
    log = read_log(tmp_path)
    assert [row["step"] for row in log] == [15, 30, 45, 60, 75, 90]
    for name in ("train_loss", "valid_loss"):
        assert min(row[name] for row in log[3:]) < 0.8 * log[0][name], name
    assert capfd.readouterr() == ("", "")  # Lightning prints nothing


def test_the_logged_training_loss_is_the_mean_over_the_steps_of_the_round(tmp_path):
    task = waves(quick_steps=12, lr=1e-12)  # weights stay, so that losses can be computed afterwards
    network, _ = train(task, tmp_path)
    index = task.splits[0].train
    rounds = Rounds(task.data.length[index], index, 4, 2, 0)
    losses = [loss_of(network, task, batch) for batch in rounds]
    assert read_log(tmp_path)[0]["train_loss"] == pytest.approx(sum(losses) / 2, rel=1e-5)


def test_the_weights_kept_are_those_of_the_best_validation_loss(tmp_path):
    task = waves(quick_steps=30, lr=0.5, patience=100)
    network, fitted = train(task, tmp_path)
    log = read_log(tmp_path)
    best = min(log, key=lambda row: row["valid_loss"])
    assert best["step"] < log[-1]["step"]  # or else the last weights would do
    assert fitted.best_step == best["step"]
    looked = looked_at(task.splits[0].valid, budget_of(task.recipe.training, Profile.QUICK, 8))
    assert loss_of(network, task, looked) == pytest.approx(best["valid_loss"], rel=1e-5)


@pytest.mark.parametrize("patience", [pytest.param(1, marks=pytest.mark.deep), 2])
def test_training_ends_after_so_many_rounds_without_a_better_loss(tmp_path, patience):
    _, fitted = train(waves(quick_steps=30, lr=1e-12, patience=patience), tmp_path)
    losses = [row["valid_loss"] for row in read_log(tmp_path)]
    assert len(losses) < ROUNDS[Profile.QUICK]
    assert len(losses) == losses.index(min(losses)) + 1 + patience
    assert fitted.stopped_early
    assert fitted.steps_taken == 5 * len(losses)


def test_gradients_are_clipped(tmp_path):
    norms = {}
    for clip in (1e-3, 1e6):
        gradients = Gradients()
        train(waves(clip=clip), tmp_path / str(clip), callbacks=(gradients,))
        norms[clip] = gradients.norms()
    assert norms[1e-3] == pytest.approx([1e-3] * 12, rel=1e-2)
    assert min(norms[1e6]) > 1e-2


def test_what_a_layer_adds_to_the_loss_reaches_the_gradient(tmp_path):
    task, gradients = waves(clip=1e6), Gradients()
    train(task, tmp_path, "ot-transformer", callbacks=(gradients,))
    index = task.splits[0].train
    batch = task.data.batch(Rounds(task.data.length[index], index, 4, 2, 0).batch_of(0))
    by_hand = []
    for with_aux in (True, False):
        network = task.network("ot-transformer", 0, 0)
        loss = network.loss(network(batch.x, batch.time, batch.key_padding_mask), batch.y)
        (loss + network.layer.aux_loss if with_aux else loss).backward()
        by_hand.append([p.grad for p in network.parameters() if p.grad is not None])
    assert len(gradients.seen[0]) == len(by_hand[0])
    assert all(
        torch.allclose(a, b, rtol=1e-4, atol=1e-7) for a, b in zip(gradients.seen[0], by_hand[0], strict=True)
    )
    assert not all(torch.allclose(a, b, rtol=1e-2) for a, b in zip(gradients.seen[0], by_hand[1], strict=True))


def test_the_logged_validation_loss_does_not_depend_on_batches(tmp_path, monkeypatch):
    torch.manual_seed(1)
    lengths = [3, 9, 4, 12, 5, 7, 3, 11, 6, 8, 10, 12]
    x = [torch.randn(n, 2).numpy() for n in lengths]
    y = [(item[:, 0] > 0).astype(int) for item in x]
    task = task_of(from_arrays(x, y, kind="step-classification", name="steps"))
    losses = []
    for size in (256, 3):
        monkeypatch.setattr(fit_module, "EVAL_BATCH", size)
        train(task, tmp_path / str(size))
        losses.append([row["valid_loss"] for row in read_log(tmp_path / str(size))])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_run_that_diverges_stops_says_so_and_keeps_the_best_weights(tmp_path):
    network, fitted = train(waves(), tmp_path, callbacks=(Break(2),))
    log = read_log(tmp_path)
    assert fitted.diverged
    assert not fitted.stopped_early
    assert [math.isfinite(row["valid_loss"]) for row in log] == [True, True, False]
    assert fitted.best_step == min(log[:2], key=lambda row: row["valid_loss"])["step"]
    assert all(value.isfinite().all() for value in network.state_dict().values())


def test_a_run_that_diverges_at_once_ends_with_the_first_round(tmp_path):
    task = waves()
    values = task.data.values.clone()
    values[steps_of_part(task, "train")[0]] = float("nan")
    _, fitted = train(with_data(task, values=values), tmp_path)
    assert fitted.diverged
    assert len(read_log(tmp_path)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODEL, pytest.param("nac", marks=pytest.mark.deep)])
def test_other_precisions_train(tmp_path, model):
    train(waves(), tmp_path / "plain", model)
    plain = [row["valid_loss"] for row in read_log(tmp_path / "plain")]
    for precision in (Precision.MIXED_BFLOAT16, Precision.FLOAT64):
        one = cell(waves(), tmp_path / precision, model, precision=precision)
        result = run_cell(one)
        assert result["budget"]["precision"] == precision
        assert not result["budget"]["diverged"], precision
        losses = [row["valid_loss"] for row in read_log(one.directory)]
        assert losses != plain, precision
        assert losses == pytest.approx(plain, rel=0.02), precision


def test_test_sequences_are_never_looked_at(tmp_path):
    task = spirals()
    plain, _ = train(task, tmp_path / "plain")
    rows = steps_of_part(task, "test")
    values, y = task.data.values.clone(), task.data.y.clone()
    values[rows], y[rows] = float("nan"), float("nan")
    poisoned, fitted = train(with_data(task, values=values, y=y), tmp_path / "poisoned")
    assert not fitted.diverged
    assert same(plain, poisoned)
    assert (tmp_path / "plain/log.csv").read_text() == (tmp_path / "poisoned/log.csv").read_text()


def test_a_seed_decides_all_that_is_random(tmp_path):
    network = NetworkRecipe(8, 2, dense=(8,), dropout=0.4)
    task = replace(waves(), recipe=replace(TINY, network=network))
    runs = [train(task, tmp_path / name, seed=seed)[0] for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_each_step_draws_its_own_dropout_and_the_same_when_it_is_repeated(monkeypatch):
    task = waves()
    module = Training(task.network(MODEL, 0, 0), task.recipe.training, 0, 12)
    drawn = []
    for step in (0, 1, 0):
        monkeypatch.setattr(Training, "global_step", step)
        module.on_train_batch_start(None, 0)
        drawn.append(torch.rand(4).tolist())
    assert drawn[0] != drawn[1]
    assert drawn[0] == drawn[2]
