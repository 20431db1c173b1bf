"""Spread, ranks, tests and corrections, beside slow versions and scipy; blocks and rows of comparable runs."""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from nacre.train.report.compare import blocks_of, mean_ranks, rows_of
from nacre.train.report.results import find_results
from nacre.train.report.statistics import corrected_t_test, critical_difference, holm, mean_and_std, ranks, wilson
from support.runs import write_folds, write_run

numbers = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, math.nan, math.inf]), min_size=0, max_size=8)
chances = st.lists(st.none() | st.floats(0, 1), max_size=8)

# --- pure numbers -------------------------------------------------------------------------------------------


def test_spread_is_that_of_a_sample():
    mean, std = mean_and_std([1.0, 2.0, 4.0])
    assert mean == pytest.approx(7 / 3)
    assert std == pytest.approx(math.sqrt(((4 / 3) ** 2 + (1 / 3) ** 2 + (5 / 3) ** 2) / 2))
    assert mean_and_std([3.0]) == (3.0, None)
    with pytest.raises(ValueError, match="at least one"):
        mean_and_std([])


@given(numbers, st.sampled_from(["lower", "higher"]))
def test_ranks_count_better_and_equal_finite_numbers(values, better):
    def place(value):
        before = sum(v < value if better == "lower" else v > value for v in values if math.isfinite(v))
        return 1 + before + (values.count(value) - 1) / 2 if math.isfinite(value) else None

    assert ranks(values, better) == [place(value) for value in values]


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=10).filter(lambda d: np.std(d) > 1e-6))
def test_without_overlap_the_test_is_the_paired_one_of_scipy(differences):
    assert corrected_t_test(differences, 0.0) == pytest.approx(scipy.stats.ttest_1samp(differences, 0.0).pvalue)


def test_overlap_widens_the_variance_as_nadeau_and_bengio_say():
    differences = [0.5, 0.1, 0.3, 0.2, 0.4]
    t = 0.3 / math.sqrt(np.var(differences, ddof=1) * (1 / 5 + 0.25))
    density = scipy.stats.t(4).pdf
    tail = scipy.integrate.quad(density, t, np.inf)[0]
    assert corrected_t_test(differences, 0.25) == pytest.approx(2 * tail)
    assert corrected_t_test([-d for d in differences], 0.25) == pytest.approx(2 * tail)


def test_no_test_where_it_would_say_nothing():
    assert corrected_t_test([0.1, 0.2], 0.25) is None
    assert corrected_t_test([0.0, 0.0, 0.0], 0.25) == 1.0
    assert corrected_t_test([0.1, 0.1, 0.1], 0.25) is None
    same_but_for_rounding = [0.3 - 0.2, 0.4 - 0.3, 0.1, 0.2 - 0.1]
    assert corrected_t_test(same_but_for_rounding, 0.25) is None


def slow_holm(values):
    """Of each test: the largest, over the tests with no larger p, of p times the number of tests not smaller."""
    tests = sorted((p, i) for i, p in enumerate(values) if p is not None)
    order = [i for _, i in tests]
    steps = [min(1.0, p * (len(tests) - place)) for place, (p, _) in enumerate(tests)]
    return [None if p is None else max(steps[: order.index(i) + 1]) for i, p in enumerate(values)]


@given(chances)
def test_holm_is_the_slow_one(values):
    assert holm(values) == pytest.approx(slow_holm(values))


def test_holm_of_a_known_case():
    # Two tests below: 0.01 × 4, 0.015 × 3, 0.02 × 2 raised to the one before, 0.2.  # noqa: RUF003
    assert holm([0.2, 0.01, 0.02, 0.015]) == pytest.approx([0.2, 0.04, 0.045, 0.045])


def test_critical_differences_are_those_of_demsar():
    """Table 5a of Demšar (2006): q at 5% is 1.960, 2.343, 2.569 and 3.164 for 2, 3, 4 and 10 models."""
    for models, quantile in ((2, 1.960), (3, 2.343), (4, 2.569), (10, 3.164)):
        wanted = quantile * math.sqrt(models * (models + 1) / (6 * 14))
        assert critical_difference(models, 14) == pytest.approx(wanted, abs=2e-3)


# --- comparable runs ----------------------------------------------------------------------------------------


def rows(root, **changes):
    (block,) = blocks_of(find_results(root, **changes).results)
    return {row.model: row for row in rows_of(block)}


DIFFERENT = [
    *({"profile": "full"}, {"steps": 301}, {"batch_size": 32}, {"recipe": "e" * 64}, {"form": "mirror"}),
    *({"digest": "e" * 64}, {"folds": 3}, {"task": "jena"}, {"metric": "mae"}),
]


def test_what_differs_is_never_compared(tmp_path):
    for i, changes in enumerate(DIFFERENT):
        write_folds(tmp_path / str(i), "nac", [0.1, 0.2, 0.3])
        write_folds(tmp_path / str(i), "sdpa", [0.2, 0.3, 0.4], **changes)
        blocks = blocks_of(find_results(tmp_path / str(i)).results)
        assert sorted(block.models for block in blocks) == [("nac",), ("sdpa",)], changes
        assert all(row.against is None for block in blocks for row in rows_of(block)), changes


def test_controls_stand_beside_every_budget_of_their_data(tmp_path):
    write_run(tmp_path, "nac")
    write_run(tmp_path / "full", "nac", profile="full")
    write_run(tmp_path, "persistence", control=True, profile="none", steps=0)
    write_run(tmp_path, "mirrored", control=True, digest="e" * 64)
    blocks = blocks_of(find_results(tmp_path).results)
    assert [sorted(r.model for r in b.results) for b in blocks] == [
        ["nac", "persistence"],
        ["nac", "persistence"],
        ["mirrored"],
    ]


def test_a_second_run_of_a_cell_is_left_out(tmp_path):
    write_run(tmp_path / "a", value=0.1)
    again = write_run(tmp_path / "b", value=0.9)
    (block,) = blocks_of(find_results(tmp_path).results)
    assert [r.value for r in block.results] == [0.1]
    assert [r.directory for r in block.repeated] == [again]


def test_seeds_are_averaged_within_folds_first(tmp_path):
    for fold, seed, value in ((0, 0, 1.0), (0, 1, 3.0), (1, 0, 5.0)):
        write_run(tmp_path, "nac", fold, seed, value)
    row = rows(tmp_path)["nac"]
    assert (row.mean, row.std) == (3.5, pytest.approx(math.sqrt(4.5)))
    assert (row.runs, row.folds) == (3, {0, 1})


def test_ranks_leave_out_controls_diverged_and_incomplete_models(tmp_path):
    write_folds(tmp_path, "nac", [0.2, 0.2, 0.2])
    write_folds(tmp_path, "sdpa", [0.1, 0.3, 0.2])
    write_folds(tmp_path, "cta", [0.4, 0.4, 0.4])
    write_folds(tmp_path, "s4", [0.01, float("nan"), 0.01])
    write_folds(tmp_path, "mtan", [0.01, 0.01, None])
    write_folds(tmp_path, "persistence", [0.01, 0.01, 0.01], control=True)
    found = rows(tmp_path)
    assert {name: row.rank for name, row in found.items()} == {
        **{"nac": 1.5, "sdpa": 1.5, "cta": 3.0},
        **{"s4": None, "mtan": None, "persistence": None},
    }
    assert list(found)[-1] == "persistence"
    assert math.isnan(found["s4"].mean)
    assert (found["s4"].diverged, found["s4"].against) == (1, None)


def test_higher_is_better_where_results_say_so(tmp_path):
    write_folds(tmp_path, "nac", [90.0, 91.0], better="higher", metric="accuracy")
    write_folds(tmp_path, "sdpa", [92.0, 93.0], better="higher", metric="accuracy")
    found = rows(tmp_path)
    assert list(found) == ["sdpa", "nac"]
    assert found["sdpa"].rank == 1.0


def test_models_are_compared_with_nac_over_common_cells_and_corrected(tmp_path):
    nac, sdpa, cta = [0.30, 0.32, 0.31, 0.29, 0.33], [0.36, 0.35, 0.38, 0.34, None], [0.31, 0.31, 0.33, 0.28, 0.33]
    for model, values in (("nac", nac), ("sdpa", sdpa), ("cta", cta)):
        write_folds(tmp_path, model, values, train=300, test=100)
    write_folds(tmp_path, "persistence", [0.5, 0.6, 0.5, 0.6, 0.5], control=True)
    found = rows(tmp_path)
    first = corrected_t_test([b - a for a, b in zip(nac[:4], sdpa[:4], strict=True)], 1 / 3)
    second = corrected_t_test([b - a for a, b in zip(nac, cta, strict=True)], 1 / 3)
    assert first < second
    assert found["sdpa"].against.cells == 4
    assert found["sdpa"].against.difference == pytest.approx(0.0525)
    assert found["sdpa"].against.p == pytest.approx(2 * first)
    assert found["cta"].against.p == pytest.approx(max(2 * first, second))
    alone = corrected_t_test([b - a for a, b in zip(nac, [0.5, 0.6, 0.5, 0.6, 0.5], strict=True)], 1 / 3)
    assert found["persistence"].against.p == pytest.approx(alone)
    assert found["nac"].against is None


def test_folds_of_other_splits_are_no_pairs(tmp_path):
    write_folds(tmp_path, "nac", [0.1, 0.2, 0.3])
    for fold, split in enumerate(["split0", "other", "split2"]):
        write_run(tmp_path, "sdpa", fold, value=0.5, split=split)
    assert rows(tmp_path)["sdpa"].against.cells == 2


def test_mean_ranks_take_tasks_that_all_models_have(tmp_path):
    for task, values in {
        "ettm1": {"nac": 0.1, "sdpa": 0.2, "cta": 0.3},
        "jena": {"nac": 0.5, "sdpa": 0.4, "cta": float("nan")},
        "udacity": {"nac": 0.5},
    }.items():
        for model, value in values.items():
            write_run(tmp_path, model, value=value, task=task)
        write_run(tmp_path, "zero", value=0.0, task=task, control=True)
    found = mean_ranks(blocks_of(find_results(tmp_path).results))
    assert found.tasks == ("ettm1", "jena")
    assert found.ranks == {"nac": (1.0, 2.0), "sdpa": (2.0, 1.0), "cta": (3.0, 3.0)}
    assert found.mean("cta") == 3.0


def test_mean_ranks_use_as_many_numbers_as_they_can(tmp_path):
    names = ("ettm1", "jena", "udacity")
    for models, tasks in (((4, 3, 3), names), ((5, 2, 1), names[:1]), ((4, 2, 1), names[:2])):
        folder = tmp_path / str(models)
        for task, count in zip(names, models, strict=True):
            for i in range(count):
                write_run(folder, f"model{i}", value=1.0 + i, task=task)
        found = mean_ranks(blocks_of(find_results(folder).results))
        assert found.tasks == tasks, models
        assert len(found.ranks) == models[len(tasks) - 1], models


def test_no_mean_ranks_of_a_single_model(tmp_path):
    write_run(tmp_path)
    assert mean_ranks(blocks_of(find_results(tmp_path).results)) is None
    write_run(tmp_path / "full", profile="full")
    with pytest.raises(ValueError, match="different tasks"):
        mean_ranks(blocks_of(find_results(tmp_path).results))


def test_wilson_solves_its_equation():
    """Its limits p are where the observed share is 1.96 standard errors of p away from p."""
    z = scipy.stats.norm.ppf(0.975)
    for successes, trials in ((0, 10), (7, 10), (10, 10), (70, 100), (1, 3)):
        share = successes / trials
        for p in wilson(successes, trials):
            assert trials * (share - p) ** 2 == pytest.approx(z**2 * p * (1 - p), abs=1e-9), (successes, trials)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


def test_wilson_refuses_counts_that_make_no_sense():
    for successes, trials in ((3, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match="successes must be 0 to"):
            wilson(successes, trials)
