"""What a run leaves: exponents, files, tables and figures."""

import csv
import io
import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from nacre._util import provenance
from nacre.bench import figures, fit, paper, tables
from nacre.bench.files import Record, read_record, to_csv, write_record
from nacre.bench.record import BenchEntry, BenchResult, Cost


def result(model, length=1024, seconds=0.0125, **entry):
    forward = Cost("ok", "", seconds, seconds / 7, 30, 1.5, 200_000_000, 3_000_001)
    step = Cost("ok", "", 3 * seconds, None, 1, 2.5, 300_000_000, 4_500_000)
    return BenchResult(BenchEntry(model, length, **entry), 12_345, forward, step)


def sweep(model, exponent, lengths=(256, 1024, 4096, 16384, 65536)):
    costs = [Cost("ok", seconds=1e-7 * n**exponent, rounds=3, added_bytes=100 * n) for n in lengths]
    return [BenchResult(BenchEntry(model, n), 5, cost, cost) for n, cost in zip(lengths, costs, strict=True)]


BAD = BenchResult(
    BenchEntry("nac-pw", 1024), 7, Cost("out of memory", "the system ended the process"), Cost("failed", "[oh]")
)
PARTIAL = BenchResult(BenchEntry("sdpa", 1024), 7, Cost("out of time", "", 2.0, None, 1, 9.0), Cost("not run"))


# --- exponents ----------------------------------------------------------------------------------------------


def test_the_exponent_of_made_up_costs():
    lengths, noise = [2**i for i in range(8, 18)], [1.02, 0.98] * 5
    for exponent in (1.0, 1.5, 2.0):
        found = fit.fit_exponent(lengths, [3e-8 * n**exponent * e for n, e in zip(lengths, noise, strict=True)])
        assert found.exponent == pytest.approx(exponent, abs=0.02)
        assert (found.shortest, found.longest, found.points) == (4096, 131072, 6)


def test_short_lengths_count_only_where_long_ones_are_few():
    kinked = [1.0, 1.0, 1.0, 4.0, 16.0]  # constant up to 4,096, then quadratic
    lengths = [1024, 2048, 4096, 8192, 16384]
    assert fit.fit_exponent(lengths, kinked).exponent == pytest.approx(2.0)
    few = fit.fit_exponent(lengths[:4], kinked[:4])
    assert (few.shortest, few.points) == (1024, 4)
    assert 0.0 < few.exponent < 1.0
    assert fit.fit_exponent(lengths, kinked, start=8192).shortest == 1024


def test_missing_costs_are_left_out():
    assert fit.fit_exponent([10, 20, 40, 80], [1.0, None, 4.0, 0]).exponent == pytest.approx(1.0)
    assert fit.fit_exponent([10, 20], [1.0, None]) is None
    assert fit.fit_exponent([], []) is None


def test_growth_fits_each_quantity_beside_the_paper():
    grown = fit.growth([*sweep("nac", 1.5), *sweep("torch-gru", 1.0)])
    assert [g.model for g in grown] == ["nac", "torch-gru"]
    assert grown[0].fits["forward", "seconds"].exponent == pytest.approx(1.5)
    assert grown[0].fits["step", "added_bytes"].exponent == pytest.approx(1.0)
    assert (grown[0].paper, grown[1].paper) == ("O(n sqrt(n) k)", None)


# --- files --------------------------------------------------------------------------------------------------


def test_json_round_trip(tmp_path):
    record = Record({"command": "nacre bench"}, {"batch": 1}, (result("nac"), BAD, PARTIAL))
    path, _ = write_record(tmp_path / "bench", record)
    assert read_record(path) == record
    row = json.loads(path.read_text())["results"][0]
    assert row["forward_throughput"] == pytest.approx(1024 / 0.0125)
    assert row["reported (paper, GPU)"] == {"seconds": 7.4101, "deviation": 0.1586, "megabytes": 151.5}


def test_a_sweep_holds_its_exponents(tmp_path):
    record = Record({}, {}, tuple(sweep("nac", 1.5)), sweep=True)
    path, _ = write_record(tmp_path / "bench-sweep", record)
    data = json.loads(path.read_text())
    assert data["growth"][0]["forward_seconds"] == {
        "exponent": 1.5,
        "shortest": 4096,
        "longest": 65536,
        "points": 3,
    }
    assert data["growth"][0]["complexity (paper)"] == "O(n sqrt(n) k)"
    assert read_record(path) == record


def test_csv_round_trip():
    rows = list(csv.DictReader(io.StringIO(to_csv((result("nac"), BAD)))))
    good, bad = rows
    assert (good["model"], int(good["length"]), int(good["parameters"])) == ("nac", 1024, 12345)
    assert float(good["forward_seconds"]) == 0.0125
    assert float(good["step_ratio"]) == 2.5
    assert int(good["forward_added_bytes"]) == 3_000_001
    assert math.isclose(float(good["step_throughput"]), 1024 / 0.0375)
    assert good["reported (paper, GPU)"] == "7.41 s, 151.5 MB"
    assert (bad["forward_state"], bad["step_note"], bad["forward_seconds"]) == ("out of memory", "[oh]", "")


def test_the_paper_is_quoted_at_its_own_size_only():
    assert paper.reported(BenchEntry("nac-2k", 1024)).megabytes == 44.75
    for other in (("nac", 512), ("nac", 1024, 2), ("nac", 1024, 1, 32), ("torch-mha", 1024)):
        assert paper.reported(BenchEntry(*other)) is None


def test_provenance_names_the_commit_of_this_package_only(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["anything", "bench", "--models", "nac-*"])
    known = provenance.provenance(3)
    assert known["command"] == "nacre bench --models 'nac-*'"
    assert known["machine"]["threads"] == 3
    for folder in (tmp_path / "plain", tmp_path / "other" / "site-packages"):
        folder.mkdir(parents=True)
        (folder / "_version.py").write_text("")
    if shutil.which("git"):
        git = ["git", "-C", str(tmp_path / "other"), "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "x"], check=True)
    for folder in (tmp_path / "plain", tmp_path / "other" / "site-packages"):
        monkeypatch.setattr(provenance, "_PACKAGE", folder)
        assert provenance.provenance(None)["commit"] is None


# --- tables -------------------------------------------------------------------------------------------------


def shown(print_it, results, width):
    screen = io.StringIO()
    print_it(results, Console(file=screen, width=width))
    text = screen.getvalue()
    assert all(len(line.rstrip()) <= width for line in text.splitlines() if " at " not in line)
    assert "…" not in text
    return text


def test_the_table_fits_and_says_what_is_missing():
    said = (
        *("length 1,024, 64 features, 4 heads, batch 1", "12.5", "1.50", "2,000*"),
        "nac-pw at 1,024, forward pass: out of memory: the system ended the process\n",
        "nac-pw at 1,024, training step: failed: [oh]\n",  # no markup
        "sdpa at 1,024, forward pass: out of time (timed 1 of 3 times)\n",
    )
    for width in (80, 120, 160):
        text = shown(tables.print_results, [result("torch-mha-fastpath"), result("nac"), BAD, PARTIAL], width)
        for words in said:
            assert words in text, (width, words)
        assert ("12,345" in text) == (width >= 120)
        assert ("7.41 s, 151.5 MB" in text) == ("81,920" in text) == (width >= 160)


def test_one_table_a_length():
    text = shown(tables.print_results, [result("nac"), result("nac", 2048)], 100)
    assert text.count("features, 4 heads") == 2
    assert "length 2,048" in text


def test_the_sweep_is_told_by_length_and_exponent():
    skipped = BenchResult(BenchEntry("torch-mha", 131072), None, Cost("skipped: out of time at 65536"), Cost())
    results = [*sweep("nac", 1.5), *sweep("torch-mha", 2.0), skipped, *sweep("torch-mha-fastpath", 1.0)]
    wanted = {
        "nac forward 1.50 1.00 4,096-65,536 O(n sqrt(n) k)",
        "torch-mha forward 2.00 1.00 4,096-65,536 O(n^2 k)",
        "training 2.00 1.00 4,096-65,536",
        "nac 4,096 26.2 0.4 26.2 0.4",
        "torch-mha 131,072 skipped not run",
    }
    for width in (80, 120):
        lines = {" ".join(line.split()) for line in shown(tables.print_sweep, results, width).splitlines()}
        assert wanted <= lines, wanted - lines


# --- figures ------------------------------------------------------------------------------------------------


def pixels(png):
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


def has_colour(image, colour):
    rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return (np.abs(image.astype(int) - rgb).max(-1) < 8).sum() > 100


def test_ratios_are_drawn_as_bars():
    image = pixels(figures.plot_ratios([result("nac"), result("torch-gru"), BAD]))
    assert image.shape[1] >= 800
    assert has_colour(image, "#0072b2")
    assert has_colour(image, "#e69f00")
    only_bad = pixels(figures.plot_ratios([BAD]))
    assert not has_colour(only_bad[:100], "#0072b2")


@pytest.mark.slow
def test_longer_bars_for_larger_ratios():
    def blue(ratio):
        forward = Cost("ok", seconds=1.0, rounds=3, ratio=ratio)
        fast = Cost("ok", seconds=1.0, rounds=3, ratio=100.0)
        costs = {"nac": (forward,), "b": (Cost("ok"), fast)}
        rows = [BenchResult(BenchEntry(name, 8), 1, *some) for name, some in costs.items()]
        image = pixels(figures.plot_ratios(rows)).astype(int)
        return (np.abs(image - [0, 0x72, 0xB2]).max(-1) < 8).sum()

    assert blue(50.0) > 1.5 * blue(5.0) > 1.5 * blue(1.01)


@pytest.mark.slow
def test_a_sweep_is_drawn_with_one_colour_a_model():
    models = ["nac", "torch-mha", "torch-gru"]
    results = [r for i, model in enumerate(models) for r in sweep(model, 1 + i / 2)]
    image = pixels(figures.plot_sweep([*results, BAD]))
    assert image.shape[1] >= 800
    left, right = np.array_split(image, 2, axis=1)
    for colour in figures._COLOURS[:3]:
        assert has_colour(left, colour)
    assert has_colour(right, figures._COLOURS[2])  # memory is equal here: the last line covers the others
