"""Controls that learn from features: what they see, and that slow and obvious versions find the same."""

import dataclasses

import numpy as np
import pytest
import torch

from nacre.data.dataset import UNSCORED, Kind
from nacre.tasks.controls import features as control_features
from nacre.tasks.controls.least_squares import LeastSquares
from nacre.tasks.metrics import answers_of
from support.controls import accuracy, example, fitted, halves, mse, ragged, series, walk

# --- linear -------------------------------------------------------------------------------------------------


def test_linear_forecast_equals_least_squares_of_numpy():
    data = series(walk(300, features=3), target=2)
    train, test = halves(data)

    def design(index):
        x = data.batch(index).x.double().numpy().copy()
        last = x[:, -1:, 2].copy()
        x[:, :, 2] -= last
        return np.hstack([x.reshape(len(x), -1), np.ones((len(x), 1))]), last

    x, last = design(train)
    weight = np.linalg.lstsq(x, data.y[train].double().numpy() - last, rcond=None)[0]
    x, last = design(test)
    control = fitted("linear", data, train)
    np.testing.assert_allclose(control.predict(data, test), x @ weight + last, rtol=1e-4, atol=1e-4)
    assert control.parameters == (5 * 3 + 1) * 3


def test_linear_recovers_a_linear_process():
    t = torch.arange(300).double()
    waves = torch.stack([(0.3 * t).sin(), (0.3 * t).cos() + 2 * (0.11 * t + 1).sin()], 1)
    data = series(waves, target=1)
    train, test = halves(data)
    assert mse(fitted("linear", data, train), data, test) < 1e-6
    assert mse(fitted("persistence", data, train), data, test) > 0.1


def test_linear_beats_persistence_and_mean_on_a_trend():
    noise = 0.1 * torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    data = series(torch.arange(200.0).unsqueeze(1) + noise)
    train, test = halves(data)
    errors = {name: mse(fitted(name, data, train), data, test) for name in ("linear", "persistence", "mean")}
    assert errors["linear"] < 0.1 < 4.0 < errors["persistence"] < errors["mean"]


def test_adding_a_constant_to_the_target_adds_it_to_linear_forecasts():
    data = series(walk())
    moved = series(walk() + torch.tensor([1000.0, 0.0]))
    train, test = halves(data)
    expected = fitted("linear", data, train).predict(data, test) + 1000
    torch.testing.assert_close(fitted("linear", data, train).predict(moved, test), expected, rtol=0, atol=1e-2)


def reference_inputs(data, i):
    """Inputs of `linear` for the scored answers of one sequence, spelled out."""
    rows = range(int(data.start[i]), int(data.start[i] + data.length[i]))
    x, time = data.values[rows].double().numpy(), data.time[rows].numpy()
    if data.kind.each_step:
        steps = [
            k for k, row in enumerate(rows) if data.y[row].max() != UNSCORED and not data.y[row].isnan().any()
        ]
        if data.kind is Kind.STEP_CLASSIFICATION:
            return [x[k] for k in steps]
        return [[*x[k], time[k] - time[0], time[k] - time[max(k - 1, 0)]] for k in steps]
    if data.y[i].max() == UNSCORED or data.y[i].isnan().any():
        return []
    return [[*x.mean(0), *x.std(0), *x[0], *x[-1], len(x), time[-1] - time[0]]]


@pytest.mark.parametrize("kind", list(Kind)[:4])
def test_inputs_of_linear(kind):
    data = ragged(kind)
    index = torch.tensor([5, 2, 31, 8, 7])
    expected = [row for i in index.tolist() for row in reference_inputs(data, i)]
    np.testing.assert_allclose(control_features.inputs_of(data, index), expected, atol=1e-12)


@pytest.mark.parametrize("kind", [Kind.REGRESSION, Kind.STEP_REGRESSION])
def test_linear_regression_equals_ridge_of_scikit_learn(kind):
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    data = ragged(kind)
    train, test = halves(data)
    x, asked = (control_features.inputs_of(data, part).numpy() for part in (train, test))
    ridge = make_pipeline(StandardScaler(), Ridge(alpha=1.0)).fit(x, answers_of(data, train).double().numpy())
    control = fitted("linear", data, train)
    np.testing.assert_allclose(control.predict(data, test), ridge.predict(asked), rtol=1e-5, atol=1e-6)
    assert control.parameters == (x.shape[1] + 1) * 2


@pytest.mark.parametrize("kind", [Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION])
def test_linear_separates_classes_that_a_line_separates(kind):
    data = ragged(kind, n=600)
    level = data.values[:, 0] if kind.each_step else data.values[data.start + data.length - 1, 1]
    data = dataclasses.replace(data, y=(level > -0.4).long() + (level > 0.4))
    train, test = halves(data)
    control = fitted("linear", data, train)
    assert accuracy(control, data, test) > 0.85
    assert accuracy(fitted("majority", data, train), data, test) < 0.6
    assert control.parameters == (3 + 1 if kind.each_step else 4 * 3 + 2 + 1) * 3


def test_units_of_the_inputs_do_not_matter_to_logistic_regression():
    data = ragged(Kind.CLASSIFICATION)
    train, test = halves(data)
    scaled = dataclasses.replace(data, values=data.values * torch.tensor([1e3, 1e-3, 1.0]) + 5)
    one, other = (fitted("linear", d, train).predict(d, test) for d in (data, scaled))
    torch.testing.assert_close(one, other, rtol=0, atol=2e-3)


def test_a_class_that_training_lacks_gets_score_zero():
    data = ragged(Kind.CLASSIFICATION)
    y = torch.where(data.y == 0, 2, data.y)
    for name in ("linear", "time-only"):
        outputs = fitted(name, dataclasses.replace(data, y=y), torch.arange(40)).predict(
            data, torch.arange(40, 60)
        )
        assert (outputs[:, 0] == 0).all()
        only = dataclasses.replace(data, y=torch.full_like(y, 2))
        control = fitted(name, only, torch.arange(40))
        assert control.predict(only, torch.arange(3)).tolist() == [[0.0, 0.0, 1.0]] * 3


def test_linear_names_the_feature_that_is_not_finite():
    data = ragged(Kind.REGRESSION)
    data.values[3, 1] = float("nan")
    with pytest.raises(ValueError, match="ragged: 'linear' needs finite values, but there is NaN .* in 'y'; fill"):
        fitted("linear", data, torch.arange(30))


def test_windows_of_several_lengths_are_refused():
    data = series(walk())
    data.length[3] = 4
    with pytest.raises(ValueError, match="series: windows of several lengths"):
        fitted("linear", data, torch.arange(30))


# --- least squares ------------------------------------------------------------------------------------------


def test_least_squares_survives_huge_offsets_and_constant_columns():
    random = np.random.default_rng(0)
    x = np.column_stack([1.7e9 + random.random(500), np.full(500, 3.3), random.normal(size=500) * 1e-6])
    y = np.column_stack([2 * (x[:, 0] - 1.7e9) + 1e6 * x[:, 2] + 4, x[:, 2]])
    fit = LeastSquares(3)
    for rows in np.array_split(np.arange(500), 7):
        fit.add(torch.from_numpy(x[rows]), torch.from_numpy(y[rows]))
    line = fit.solve(penalty=1e-12)
    np.testing.assert_allclose(line.weight, [[2, 0], [0, 0], [1e6, 1]], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(line(torch.from_numpy(x)), y, atol=1e-4)
    assert line.numbers == 3 * 2 + 2


def test_least_squares_without_rows_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        LeastSquares(2).solve(penalty=1.0)


# --- time-only ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind))
def test_time_only_never_reads_values(kind):
    data = example(kind)
    train, test = halves(data)
    blind = dataclasses.replace(data, values=torch.full_like(data.values, float("nan")))
    one, other = fitted("time-only", data, train), fitted("time-only", blind, train)
    assert torch.equal(one.predict(data, test), other.predict(blind, test))


def test_times_of_sequences_and_windows_and_steps():
    time = torch.tensor([10.0, 10.5, 12.5, 50.25, 51.0, 77.5]).double()
    start, length = torch.tensor([3, 0, 5]), torch.tensor([2, 3, 1])

    def times(kind, **changes):
        data = dataclasses.replace(
            ragged(kind, n=3), values=torch.zeros(6, 3), time=time, start=start, length=length, **changes
        )
        return control_features.times_of(data, torch.tensor([1, 0, 2])).tolist()

    y = torch.zeros(3, dtype=torch.int64)
    assert times(Kind.CLASSIFICATION, y=y) == [
        [10.0, 12.5, 3.0, 1.25, 2.0, 2.5],
        [50.25, 51.0, 2.0, 0.75, 0.75, 0.75],
        [77.5, 77.5, 1.0, 0.0, 0.0, 0.0],
    ]
    assert times(Kind.STEP_CLASSIFICATION, y=torch.tensor([0, UNSCORED, 0, 0, 0, 0])) == [
        [10.0, 0.0, 0.0, 0.0],
        [12.5, 2.5, 2.0, 2.0],
        [50.25, 0.0, 0.0, 0.0],
        [51.0, 0.75, 0.75, 1.0],
        [77.5, 0.0, 0.0, 0.0],
    ]
    windows = dataclasses.replace(series(torch.zeros(6, 1), lookback=2, horizon=1), time=time)
    assert control_features.times_of(windows, torch.tensor([2, 0])).tolist() == [
        [50.25, 2.25, 0.25],
        [10.5, 10.5, 0.5],
    ]


@pytest.mark.parametrize("kind", [Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION])
def test_time_only_finds_classes_that_time_gives_away(kind):
    data = ragged(kind, n=400)
    stamp = data.time if kind.each_step else data.time[data.start]
    since_1970 = dataclasses.replace(data, y=(stamp % 200 > 120).long() + 1, time=data.time + 1.7e9)
    even, odd = torch.arange(0, 400, 2), torch.arange(1, 400, 2)  # neighbours in both parts: a leak
    control = fitted("time-only", since_1970, even)
    assert accuracy(control, since_1970, odd) > 0.95
    assert accuracy(fitted("majority", since_1970, even), since_1970, odd) < 0.7


@pytest.mark.parametrize("kind", [Kind.CLASSIFICATION, Kind.STEP_CLASSIFICATION])
def test_time_only_is_at_chance_where_labels_have_nothing_to_do_with_time(kind):
    data = ragged(kind, n=3000)
    train, test = halves(data)
    assert accuracy(fitted("time-only", data, train), data, test) == pytest.approx(1 / 3, abs=0.05)


def test_the_tree_of_time_only_stays_small():
    data = ragged(Kind.STEP_CLASSIFICATION, n=3000)  # labels without pattern, about 10,000: a free tree learns all
    tree = fitted("time-only", data, torch.arange(3000))._tree
    leaves = tree.tree_.n_node_samples[tree.tree_.feature < 0]
    assert tree.get_depth() <= 8
    assert leaves.min() >= 10


def test_time_only_finds_the_rhythm_of_days():
    hours = torch.arange(24 * 40).double()
    data = series(torch.sin(hours / 24 * 2 * torch.pi).unsqueeze(1), time=hours)
    train, test = torch.arange(24 * 25), torch.arange(24 * 30, len(data))  # other days
    control = fitted("time-only", data, train)
    assert mse(control, data, test) < 0.02
    assert mse(fitted("mean", data, train), data, test) > 0.4
    inner = (control._tree.tree_.feature >= 0).sum()
    assert control.parameters == 2 * inner + 3 * (inner + 1)


def test_time_only_predicts_numbers_of_one_target():
    data = ragged(Kind.STEP_REGRESSION, n=100)
    data = dataclasses.replace(data, y=data.time.float().unsqueeze(1), targets=("age",))
    even, odd = torch.arange(0, 100, 2), torch.arange(1, 100, 2)
    outputs = fitted("time-only", data, even).predict(data, odd)
    assert outputs.shape == (len(answers_of(data, odd)), 1)
    assert (outputs - answers_of(data, odd)).abs().mean() < 5.0  # of about 200
