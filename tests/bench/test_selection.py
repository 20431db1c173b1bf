"""The study of selection measures what it says; no test asserts a time."""

import csv
import itertools
import json

import pytest
import torch

from nacre.bench import selection, selection_keys
from nacre.bench.selection import SelectionRow
from nacre.bench.selection_keys import SelectionSettings
from nacre.layer.selection.choose import exact_topk

TINY = SelectionSettings(
    lengths=(40, 100), heads=2, width=4, top_k=3, queries=50, rounds=2, steps=2, train_length=30, batch=1
)
KINDS = ["random normal", "random walk", "trained layer"]


@pytest.fixture(scope="module")
def trained():
    return selection_keys.train_layer(TINY, lambda: None)


@pytest.mark.slow
def test_it_prints_a_table_and_writes_three_files(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    selection.run_selection(tmp_path / "sub", TINY)
    files = {f.suffix: f for f in (tmp_path / "sub").iterdir()}
    assert sorted(f.name for f in files.values()) == [f"bench-selection.{s}" for s in ("csv", "json", "png")]
    assert files[".png"].read_bytes().startswith(b"\x89PNG")
    record = json.loads(files[".json"].read_text())
    assert set(record) == {"provenance", "settings", "training", "results"}
    assert record["settings"]["lengths"] == [40, 100]
    assert {"commit", "versions", "command"} <= set(record["provenance"])
    rows = [SelectionRow(**row) for row in record["results"]]
    assert [(r.length, r.keys, r.causal, r.method) for r in rows] == [
        (n, kind, causal, m)
        for n in (40, 100)
        for kind in KINDS
        for causal in (False, True)
        for m in ("sqrt", "exact")
    ]
    assert all(0 < r.recall <= 1 and r.milliseconds > 0 for r in rows)
    assert all(r.recall == 1 and r.vectors == r.length for r in rows if r.method == "exact")
    table = list(csv.DictReader(files[".csv"].read_text().splitlines()))
    assert [row["recall"] for row in table] == [str(r.recall) for r in rows]
    shown = capsys.readouterr()
    assert "random walk, causal" in shown.out
    assert "…" not in shown.out  # 80 columns are enough
    assert f"{rows[0].recall:.3f}" in shown.out
    assert "selecting keys" in shown.err


def test_recall_counts_valid_columns_only():
    best = torch.tensor([[1, 4, 9], [2, 0, 0]]), torch.tensor([[True] * 3, [True, False, False]])
    found = torch.tensor([[4, 9, 0], [0, 0, 0]]), torch.tensor([[True, True, False], [True, False, False]])
    assert selection.recall(found, best) == 0.5
    assert selection.recall(best, best) == 1.0


def test_exact_rows_are_those_of_exact_selection(monkeypatch):
    monkeypatch.setattr(selection, "_CHUNK", 400)
    q, k = torch.randn(1, 2, 30, 4), torch.randn(1, 2, 30, 4)
    rows = torch.tensor([0, 1, 7, 29])
    for causal in (False, True):
        got = selection.exact_rows(q, k, rows, 5, causal=causal)
        want = exact_topk(q, k, 5, causal=causal)
        assert all(torch.equal(a, b[:, :, rows]) for a, b in zip(got, want, strict=True)), causal


def test_recall_is_measured_at_the_drawn_queries(monkeypatch):
    # A method that is right for even queries only must get the share of even ones among those drawn.
    q, k = torch.randn(1, 2, 64, 4), torch.randn(1, 2, 64, 4)

    def half(q, k, top_k, causal):
        index, valid = exact_topk(q, k, top_k, causal=causal)
        return index, valid & (torch.arange(64) % 2 == 0).unsqueeze(1)

    monkeypatch.setattr(selection, "sqrt_topk", half)
    settings = SelectionSettings(top_k=1, queries=10, rounds=1)
    drawn = torch.randperm(64, generator=torch.Generator().manual_seed(settings.seed))[:10]
    clock = itertools.count()
    monkeypatch.setattr(selection.time, "perf_counter", lambda: float(next(clock)))
    rows = selection.measure("x", q, k, settings, causal=False)
    assert [row.milliseconds for row in rows] == [1000.0, 6400.0]  # exact is scaled from 10 to 64 queries
    assert rows[0].recall == pytest.approx((drawn % 2 == 0).float().mean().item())


def test_keys_are_of_the_kind_that_is_named(trained):
    keys = selection_keys.make_keys(TINY, 80, trained)
    assert list(keys) == KINDS
    assert all(x.shape == (1, 2, 80, 4) for pair in keys.values() for x in pair)
    for normal, walk in zip(keys[KINDS[0]], keys[KINDS[1]], strict=True):
        torch.testing.assert_close(walk.diff(dim=2) * 80**0.5, normal[:, :, 1:])


def test_learned_keys_are_what_the_last_layer_selects_by(trained, monkeypatch):
    x, stamp, _ = selection_keys.forecast_data(1, 20, seed=9)
    attention = trained.net.layers[-1].attention
    with torch.no_grad():
        inputs = []
        hook = attention.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        trained.net(x, time=stamp)
        hook.remove()
        _, trace = attention(inputs[0], time=stamp, return_trace=True)
    q, k = selection_keys.learned_keys(trained.net, x, stamp)
    torch.testing.assert_close(q, trace.query)
    torch.testing.assert_close(k, trace.key)
    assert not trained.net.layers[-1].attention_norm._forward_hooks


@pytest.mark.slow
def test_training_learns_repeats_and_leaves_the_global_generator_alone():
    settings = SelectionSettings(heads=2, width=4, steps=30, train_length=60, batch=4)
    before = torch.get_rng_state()
    report = selection_keys.train_layer(settings, lambda: None).report
    assert torch.equal(before, torch.get_rng_state())
    assert report == selection_keys.train_layer(settings, lambda: None).report
    assert report["held_out_error"] < report["held_out_error_of_persistence"]


def test_forecast_data_is_irregular_and_fits_together():
    x, stamp, target = selection_keys.forecast_data(3, 50, seed=1)
    gaps = stamp.diff(dim=1)
    assert (gaps > 0).all()
    torch.testing.assert_close(x[:, :-1, 1], gaps.float())
    assert torch.equal(x[:, 1:, 0], target[:, :-1])
    assert 0.5 < gaps.mean() < 1.5 < gaps.max()
    assert not torch.equal(x, selection_keys.forecast_data(3, 50, seed=2)[0])


def test_vectors_are_counted():
    assert selection.vectors_scored(100, 3, causal=False)["sqrt"] == 10 + 10
    assert selection.vectors_scored(100, 12, causal=True)["sqrt"] == 10 + 3 * 10
    assert selection.vectors_scored(1024, 8, causal=False) == {"sqrt": 64, "exact": 1024}


def test_every_method_is_a_line_of_every_panel_and_rows_of_older_methods_are_left_out(monkeypatch):
    rows = [SelectionRow(KINDS[0], False, 256, "cluster", 0.9, 1, 1.0)] + [
        SelectionRow(kind, causal, n, m, 0.5 + 0.1 * causal, 1, 1.0)
        for kind in KINDS
        for causal in (False, True)
        for n in (256, 1024)
        for m in ("sqrt", "exact")
    ]
    panels = []
    draw = selection._plot_panel
    monkeypatch.setattr(selection, "_plot_panel", lambda ax, part: panels.append(ax) or draw(ax, part))
    selection.plot_recall(rows, 8)
    assert [ax.get_title(loc="left") for ax in panels] == [*KINDS, *(f"{kind}, causal" for kind in KINDS)]
    assert [list(ax.lines[0].get_ydata()) for ax in panels] == [[0.5, 0.5]] * 3 + [[0.6, 0.6]] * 3
    assert all(len({line.get_color() for line in ax.lines}) == len(ax.lines) == 2 for ax in panels)
