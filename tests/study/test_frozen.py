"""`nacre study frozen`: the gates, the solutions, the theorem's bound, the runs, the table and the figure."""

import csv
import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from nacre.cli.app import app
from nacre.study.frozen import command
from nacre.study.frozen import run as frozen_run
from nacre.study.frozen.command import Frozen, run_frozen
from nacre.study.frozen.figures import plot_frozen
from nacre.study.frozen.gates import (
    REPORTED_ERROR,
    REPORTED_VARIATION,
    Regime,
    Strength,
    VaryingGate,
    amplitude_for,
    measured_lipschitz,
    measured_variation,
    variation_of,
)
from nacre.study.frozen.run import FrozenRun, Resolution, Start, compare, halve, refreeze, slope
from nacre.study.frozen.solve import Logit, error_bound, error_limit, solve_frozen, solve_refrozen, solve_varying
from nacre.study.frozen.table import FrozenRow, print_rows, read_results, rows_of
from support.hypothesis import examples

SMOOTH = [Regime.SLOW, Regime.FAST, Regime.OSCILLATORY]
FINE = np.linspace(0, 1, 1025)
number = st.floats(0.05, 3.0)
change = st.floats(0.01, 0.9)
regimes, smooth = st.sampled_from(Regime), st.sampled_from(SMOOTH)


def quiet(step, loss):
    pass


def logit(regime, phi=0.3, by_phi=0.4, omega=1.2, by_omega=0.3, a0=0.0, horizon=1.0):
    return Logit(VaryingGate(regime, phi, by_phi, horizon), VaryingGate(regime, omega, by_omega, horizon), a0)


def runge_kutta(one, t, small=8):
    """The obvious solver: classical steps, `small` of them between points of the grid, which holds every jump."""
    a, found = one.a0, [one.a0]
    for left, right in pairwise(t):
        h = (right - left) / small
        for i in range(small):
            s = left + i * h
            end = np.nextafter(s + h, 0) if one.phi.regime == Regime.STEP else s + h  # values before a jump

            def f(s, a):
                return float(one.phi.at(np.array(s))) - float(one.omega.at(np.array(s))) * a

            k1 = f(s, a)
            k2 = f(s + h / 2, a + h / 2 * k1)
            k3 = f(s + h / 2, a + h / 2 * k2)
            k4 = f(end, a + h * k3)
            a += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found.append(a)
    return np.array(found)


@pytest.fixture(scope="module")
def results():
    return {(r, s): FrozenRun(r, s).do(quiet) for r in Regime for s in Strength}


@examples(100)
@given(regime=regimes, percent=st.floats(0.01, 190), base=number)
def test_a_gate_starts_at_its_base_and_varies_as_much_as_asked(regime, percent, base):
    gate = VaryingGate(regime, base, amplitude_for(regime, percent))
    assert float(gate.at(np.zeros(()))) == pytest.approx(base)
    assert measured_variation(gate, FINE) == pytest.approx(percent, rel=1e-5)
    values = gate.at(FINE)
    assert values.min() > 0
    assert 100 * (values.max() - values.min()) / values.mean() == pytest.approx(percent, rel=5e-3)


def test_a_step_happens_at_half_of_the_horizon():
    gate = VaryingGate("step", 2.0, 0.5, 0.25)
    assert gate.at(np.array([0.0, 0.1249, 0.125, 0.25])).tolist() == [2.0, 2.0, 3.0, 3.0]
    assert gate.lipschitz is None


@examples(100)
@given(regime=smooth, base=number, amplitude=change, horizon=st.floats(0.1, 2.0))
def test_no_difference_quotient_exceeds_the_lipschitz_constant_and_some_come_near(
    regime, base, amplitude, horizon
):
    gate = VaryingGate(regime, base, amplitude, horizon)
    t = np.linspace(0, horizon, 1001)
    measured = measured_lipschitz(t, gate.at(t))
    assert 0.995 * gate.lipschitz <= measured <= gate.lipschitz * (1 + 1e-9)


def test_parity_the_true_solution_is_that_of_small_runge_kutta_steps():
    for regime in Regime:
        for a0, horizon in ((0.0, 1.0), (0.7, 0.5)):
            one = logit(regime, by_phi=0.9, by_omega=0.8, a0=a0, horizon=horizon)
            t = np.linspace(0, horizon, 65)
            case = f"{regime}, from {a0}"
            np.testing.assert_allclose(solve_varying(one, t), runge_kutta(one, t), 0, 2e-10, err_msg=case)


def test_the_frozen_solution_knows_only_the_first_values():
    rest = 0.6 / 1.5
    wanted = rest + (0.2 - rest) * np.exp(-1.5 * FINE)
    for regime in Regime:
        one = logit(regime, phi=0.6, omega=1.5, a0=0.2)
        np.testing.assert_allclose(solve_frozen(one, FINE), wanted, rtol=1e-13, err_msg=regime)


@pytest.mark.parametrize("regime", Regime)
def test_parity_refreezing_goes_on_where_the_interval_before_ended(regime):
    one = logit(regime, a0=0.1)
    np.testing.assert_allclose(solve_refrozen(one, FINE, 1), solve_frozen(one, FINE), rtol=0, atol=1e-15)
    a, wanted = one.a0, []
    for i in range(4):
        inside = FINE[(np.floor(FINE * 4) == i) | ((FINE == 1) & (i == 3))] - i / 4
        phi, omega = float(one.phi.at(np.array(i / 4))), float(one.omega.at(np.array(i / 4)))
        wanted += [phi / omega + (a - phi / omega) * math.exp(-omega * s) for s in inside]
        a = phi / omega + (a - phi / omega) * math.exp(-omega / 4)
    np.testing.assert_allclose(solve_refrozen(one, FINE, 4), wanted, rtol=0, atol=1e-14)


@examples(75)
@given(regime=smooth, phi=number, omega=number, by_phi=change, by_omega=change, a0=st.floats(0, 2))
def test_the_bound_holds_at_every_point_whatever_the_gates(regime, phi, omega, by_phi, by_omega, a0):
    one = logit(regime, phi, by_phi, omega, by_omega, a0)
    t = np.linspace(0, 1, 257)
    error = np.abs(solve_varying(one, t) - solve_frozen(one, t))
    bound = error_bound(one, t)
    assert (error <= bound + 1e-12).all()
    l_phi, l_omega = one.phi.lipschitz, one.omega.lipschitz
    wanted = (l_phi + (a0 + phi / omega) * l_omega) / l_omega * np.expm1(l_omega * t**2 / 2)
    np.testing.assert_allclose(bound, wanted, rtol=1e-12)


def test_the_bound_of_a_constant_decay_is_the_limit_and_a_step_has_none():
    one = logit("slow", phi=0.3, by_phi=0.5, by_omega=0.0)
    np.testing.assert_allclose(error_bound(one, FINE), 0.15 * FINE**2 / 2, rtol=1e-14)
    assert error_bound(logit("step"), FINE) is None


@examples(75)
@given(regime=regimes, phi=number, omega=st.floats(0.05, 20.0), percent=st.floats(1, 100), a0=st.floats(0, 2))
def test_no_base_values_exceed_the_limit(regime, phi, omega, percent, a0):
    c = amplitude_for(regime, percent)
    one = logit(regime, phi, c, omega, c / 2, a0)
    t = np.linspace(0, 1, 257)
    true = solve_varying(one, t)
    assert 100 * np.abs(true - solve_frozen(one, t)).max() / np.abs(true).max() <= error_limit(one, t) + 1e-6
    assert error_limit(one, t) == pytest.approx(error_limit(logit(regime, 0.3, c, 1.0, c / 2), t))


def test_the_limit_adds_both_departures():
    assert error_limit(logit("slow", by_phi=0.4, by_omega=0.3), FINE) == pytest.approx(100 * (0.4 * 1.3 + 0.3))
    swinging = error_limit(logit("oscillatory", by_phi=0.4, by_omega=0.3), FINE)
    assert swinging == pytest.approx(100 * (0.4 / 0.6 * 1.3 + 0.3))


def test_what_the_paper_reports_exceeds_the_limit_in_every_regime(results):
    for regime in Regime:
        assert results[regime, "reported"]["limit"] < min(REPORTED_ERROR[regime])


def test_errors_are_shares_of_the_largest_logit_over_times_after_0():
    one = logit("oscillatory", by_phi=0.8, a0=0.1)
    found = compare(one, 64)
    t = np.linspace(0, 1, 65)
    true, frozen = solve_varying(one, t), solve_frozen(one, t)
    shares = [100 * abs(a - b) / max(abs(true)) for a, b in zip(true, frozen, strict=True)][1:]
    assert found["mean_error"] == pytest.approx(sum(shares) / 64)
    assert found["max_error"] == pytest.approx(max(shares))


def test_variations_are_the_papers_and_the_strong_ones(results):
    for regime in Regime:
        wanted = REPORTED_VARIATION[regime]
        assert variation_of(regime, "reported") == wanted
        for strength, (phi, omega) in (("reported", wanted), ("strong", (100, 50))):
            assert results[regime, strength]["variation"]["phi"] == pytest.approx(phi, abs=0.005)
            assert results[regime, strength]["variation"]["omega"] == pytest.approx(omega, abs=0.005)


def test_the_bound_holds_in_smooth_regimes_and_is_left_out_for_steps(results):
    for (regime, _), result in results.items():
        if regime == Regime.STEP:
            assert result["bound"] is None
            assert "bound" not in result["curve"]
        else:
            assert result["bound"]["holds"] is True
            assert result["bound"]["points"] == 1024
            assert 0.2 < result["bound"]["nearest"] <= 1
            exact, grid = result["bound"]["lipschitz"], result["bound"]["lipschitz_on_grid"]
            assert all(grid[g] == pytest.approx(exact[g], rel=1e-3) for g in ("phi", "omega"))


def test_a_broken_bound_is_said_to_be_broken(monkeypatch):
    one = logit("oscillatory")
    real = error_bound(one, np.linspace(0, 1, 65))
    worst = compare(one, 64)["bound"]["nearest"]
    monkeypatch.setattr(frozen_run, "error_bound", lambda *_: real * worst * 0.99)
    assert compare(one, 64)["bound"]["holds"] is False
    monkeypatch.setattr(frozen_run, "error_bound", lambda *_: real * worst * 1.01)
    assert compare(one, 64)["bound"]["holds"] is True


def test_the_error_is_of_second_order_in_the_horizon_and_of_first_for_a_step(results):
    for (regime, _), result in results.items():
        assert [p["horizon"] for p in result["halved"]] == [1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
        assert result["halved_slope"] == pytest.approx(1 if regime == Regime.STEP else 2, abs=0.1)


def test_at_small_times_the_error_is_half_the_targets_slope_times_t_squared():
    for regime, rate in ((Regime.SLOW, 0.15), (Regime.FAST, 0.15), (Regime.OSCILLATORY, 0.15 * 2 * math.pi)):
        last = halve(logit(regime, by_phi=0.5), Resolution(64, 8, 1))[-1]
        assert last["error"] == pytest.approx(rate * last["horizon"] ** 2 / 2, rel=0.01), regime


def test_from_0_a_changing_decay_alone_is_felt_in_third_order_and_from_elsewhere_in_second():
    def order(a0):
        found = halve(logit("slow", by_phi=0.0, a0=a0), Resolution(64, 6, 1))[3:]
        return slope([(p["horizon"], p["error"]) for p in found])

    assert order(0.0) == pytest.approx(3, abs=0.1)
    assert order(0.9) == pytest.approx(2, abs=0.1)


def test_refreezing_is_of_first_order_in_the_interval_and_exact_for_a_step_between_two(results):
    for (regime, _), result in results.items():
        assert [p["intervals"] for p in result["refrozen"]] == [1, 2, 4, 8, 16, 32]
        errors = [p["error"] for p in result["refrozen"]]
        assert errors[0] == pytest.approx(result["halved"][0]["error"], rel=1e-6)
        if regime == Regime.STEP:
            assert result["refrozen_slope"] is None
            assert max(errors[1:]) < 1e-12
        else:
            assert result["refrozen_slope"] == pytest.approx(-1, abs=0.1)


def test_a_jump_inside_an_interval_is_not_solved_exactly():
    one = logit("step")
    true = solve_varying(one, FINE)
    assert np.abs(true - solve_refrozen(one, FINE, 3)).max() > 1e-3
    assert refreeze(one, Resolution(1024, 1, 2))[1]["error"] < 1e-15


def test_slopes_are_those_of_powers_and_rounding_has_none():
    assert slope([(x, 3 * x**-1.5) for x in (1, 2, 3, 10)]) == pytest.approx(-1.5)
    assert slope([(1, 1e-13), (2, 1e-3)]) is None
    assert slope([(1, 1)]) is None


def test_a_run_is_repeatable_and_holds_what_defines_it():
    run, steps = FrozenRun("fast", "strong", "quick", Start(0.2, 2.0, 0.1)), []
    a = run.do(quiet)
    assert a == run.do(lambda step, loss: steps.append(step))
    assert steps == list(range(1, run.steps + 1))
    assert FrozenRun.of(json.loads(json.dumps(a))) == run
    assert a["detail"] == {"points": 1024, "halvings": 5, "intervals": 32}
    assert a["curve"]["varying"][0] == a["curve"]["frozen"][0] == 0.1
    assert len(a["curve"]["t"]) == 129


def test_rows_hold_the_papers_figures_only_beside_the_papers_variation(results):
    rows = rows_of(reversed(results.values()))
    assert [(r.strength, r.regime) for r in rows] == [(s, r) for s in Strength for r in Regime]
    for row in rows:
        wanted = tuple(REPORTED_ERROR[row.regime]) if row.strength == "reported" else (None, None)
        assert (row.reported_mean, row.reported_max) == wanted
        assert row.max_error == results[row.regime, row.strength]["max_error"]


def test_the_table_says_where_no_bound_applies_and_where_one_is_broken(results):
    rows = rows_of(results.values())
    console = Console(width=80)
    with console.capture() as said:
        print_rows([*rows[:-1], FrozenRow(**{**vars(rows[-1]), "bound_holds": False})], console)
    text = said.get()
    assert text.count("none applies") == 2
    assert text.count("BROKEN") == 1
    assert text.count(" holds ") == 5
    assert "…" not in text
    assert "prints 5.18" in " ".join(text.split())


@pytest.mark.slow
def test_the_command_from_an_empty_directory_and_another_start_is_another_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(frozen_run.DETAIL, "quick", Resolution(64, 3, 8))
    done = CliRunner().invoke(app, ["study", "frozen", "--profile", "quick"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "studies" / "frozen"
    with (folder / "frozen.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["strength"], r["regime"]) for r in rows] == [(s, r) for s in Strength for r in Regime]
    assert [r["bound_holds"] for r in rows] == ["True", "True", "", "True"] * 2
    assert (folder / "frozen.png").read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr(command, "plot_frozen", lambda results: b"")
    assert run_frozen(Frozen(out=folder)) == []
    assert len(run_frozen(Frozen(start=Start(a=0.5), out=folder))) == 8
    with (folder / "frozen.csv").open() as file:
        assert [row["a"] for row in csv.DictReader(file)] == ["0.5"] * 8
    assert len(read_results(folder)) == 16


def test_bad_input_is_refused_before_anything_is_run(tmp_path):
    with pytest.raises(ValueError, match="profile must be one of"):
        run_frozen(Frozen("fast", out=tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="omega must lie in"):
        Start(omega=0.0)
    with pytest.raises(ValueError, match="regime must be one of"):
        FrozenRun("sloow", "strong")
    with pytest.raises(ValueError, match="percent must be less than 200 in the slow regime, got 250"):
        amplitude_for("slow", 250)


def test_a_damaged_file_is_named(tmp_path):
    path = FrozenRun("slow", "strong").path(tmp_path)
    path.parent.mkdir(parents=True)
    for text in ("", "{}", "[]", '{"regime": "slow", "strength": "strong"}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"slow-strong.json is damaged"):
            read_results(tmp_path)


@pytest.mark.slow
def test_a_figure_of_a_part_of_the_runs(results):
    only_steps = [result for (regime, _), result in results.items() if regime == Regime.STEP]
    for some in (only_steps, []):
        assert plot_frozen(some)[:4] == b"\x89PNG"
