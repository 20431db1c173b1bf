"""Metrics of bearings: each against its slow and obvious version, and what they must not depend on."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.rigs.labels import Label
from nacre.data.rigs.life_metrics import CHALLENGE, LifeMetrics
from support.hypothesis import examples

HOME, ABROAD = "PRONOSTIA", "PRONOSTIA conditions 2 and 3"
seeds = st.integers(0, 2**32 - 1)
labels = st.sampled_from(list(Label))


def metrics_of(*bearings, label=Label.FRACTION):
    """From (part, name, seconds, life, windows) of each bearing."""
    columns = [
        np.concatenate([np.full(len(bearing[2]), bearing[i]) for bearing in bearings]) for i in (0, 1, 3, 4)
    ]
    part, name, life, windows = columns
    seconds = np.concatenate([bearing[2] for bearing in bearings])
    return LifeMetrics(label, part, name, seconds, life, windows.astype(np.int64))


def one(seconds, life=100.0, part="XJTU-SY", name="Bearing1_1", windows=1, **more):
    return metrics_of((part, name, np.asarray(seconds, float), life, windows), **more)


def drawn(seed, label):
    """Some bearings, two of one name among them, in an order that is nobody's; index, predictions and answers."""
    random = np.random.default_rng(seed)
    known = [
        (HOME, "Bearing1_1"),
        (HOME, "Bearing1_3"),
        (HOME, "Bearing1_7"),
        (ABROAD, "Bearing2_6"),
        ("XJTU-SY", "Bearing1_3"),
        ("HUST", "B500"),
        ("HUST", "I601"),
    ]
    chosen = random.permutation(len(known))[: random.integers(1, len(known) + 1)]
    bearings = []
    for part, name in (known[i] for i in chosen):
        seconds = np.sort(random.uniform(1, 9000, random.integers(1, 60)))
        life = np.nan if part == "HUST" else seconds[-1] + random.uniform(1, 500)
        bearings.append((part, name, seconds, life, random.integers(1, 7)))
    metrics = metrics_of(*bearings, label=label)
    n = len(metrics.seconds)
    index = random.permutation(n)[: random.integers(1, n + 1)]
    predicted, actual = random.normal(0.5, 0.5, len(index)), random.uniform(0, 1, len(index))
    if label is Label.RUL:  # no two of them less than 0: whether a curve of equal shares rises, rounding decides
        predicted, actual = 100 * np.abs(predicted), 100 * actual
    return metrics, torch.from_numpy(index), column(predicted), column(actual)


def column(numbers):
    return torch.as_tensor(np.asarray(numbers), dtype=torch.float32).unsqueeze(1)


def used(label, seconds, value):
    """Share of a life that is used, from what a network says."""
    return seconds / (seconds + 60 * max(value, 0)) if label is Label.RUL else value


def accuracy(rows, life, moment):
    """By the challenge's rules, from the last of (seconds, share) that is not after a moment; None without one."""
    before = [row for row in rows if row[0] <= moment]
    if not before:
        return None
    seconds, share = before[-1][:2]
    if share <= 0:
        return 0.0
    left, true = max(seconds / share - seconds, 0), life - seconds
    percent = 100 * (true - left) / true
    return 0.5 ** (percent / 20) if percent > 0 else 0.5 ** (-percent / 5)


def slow(metrics, index, predicted, actual):
    """All metrics, one number after the other."""
    bearings = {}
    for i, guess, answer in zip(index.tolist(), predicted[:, 0].tolist(), actual[:, 0].tolist(), strict=True):
        seconds = float(metrics.seconds[i])
        shares = [used(metrics.label, seconds, value) for value in (guess, answer)]
        row = (seconds, *shares, int(metrics.windows[i]), float(metrics.life[i]))
        bearings.setdefault((str(metrics.part[i]), str(metrics.bearing[i])), []).append(row)
    found = {}
    for (part, name), rows in bearings.items():
        rows.sort()
        for metric, value in slow_curve(part, name, rows).items():
            found.setdefault(f"{metric} {part}", []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}


def slow_curve(part, name, rows):
    errors = [(guess - answer, windows) for _, guess, answer, windows, _ in rows]
    score = sum(k * (math.exp(-e / 13) - 1 if e < 0 else math.exp(e / 10) - 1) for e, k in errors)
    result = {"score": score, "mae": sum(abs(e) for e, _ in errors) / len(errors)}
    width = min(25, len(rows))
    points = [
        (rows[i][0], sum(row[1] for row in rows[i - width + 1 : i + 1]) / width)
        for i in range(width - 1, len(rows))
    ]
    if len(points) > 1:
        steps = [b[1] - a[1] for a, b in pairwise(points)]
        result["monotonicity"] = abs(sum(s > 0 for s in steps) - sum(s < 0 for s in steps)) / len(steps)
        result["trendability"] = abs(np.corrcoef(np.array(points).T)[0, 1])
    life = rows[0][-1]
    if not math.isnan(life):
        asked = {"phm": [share * life for share in (0.5, 0.6, 0.7, 0.8, 0.9)]}
        if part.startswith("PRONOSTIA") and name in CHALLENGE:
            asked["challenge"] = [life - CHALLENGE[name]]
        for metric, moments in asked.items():
            known = [value for moment in moments if (value := accuracy(rows, life, moment)) is not None]
            result |= {metric: sum(known) / len(known)} if known else {}
    return result


@examples(200)
@given(seeds, labels)
def test_metrics_equal_their_slow_version(seed, label):
    metrics, *given = drawn(seed, label)
    found, wanted = metrics.of(*given), slow(metrics, *given)
    assert found.keys() == wanted.keys()
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-9)


@given(seeds, labels)
def test_the_order_of_the_index_does_not_matter(seed, label):
    metrics, index, predicted, actual = drawn(seed, label)
    other = torch.from_numpy(np.random.default_rng(seed).permutation(len(index)))
    again = metrics.of(index[other], predicted[other], actual[other])
    assert again == pytest.approx(metrics.of(index, predicted, actual), rel=1e-12)


@given(seeds, labels)
def test_perfect_predictions_have_no_error(seed, label):
    metrics, index, _, actual = drawn(seed, label)
    found = metrics.of(index, actual, actual)
    assert {value for name, value in found.items() if name.split()[0] in ("score", "mae")} == {0}


def test_the_clock_of_a_life_is_perfect():
    perfect = dict.fromkeys(("phm", "challenge", "monotonicity", "trendability"), 1) | {"score": 0, "mae": 0}
    for label in (Label.FRACTION, Label.RUL):
        metrics = one(np.arange(7.0, 30_000, 9.7), 30_010.0, HOME, "Bearing1_3", label=label)
        places = np.random.default_rng(0).permutation(len(metrics.seconds))
        seconds = metrics.seconds[places]
        clock = metrics.clock(places)
        wanted = (30_010.0 - seconds) / 60 if label is Label.RUL else seconds / 30_010.0
        np.testing.assert_allclose(clock, wanted, rtol=1e-12, err_msg=label)
        answers = (torch.from_numpy(part)[:, None] for part in (clock, wanted))
        found = metrics.of(torch.from_numpy(places), *answers)
        assert found == pytest.approx({f"{name} PRONOSTIA": value for name, value in perfect.items()}, abs=1e-9)


def test_the_clock_of_what_is_no_life_ends_with_the_recording():
    hust = [("HUST", name, np.array([1.0, 2.0, end]), np.nan, 1) for name, end in (("B500", 4.0), ("I601", 8.0))]
    metrics = metrics_of(*hust, ("XJTU-SY", "B500", np.array([5.0]), 20.0, 1))
    assert metrics.clock(np.arange(7)).tolist() == [0.25, 0.5, 1, 0.125, 0.25, 1, 0.25]
    assert metrics.clock(np.array([5, 0])).tolist() == [1, 0.25]
    left = replace(metrics, label=Label.RUL).clock(np.arange(7))
    assert left == pytest.approx(np.array([3, 2, 0, 7, 6, 0, 15]) / 60)


def test_the_clock_of_a_bearing_after_its_failure_says_that_nothing_is_left():
    metrics = one([90.0, 110.0], label=Label.RUL)
    assert metrics.clock(np.arange(2)) == pytest.approx([10 / 60, 0])


def test_metrics_of_a_part_are_means_over_bearings_however_long_they_are():
    long, short = np.arange(1.0, 91), np.arange(1.0, 4)
    metrics = metrics_of(("XJTU-SY", "a", long, 100.0, 1), ("XJTU-SY", "b", short, 100.0, 1))
    found = metrics.of(torch.arange(93), column([0.1] * 90 + [0.5] * 3), torch.zeros(93, 1))
    assert found["mae XJTU-SY"] == pytest.approx(0.3)
    assert found["score XJTU-SY"] == pytest.approx((90 * math.expm1(0.01) + 3 * math.expm1(0.05)) / 2)


def test_each_prediction_counts_in_the_score_once_for_every_window():
    single, several = one([10.0, 20.0]), one([10.0, 20.0], windows=3)
    several.windows[1] = 5
    found = [metrics.of(torch.arange(2), column([0.5, 0.1]), column([0.2, 0.3])) for metrics in (single, several)]
    early, late = math.expm1(0.2 / 13), math.expm1(0.03)
    assert found[0]["score XJTU-SY"] == pytest.approx(late + early)
    assert found[1]["score XJTU-SY"] == pytest.approx(3 * late + 5 * early)
    assert found[0]["mae XJTU-SY"] == found[1]["mae XJTU-SY"] == pytest.approx(0.25)


def test_minutes_left_are_judged_as_a_share_of_life():
    metrics = one([60.0, 120.0], 240.0, label=Label.RUL)
    found = metrics.of(torch.arange(2), column([1.0, -5.0]), column([3.0, 2.0]))
    assert found["mae XJTU-SY"] == pytest.approx((abs(1 / 2 - 1 / 4) + abs(1 - 1 / 2)) / 2)


def test_recordings_that_are_no_lives_have_no_accuracy():
    found = one([1.0, 2.0, 3.0], np.nan, "HUST").of(torch.arange(3), column([0.1, 0.2, 0.3]), torch.zeros(3, 1))
    assert found.keys() == {"score HUST", "mae HUST"}  # three predictions make one point of the curve


def test_only_runs_of_the_challenge_are_asked_where_it_cut_them_off():
    given = torch.arange(1999), column(np.linspace(0, 1, 1999)), torch.zeros(1999, 1)
    for part, name, asked in (
        (HOME, "Bearing1_3", True),
        (ABROAD, "Bearing2_4", True),
        (HOME, "Bearing1_1", False),
        (HOME, "Bearing1_2", False),
        ("XJTU-SY", "Bearing1_3", False),
        ("some PRONOSTIA", "Bearing1_3", False),
    ):
        metrics = one(np.arange(10.0, 20_000, 10), 20_000.0, part, name)
        assert (f"challenge {part}" in metrics.of(*given)) == asked, (part, name)


def test_the_challenge_asks_at_its_cut_and_nowhere_else():
    metrics = one(np.arange(10.0, 20_000, 10), 20_000.0, HOME, "Bearing1_4")
    predicted = np.zeros(1999)
    place = int((20_000 - 2890) / 10) - 1
    predicted[place] = 17_110 / 20_000
    assert metrics.seconds[place] == 17_110
    found = metrics.of(torch.arange(1999), column(predicted), torch.zeros(1999, 1))
    assert found["challenge PRONOSTIA"] == pytest.approx(1, abs=1e-4)
    assert found["phm PRONOSTIA"] == 0


def test_a_run_that_is_shorter_than_its_cut_has_no_accuracy():
    found = one([10.0, 20.0], 30.0, HOME, "Bearing1_4").of(torch.arange(2), column([0.3, 0.6]), torch.zeros(2, 1))
    assert "challenge PRONOSTIA" not in found


def test_only_moments_after_the_first_prediction_are_asked_for():
    seconds = np.arange(72.0, 100, 2)
    shares = seconds / 100
    found = one(seconds).of(torch.arange(14), torch.from_numpy(shares)[:, None], torch.zeros(14, 1))
    assert found["phm XJTU-SY"] == pytest.approx(1)


def test_no_end_in_sight_is_no_accuracy():
    seconds = np.arange(10.0, 20_000, 10)
    metrics = one(seconds, 20_000.0, HOME, "Bearing1_3")
    for value in (0.0, -0.0, -1e-30, -3.0):
        found = metrics.of(torch.arange(1999), torch.full((1999, 1), value), column(seconds / 20_000))
        assert (found["phm PRONOSTIA"], found["challenge PRONOSTIA"]) == (0, 0), value
        assert found["score PRONOSTIA"] > 0, value


def test_a_constant_prediction_has_no_trend():
    for value, count in product((0.1, 0.3, 0.7, 1 / 3), (26, 27, 33, 50, 101)):
        metrics = one(np.arange(1.0, count + 1) * 9.7, 5000.0)
        found = metrics.of(torch.arange(count), torch.full((count, 1), value), torch.zeros(count, 1))
        assert found["monotonicity XJTU-SY"] == 0, (value, count)
        assert found["trendability XJTU-SY"] < 1e-6, (value, count)


def test_a_prediction_at_the_very_moment_that_is_asked_for_counts():
    seconds = np.arange(10.0, 100, 10)
    shares = np.where(seconds >= 50, seconds / 100, 0)
    found = one(seconds).of(torch.arange(9), torch.from_numpy(shares)[:, None], torch.zeros(9, 1))
    assert found["phm XJTU-SY"] == pytest.approx(1)
    for late in (50, 60, 70, 80, 90):  # and no other does
        alone = np.where(seconds == late, seconds / 100, 0)
        found = one(seconds).of(torch.arange(9), torch.from_numpy(alone)[:, None], torch.zeros(9, 1))
        assert found["phm XJTU-SY"] == pytest.approx(0.2)
