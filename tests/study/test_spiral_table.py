"""Tables, claims and figure of `nacre study spiral`."""

import json
import math

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from rich.console import Console

from nacre.study.profile import StudyProfile
from nacre.study.spiral import figures
from nacre.study.spiral.claims import claims_of, sentences
from nacre.study.spiral.figures import plot_spiral
from nacre.study.spiral.grid import DEFAULT, GRIDS, Section, SpiralSetting
from nacre.study.spiral.run import SpiralRun
from nacre.study.spiral.table import print_rows, read_results, rows_of

SMALL = SpiralSetting(heads=2)


def result(setting=DEFAULT, seed=0, interpolation=1e-4, extrapolation=2e-4, steps=3):
    """A made-up result with errors of your choice."""
    mse = {"interpolation": interpolation, "extrapolation": extrapolation}
    mae = {part: math.sqrt(value) for part, value in mse.items()}
    control = {
        "mse": {"interpolation": 1e-3, "extrapolation": 2e-3},
        "mae": {"interpolation": 1, "extrapolation": 2},
    }
    return {
        **vars(setting),
        "steps": steps,
        "seed": seed,
        "mse": mse,
        "mae": mae,
        "controls": dict.fromkeys(("direction_mean", "overall_mean", "persistence"), control),
        "parameters": 1_000 + setting.heads,
        "seconds": 2.0 + seed,
    }


# Tables and claims


def test_rows_are_means_over_seeds_and_the_default_is_in_two_sections():
    rows = rows_of(
        [result(seed=0, interpolation=1e-4), result(seed=1, interpolation=3e-4), result(SpiralSetting(heads=1))]
    )
    assert [(row.section, row.heads, row.seeds) for row in rows] == [
        ("heads", 1, 1),
        ("heads", 4, 2),
        ("sparsity", 4, 2),
    ]
    one, two, _ = rows
    assert two.mse_interpolation == pytest.approx(2e-4)
    assert two.mse_interpolation_std == pytest.approx(math.sqrt(2) * 1e-4)
    assert two.mae_interpolation == pytest.approx((0.01 + math.sqrt(3) * 0.01) / 2)
    assert two.mse_extrapolation == pytest.approx(2e-4)
    assert two.seconds == 2.5
    assert (one.mse_interpolation_std, one.parameters) == (None, 1_001)
    assert (two.direction_mean_mse_interpolation, two.persistence_mse_extrapolation) == (1e-3, 2e-3)


def test_rows_of_other_budgets_are_kept_apart():
    rows = rows_of([result(SpiralSetting(heads=1), steps=3), result(SpiralSetting(heads=1), steps=9)])
    assert [(row.steps, row.seeds) for row in rows] == [(3, 1), (9, 1)]


def test_tables_show_errors_in_their_units_with_controls_and_claims():
    results = [result(SpiralSetting(heads=32), seed, 1.5e-4, 2.5e-3) for seed in (0, 1)]
    results += [result(SpiralSetting(top_k=k, length=50_000), 0, 1e-4 * (5 + k), 8e-4) for k in (2, 16)]
    console = Console(width=100, record=True)
    print_rows(rows_of(results), console)
    text = " ".join(console.export_text().split())
    assert "32 1.50 ± 0.00 25.00 ± 0.00 1.22 5.00 2 1,032 2" in text
    assert "50,000 2 7.00 8.00" in text
    assert "mean training spiral of its direction 10.00 and 20.00" in text
    assert "3 training steps" in text
    assert "MSE of interpolation: lowest with K=2 at 50,000; mean rank over lengths K=2 1.00, K=16 2.00" in text
    assert text.count("MSE of extrapolation:") == 1  # nothing is said of 4 heads, which were not run


def test_claims_against_numbers_worked_out_by_hand():
    heads = {1: 4e-4, 2: 5e-4, 4: 3e-4, 8: 2e-4}
    sparsity = {0.1: 1e-4, 0.9: 6e-4}  # and 0.5 with 4 heads' 3e-4
    keys = {(100, 2): 3e-4, (100, 8): 1e-4, (100, 32): 2e-4, (500, 2): 1e-4, (500, 8): 2e-4, (500, 32): 3e-4}
    results = [result(SpiralSetting(heads=n), 0, e) for n, e in heads.items()]
    results += [result(SpiralSetting(sparsity=s), 0, e) for s, e in sparsity.items()]
    results += [result(SpiralSetting(top_k=k, length=n), 0, e) for (n, k), e in keys.items()]
    claims = claims_of(rows_of(results), "interpolation")
    assert claims.four_heads == pytest.approx({1: -0.25, 2: -0.4})
    assert claims.best_heads == 8
    assert claims.best_sparsity == 0.1
    assert claims.half_by_best == pytest.approx(3.0)
    assert claims.best_keys == {100: 8, 500: 2}
    assert claims.key_ranks == {2: 2.0, 8: 1.5, 32: 2.5}
    assert sentences(claims) == {
        "heads": "4 heads -25% against 1, -40% against 2 (paper: about -37%), lowest with 8",
        "sparsity": "lowest at 0.1 (paper: 0.5), at 0.5 3.00 times the lowest",
        "keys": "lowest with K=8 at 100, K=2 at 500; mean rank over lengths K=2 2.00, K=8 1.50, K=32 2.50 "
        "(paper: 8 < K < 16)",
    }
    other = claims_of(rows_of(results), "extrapolation")  # all 2e-4
    assert (other.four_heads, other.half_by_best) == ({1: 0.0, 2: 0.0}, 1.0)


def test_claims_leave_out_what_has_not_been_run():
    nothing = claims_of([], "interpolation")
    assert (nothing.four_heads, nothing.best_heads, nothing.half_by_best, nothing.key_ranks) == (
        {},
        None,
        None,
        {},
    )
    assert sentences(nothing) == {}
    run = ({"heads": 1}, {"sparsity": 0.9}, {"top_k": 2, "length": 100}, {"top_k": 8, "length": 500})
    some = [result(SpiralSetting(**options)) for options in run]
    some += [result(SpiralSetting(top_k=2, length=500), 0, 3e-4)]
    claims = claims_of(rows_of(some), "interpolation")
    assert (claims.four_heads, claims.best_heads, claims.half_by_best) == ({}, 1, None)
    assert claims.best_keys == {100: 2, 500: 8}
    assert claims.key_ranks == {2: 2.0, 8: 1.0}  # of length 500 alone


def test_a_run_that_diverged_is_never_the_best():
    lost = ({"heads": 1}, {"sparsity": 0.1}, {"top_k": 2, "length": 100})
    fine = ({"heads": 2}, {}, {"top_k": 8, "length": 100})
    some = [result(SpiralSetting(**options), 0, math.nan) for options in lost]
    some += [result(SpiralSetting(**options)) for options in fine]
    claims = claims_of(rows_of(some), "interpolation")
    assert (claims.best_heads, claims.best_sparsity, claims.half_by_best) == (2, 0.5, 1.0)
    assert claims.best_keys == {100: 8}
    assert claims.key_ranks == {2: 2.0, 8: 1.0}


def test_a_damaged_file_is_named(tmp_path):
    path = SpiralRun(SMALL, 2, 0).path(tmp_path)
    path.parent.mkdir(parents=True)
    for text in ("", "{}", "[]", '{"mse": {}, "controls": {}}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"heads2-.*-seed0.json is damaged"):
            read_results(tmp_path)
    whole = result()
    path.write_text(json.dumps(whole))
    assert read_results(tmp_path) == [whole]
    for name in whole:  # nothing of it may be missing
        path.write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        with pytest.raises(ValueError, match=r"seed0.json is damaged"):
            read_results(tmp_path)


# The figure


def test_the_figure_shows_means_of_each_value(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "png", lambda figure: drawn.append(figure) or b"")
    results = [result(SpiralSetting(heads=n), seed, n * 1e-4 * (1 + seed)) for n in (1, 2, 8) for seed in (0, 1)]
    results += [result(SpiralSetting(top_k=k, length=n), 0, 1e-4 * k) for k in (2, 8) for n in (100, 500)]
    plot_spiral(results)
    heads, sparsity, keys, *spirals = drawn[0].axes
    line = heads.lines[0]
    legend = drawn[0].legends[0]
    assert legend.get_texts()[0].get_text() == "interpolation"
    assert line.get_color() == legend.get_lines()[0].get_color()
    assert line.get_xdata().tolist() == [1, 2, 8]
    assert line.get_ydata() == pytest.approx([1.5e-4, 3e-4, 12e-4])
    assert [text.get_text() for text in sparsity.texts] == ["not run"]
    assert [text.get_text() for text in spirals[0].texts] == ["not run"]
    assert [line.get_ydata()[0] for line in keys.lines] == pytest.approx([2e-4, 2e-4, 8e-4, 2e-4, 1e-3])


def test_no_text_of_the_full_figure_overlaps_another(monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "png", lambda figure: drawn.append(figure) or b"")
    grid = GRIDS[StudyProfile.PAPER]
    settings = dict.fromkeys(s for section in Section for s in grid.settings(section))
    results = [
        result(s, seed, 1e-4 * (1 + i % 7), 3e-4 * (1 + i % 3)) for i, s in enumerate(settings) for seed in (0, 1)
    ]
    for one in results:
        if SpiralSetting(one["heads"], one["sparsity"], one["top_k"], one["length"]) == DEFAULT:
            curve = [[i / 150, 0.5] for i in range(150)]
            one["trajectories"] = [{"clockwise": True, "seen": curve[:50], "truth": curve, "guess": curve}] * 4
    plot_spiral(results)
    (figure,) = drawn
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = []
    for ax in figure.axes:
        shown = [ax.title, ax._left_title]
        if ax.axison:
            shown += [ax.xaxis.label, ax.yaxis.label]
            for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
                shown += [
                    tick.label1 for tick in axis.get_major_ticks() if limits[0] <= tick.get_loc() <= limits[1]
                ]
        boxes += [(t.get_text(), t.get_window_extent()) for t in shown if t.get_text() and t.get_visible()]
    for legend in figure.legends:
        boxes += [(t.get_text(), t.get_window_extent()) for t in legend.get_texts()]
    inside = figure.bbox
    for i, (name, box) in enumerate(boxes):
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, name
        for other, there in boxes[i + 1 :]:
            assert not box.overlaps(there), (name, other)
