"""An error message says what was wrong, what came and what was wanted."""

import math

import pytest

from nacre._util.checks import choice, did_you_mean, flag, real, there_are, whole
from support.refused import refused


def test_good_values_come_back():
    assert choice("mode", "exact", ["exact", "euler"]) is None
    assert whole("n", 3, 3) == 3
    assert real("x", 1, 0.0, 1.0) == 1.0
    assert isinstance(real("x", 1, 0.0, 1.0), float)
    assert flag("on", True) is True


def test_bad_values_are_refused():
    for call, error, message in (
        (
            lambda: choice("mode", "exat", ["exact", "euler"]),
            ValueError,
            "got 'exat'; did you mean 'exact'",
        ),
        (lambda: choice("mode", "zzz", ["exact"]), ValueError, "mode must be one of 'exact', got 'zzz'$"),
        (lambda: whole("n", 2, 3), ValueError, "n must be at least 3, got 2"),
        (lambda: whole("n", 9, 1, 8), ValueError, "n must be at most 8, got 9"),
        (lambda: whole("n", 2**63, 1), ValueError, "n must be at most 9223372036854775807"),
        (lambda: whole("n", 2.0, 1), TypeError, r"n must be an integer, got 2.0 \(float\)"),
        (lambda: whole("n", True, 1), TypeError, "n must be an integer, got True"),
        (lambda: real("x", 1.5, 0.0, 1.0), ValueError, r"x must lie in \[0.0, 1.0\], got 1.5"),
        (lambda: real("x", 0.0, 0.0, math.inf, open_low=True), ValueError, r"x must lie in \(0.0, inf\), got 0.0"),
        (lambda: real("x", math.inf, 0.0, math.inf), ValueError, r"x must lie in \[0.0, inf\), got inf"),
        (lambda: real("x", 10**400, 0.0, math.inf), ValueError, r"x must lie in \[0.0, inf\), got 1000"),
        (lambda: real("x", math.nan, 0.0, 1.0), ValueError, "got nan"),
        (lambda: real("x", "1", 0.0, 1.0), TypeError, r"x must be a number, got '1' \(str\)"),
        (lambda: flag("on", 1), TypeError, r"on must be True or False, got 1 \(int\)"),
    ):
        with refused(message, error):
            call()


@pytest.mark.parametrize(
    ("name", "hint", "all_of_them"),
    [
        ("sqr", "; did you mean 'sqrt'?", "did you mean 'sqrt'? There are sqrt, exact"),
        ("zzz", "", "there are sqrt, exact"),
    ],
)
def test_the_nearest_name_is_proposed(name, hint, all_of_them):
    known = ["sqrt", "exact"]
    assert did_you_mean(name, known) == hint
    assert there_are(name, known) == all_of_them
    assert there_are(name, []) == "there are none"
