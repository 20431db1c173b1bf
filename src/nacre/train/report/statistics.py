"""Statistics of the metrics of runs: spread over folds, ranks, and significance of differences."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nacre._util.checks import real, whole

ENOUGH = 3  # pairs of runs; a test with fewer says nothing
_ROUNDING = 1e-12  # relative: differences that vary by less count as equal


class Spread(NamedTuple):
    """Mean and sample standard deviation; None where one number has no spread."""

    mean: float
    std: float | None


def mean_and_std(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation (divided by n - 1).

    Example:
        >>> mean_and_std([1.0, 2.0, 3.0])
        Spread(mean=2.0, std=1.0)
        >>> mean_and_std([1.0])
        Spread(mean=1.0, std=None)
    """
    if not len(values):
        raise ValueError("values must hold at least one number, got none")
    numbers = np.asarray(values, dtype=np.float64)
    return Spread(float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else None)


def ranks(values: Sequence[float], better: str) -> list[float | None]:
    """Rank of each number, 1 = best; equal numbers share the mean of their places; None where not finite.

    Example:
        >>> ranks([0.3, 0.1, float("nan"), 0.1], "lower")
        [3.0, 1.5, None, 1.5]
    """
    from scipy.stats import rankdata

    sign = {"lower": 1.0, "higher": -1.0}[better]
    places = rankdata([sign * v if math.isfinite(v) else math.nan for v in values], nan_policy="omit")
    return [None if math.isnan(place) else float(place) for place in places]


def corrected_t_test(differences: Sequence[float], test_by_train: float) -> float | None:
    """Two-sided p of paired differences between runs whose training parts overlap (Nadeau and Bengio, 2003).

    The variance of the mean is taken as s² (1/n + test/train) instead of s²/n, which would be right only if
    the runs were independent.

    Args:
        differences: One for each pair of runs.
        test_by_train: Size of the test part by that of the training part.

    Returns:
        p; 1 where all differences are 0; None where there are fewer than 3, or where they are all the same
        number, so that there is no spread to judge it by.

    Example:
        >>> round(corrected_t_test([0.1, 0.2, 0.3, 0.2, 0.1], 0.25), 3)
        0.033
    """
    from scipy.stats import t as student

    real("test_by_train", test_by_train, 0.0, math.inf)
    n = len(differences)
    if n < ENOUGH:
        return None
    mean, std = mean_and_std(differences)
    if not any(differences):
        return 1.0
    if std is None or std <= _ROUNDING * float(np.abs(differences).max()):
        return None
    statistic = mean / (std * math.sqrt(1 / n + test_by_train))
    return float(2 * student.sf(abs(statistic), n - 1))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction of several p values, which controls the chance of any false positive.

    None (no test) stays None and does not count.

    Example:
        >>> holm([0.01, None, 0.04, 0.03])
        [0.03, None, 0.06, 0.06]
    """
    tests = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for place, (p, i) in enumerate(tests):
        largest = max(largest, min(1.0, p * (len(tests) - place)))
        corrected[i] = largest
    return corrected


def critical_difference(models: int, tasks: int) -> float:
    """Mean ranks closer than this do not differ significantly (Nemenyi's test at 5%).

    Example:
        >>> round(critical_difference(4, 10), 2)
        1.48
    """
    from scipy.stats import studentized_range

    whole("models", models, 2)
    whole("tasks", tasks, 1)
    quantile = float(studentized_range.ppf(0.95, models, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(models * (models + 1) / (6 * tasks))


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a success rate; it has a width even if all succeeded.

    Example:
        >>> [round(limit, 3) for limit in wilson(10, 10)]
        [0.722, 1.0]
    """
    from scipy.stats import binomtest

    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(
            f"successes must be 0 to {trials}, the trials, of which there must be one, got {successes}"
        )
    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
