"""Losses that a recipe asks for: against plain sums, and what is refused."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from nacre.data import from_arrays
from nacre.data.dataset import UNSCORED, Kind
from nacre.tasks.losses import check_loss, class_weights, loss_of, loss_source
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import parse_recipe
from nacre.tasks.recipe_sections import TrainingRecipe
from support.controls import example
from support.refused import refused

TRAIN = torch.arange(40)


def network_of(data, levels=()):
    torch.manual_seed(0)
    network = TaskNetwork(
        "cfc-fc", data.kind, len(data.features), data.outputs, d_model=8, num_heads=2, quantiles=levels
    )
    network.fit_scale(data, TRAIN)
    return network


def lost(data, network, **training):
    """The loss of a batch, and the outputs and answers that are scored."""
    batch = data.batch(TRAIN)
    out = network(batch.x, batch.time, batch.key_padding_mask)
    return loss_of(TrainingRecipe(**training), network, data, TRAIN)(out, batch.y), out, batch.y


@pytest.mark.parametrize("kind", [Kind.REGRESSION, Kind.STEP_REGRESSION, Kind.FORECASTING])
def test_losses_of_numbers_are_means_over_what_is_scored(kind):
    data = example(kind)
    network = network_of(data)
    for name, each in (("mae", torch.abs), ("huber", lambda e: F.huber_loss(e, 0 * e, reduction="none"))):
        loss, out, y = lost(data, network, loss=name)
        error = ((out - y) / network.y_scale)[~y.isnan()]
        torch.testing.assert_close(loss, each(error).mean())


@pytest.mark.parametrize("kind", [Kind.REGRESSION, Kind.STEP_REGRESSION, Kind.FORECASTING])
def test_quantiles_ascend_and_their_loss_is_the_pinball_loss(kind):
    data, levels = example(kind), (0.1, 0.4, 0.8)
    network = network_of(data, levels)
    loss, out, y = lost(data, network, loss="quantile", quantiles=levels)
    assert out.shape == (*y.shape[:-1], 3 * y.shape[-1])
    by_number = out.unflatten(-1, (y.shape[-1], 3))
    assert (by_number.diff(dim=-1) >= 0).all()
    total = [
        max(level * e, (level - 1) * e)
        for i, level in enumerate(levels)
        for e in ((y - by_number[..., i]) / network.y_scale)[~y.isnan()].tolist()
    ]
    assert loss.item() == pytest.approx(sum(total) / len(total), rel=1e-4)


def test_quantiles_of_forecasts_are_relative_to_the_last_value():
    data, levels = example(Kind.FORECASTING), (0.1, 0.9)
    options = {"relative_to": [0], "window": (5, 1.0), "quantiles": levels}
    network = TaskNetwork("cfc-fc", data.kind, 2, 3, d_model=8, num_heads=2, **options)
    network.fit_scale(data, TRAIN)
    batch = data.batch(TRAIN)
    out = network(batch.x, batch.time, batch.key_padding_mask)
    higher = network(batch.x + 100, batch.time, batch.key_padding_mask)
    torch.testing.assert_close(higher, out + 100, rtol=1e-4, atol=1e-3)
    again = TaskNetwork.from_config(network.to_config())
    assert again.quantiles == [0.1, 0.9]


def test_half_the_answers_lie_below_a_learned_median_and_few_below_a_low_quantile():
    random = torch.Generator().manual_seed(0)
    data = from_arrays(torch.zeros(100, 1, 1), torch.rand(100, generator=random) * 10)
    levels = (0.1, 0.5, 0.9)
    network = network_of(data, levels)
    loss = loss_of(TrainingRecipe(loss="quantile"), network, data, torch.arange(100))
    optimizer, batch = torch.optim.Adam(network.parameters(), 0.1), data.batch(torch.arange(100))
    for _ in range(60):
        optimizer.zero_grad()
        loss(network(batch.x, batch.time, batch.key_padding_mask), batch.y).backward()
        optimizer.step()
    share = (batch.y < network(batch.x, batch.time, batch.key_padding_mask)).float().mean(0)
    torch.testing.assert_close(share, torch.tensor(levels), atol=0.06, rtol=0)


@pytest.mark.parametrize("kind", [Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION])
def test_weights_of_classes_act_and_have_mean_one(kind):
    data = example(kind)
    network, answers = network_of(data), data.answers(TRAIN)
    for wanted in ("balanced", (1.0, 5.0, 2.0)):
        weights = class_weights(wanted, data, TRAIN)
        assert weights[answers].mean().item() == pytest.approx(1)
        loss, out, y = lost(data, network, class_weights=wanted)
        out, y = out[y != UNSCORED], y[y != UNSCORED]
        each = F.cross_entropy(out, y, reduction="none") * weights[y]
        torch.testing.assert_close(loss, each.mean())
    counts = answers.bincount(minlength=3)
    torch.testing.assert_close(class_weights("balanced", data, TRAIN), len(answers) / (3 * counts))


def test_weights_of_labels_are_what_a_yes_counts():
    data = example(Kind.MULTI_LABEL)
    network = network_of(data)
    for wanted in ("", "balanced", (3.0, 0.5)):
        loss, out, y = lost(data, network, class_weights=wanted)
        weights = class_weights(wanted, data, TRAIN) if wanted else torch.ones(2)
        total = [
            -w * math.log(p) if t == 1 else -math.log(1 - p)
            for row, true in zip(out.sigmoid().tolist(), y.tolist(), strict=True)
            for p, t, w in zip(row, true, weights.tolist(), strict=True)
            if not math.isnan(t)
        ]
        assert loss.item() == pytest.approx(sum(total) / len(total), rel=1e-4)
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


def test_without_a_word_the_loss_is_that_of_the_network():
    for kind in Kind:
        network = network_of(example(kind))
        assert loss_of(TrainingRecipe(), network, example(kind), TRAIN) == network.loss


OWN = """
import torch
def cubed(out, y):
    return (out - y).abs().pow(3)
def focal(out, y):
    return torch.nn.functional.cross_entropy(out, y) ** 2
def text(out, y):
    return "no"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of one's own in the folder of the command."""
    name = f"losses_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_loss_of_ones_own_sees_the_scored_answers(own):
    data = example(Kind.STEP_REGRESSION)
    network = network_of(data)
    loss, out, y = lost(data, network, loss=f"{own}:cubed")
    scored = ~y.isnan().any(-1)
    error = (out - y)[scored] / network.y_scale
    torch.testing.assert_close(loss, error.abs().pow(3).mean())
    data = example(Kind.CLASSIFICATION)
    loss, out, y = lost(data, network_of(data), loss=f"{own}:focal")
    torch.testing.assert_close(loss, F.cross_entropy(out, y) ** 2)
    nothing = torch.full_like(y, UNSCORED)
    assert loss_of(TrainingRecipe(loss=f"{own}:focal"), network_of(data), data, TRAIN)(out, nothing) == 0
    assert len(loss_source(TrainingRecipe(loss=f"{own}:focal"))) == 64
    assert loss_source(TrainingRecipe(loss="mae")) == ""
    with refused(f"loss '{own}:text' must give one number, or one for each of"):
        lost(data, network_of(data), loss=f"{own}:text")


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ('loss = "l1"', "training.loss must be one of '', 'mae', 'huber', 'quantile', 'package.module:function'"),
        ("loss = 3", "training.loss must be one of"),
        ('class_weights = "even"', "training.class_weights must be one of '', 'balanced', got 'even'"),
        ("class_weights = [1, 0]", "training.class_weights must lie in"),
        ("class_weights = 3", "training.class_weights must be a list, got 3"),
        ("quantiles = [0.5, 0.1]", "training.quantiles must ascend between 0 and 1"),
        ("quantiles = [0.5, 1.0]", "training.quantiles must ascend between 0 and 1"),
        ("quantiles = []", "training.quantiles must ascend"),
    ],
)
def test_bad_words_are_named(training, message):
    with refused(message):
        parse_recipe(f"[training]\n{training}", "mine")
    with refused("metric must be one of"):
        parse_recipe('metric = "beauty"', "mine")


def test_a_loss_that_makes_no_sense_for_the_data_is_refused():
    classes, numbers = example(Kind.CLASSIFICATION), example(Kind.REGRESSION)
    for data, recipe, message in (
        (
            classes,
            TrainingRecipe(loss="mae"),
            "training.loss 'mae' is one of numbers, but ragged is class",
        ),
        (numbers, TrainingRecipe(class_weights="balanced"), "training.class_weights is for classes .* regression"),
        (classes, TrainingRecipe(class_weights=(1.0,)), r"training.class_weights must hold 3 weights \(a, b, c\)"),
        (replace(classes), TrainingRecipe(loss="a:b", class_weights="balanced"), "weighs classes itself"),
    ):
        with pytest.raises(ValueError, match=message):
            check_loss(recipe, data)
