"""Tables on the console, in Markdown and in CSV."""

import csv
import io
import math
import re

import pytest
from rich.console import Console

from nacre.train.report import paper_tables, tables, words
from nacre.train.report.paper import COLUMNS, paper_models
from nacre.train.report.results import find_results
from support.pages import RESULTS
from support.runs import write_folds, write_run

NEW = {"version": 99}  # of a model: older ones than today's are no part of the paper's table
ACCURACY = {"metric": "accuracy", "better": "higher", "kind": "classification", "task": "event-mnist"}


def shown(monkeypatch, capsys, print_it, width, **options):
    monkeypatch.setenv("COLUMNS", str(width))
    print_it(**options)
    text = capsys.readouterr().out
    assert "…" not in text
    return text


def line_of(text, model):
    """The first line that begins with a model, with single spaces."""
    lines = (" ".join(line.replace("|", " ").split()) for line in text.splitlines())
    return next(line for line in lines if line.split(" ")[0] == model)


@pytest.fixture
def grid(tmp_path):
    write_folds(tmp_path, "nac", [0.030, 0.031, 0.032, 0.030, 0.031])
    write_folds(tmp_path, "sdpa", [0.0402, 0.0407, 0.0417, 0.0401, 0.0412], parameters=1_234_567, seconds=120.0)
    write_folds(tmp_path, "cta", [0.029, 0.0315, 0.031, None, None])
    write_folds(tmp_path, "s4", [float("nan"), 0.01, 0.01, 0.01, 0.01])
    write_folds(tmp_path, "linear-attention", [None, None, float("nan")])
    write_folds(tmp_path, "persistence", [0.05] * 5, control=True, parameters=0, seconds=0.1)
    return tmp_path


# --- one task -----------------------------------------------------------------------------------------------


def test_a_wide_console_shows_everything(grid, monkeypatch, capsys):
    text = shown(monkeypatch, capsys, tables.print_table, 130, directory=grid)
    assert "ettm1: mse, lower is better; quick: 300 steps of 64; recipe ccccccc; official data ddddddd" in text
    assert "model mse folds rank vs nac parameters seconds reported" in " ".join(text.split())
    assert line_of(text, "nac") == "nac 0.0308 ± 0.0008 5/5 1 33,000 61.2 0.0258 ± 0.0012"
    assert line_of(text, "sdpa").startswith(
        "sdpa 0.0408 ± 0.0007 5/5 2 +0.0100 worse, p<0.001 1,234,567 120 0.0353"
    )
    assert line_of(text, "cta").startswith("cta 0.0305 ± 0.0013 3/5 – -0.0005 unclear, p=0.")  # noqa: RUF001
    assert line_of(text, "s4").startswith("s4 diverged (1 of 5) 5/5 – – 33,000")  # noqa: RUF001
    assert line_of(text, "linear-attention").startswith("linear-attention diverged 1/5 –")  # noqa: RUF001
    assert text.index("controls") < text.index("persistence")
    assert text.index("linear-attention") < text.index("controls")
    assert "0.0500 ± 0.0000" in line_of(text, "persistence")
    assert "seconds: mean of a run" in " ".join(text.split())


def test_a_console_of_80_columns_shows_whole_cells(grid, monkeypatch, capsys):
    text = shown(monkeypatch, capsys, tables.print_table, 80, directory=grid)
    assert "model mse folds rank vs nac size reported" in " ".join(text.split())
    assert line_of(text, "nac") == "nac 0.0308±0.0008 5/5 1 33,000 0.0258"
    assert line_of(text, "sdpa") == "sdpa 0.0408±0.0007 5/5 2 +0.0100 worse 1,234,567 0.0353"
    assert "p<0.001" in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "seconds" not in text  # there is no such column
    assert "size: parameters" in text


def test_the_best_value_is_bold_on_the_console(grid):
    block = tables.blocks_of(tables.find_results(grid).results)[0]
    console = Console(width=130, force_terminal=True, color_system="standard", file=io.StringIO())
    console.print(tables._rich(block, wide=True))
    text = console.file.getvalue()
    bold = re.findall(r"\x1b\[1m([^\x1b]*)\x1b", text)
    assert [words.strip() for words in bold if "±" in words] == ["0.0308 ± 0.0008"]


def test_markdown_says_the_same(grid):
    text = tables.markdown_table(grid)
    lines = text.splitlines()
    assert lines[0].startswith("**ettm1: mse, lower is better; quick: 300 steps of 64;")
    assert lines[2] == "| model | mse | folds | rank | vs nac | parameters | seconds | reported |"
    assert lines[4] == "| nac | **0.0308 ± 0.0008** | 5/5 | 1 |  | 33,000 | 61.2 | 0.0258 ± 0.0012 |"
    assert text.count("**0.") == 1
    assert "| persistence (control) | 0.0500 ± 0.0000 | 5/5 | – |" in text  # noqa: RUF001
    assert {line.count("|") for line in lines if line.startswith("|")} == {9}


def test_csv_holds_raw_numbers(grid):
    found = {row["model"]: row for row in csv.DictReader(io.StringIO(tables.csv_table(grid)))}
    nac, sdpa, s4 = found["nac"], found["sdpa"], found["s4"]
    assert float(nac["mean"]) == pytest.approx(0.0308, abs=1e-15)
    assert float(nac["std"]) == pytest.approx(math.sqrt(0.7) * 1e-3)
    assert (nac["folds"], nac["of"], nac["rank"], nac["p"], nac["reported mean"]) == (
        "5",
        "5",
        "1.0",
        "",
        "0.0258",
    )
    assert float(sdpa["difference to nac"]) == pytest.approx(0.00998)
    assert 0 < float(sdpa["p"]) < 0.001
    assert (sdpa["parameters"], sdpa["pairs"], sdpa["steps"], sdpa["form"]) == ("1234567", "5", "300", "official")
    assert (s4["mean"], s4["diverged"], s4["rank"]) == ("", "1", "")
    assert (found["persistence"]["control"], found["persistence"]["reported mean"]) == ("True", "")


def test_budgets_get_tables_of_their_own(tmp_path, monkeypatch, capsys):
    write_folds(tmp_path, "nac", [0.3])
    write_folds(tmp_path, "sdpa", [0.4], profile="full", steps=10_000)
    text = shown(monkeypatch, capsys, tables.print_table, 120, directory=tmp_path)
    assert text.count("lower is better") == 2
    assert "quick: 300 steps" in text
    assert "full: 10,000 steps" in text
    assert tables.markdown_table(tmp_path).count("| model |") == 2


def test_only_one_task_is_shown_if_asked(tmp_path, monkeypatch, capsys):
    write_run(tmp_path)
    write_run(tmp_path, task="jena")
    text = shown(monkeypatch, capsys, tables.print_table, 120, directory=tmp_path, task="jena")
    assert "jena: mse" in text
    assert "ettm1" not in text + tables.markdown_table(tmp_path, task="jena") + tables.csv_table(
        tmp_path, task="jena"
    )


def test_damaged_and_repeated_runs_are_named_beneath(tmp_path, monkeypatch, capsys):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b")
    path = write_run(tmp_path, "sdpa") / "result.json"
    path.write_text("{")
    text = shown(monkeypatch, capsys, tables.print_table, 120, directory=tmp_path)
    for told in (text, tables.markdown_table(tmp_path)):
        assert f"left out: {path} is damaged: " in told
        assert "b/ettm1/nac/fold0-seed0 is left out: there is another run of nac, fold 0, seed 0" in told


def test_one_fold_has_no_spread_and_no_test(tmp_path):
    write_folds(tmp_path, "nac", [0.03])
    write_folds(tmp_path, "sdpa", [0.04])
    text = tables.markdown_table(tmp_path)
    assert "| sdpa | 0.0400 | 1/5 | 2 | +0.0100, no test |" in text


def test_ties_share_a_rank_and_are_both_bold(tmp_path):
    for model, value in (("nac", 0.03), ("sdpa", 0.03), ("cta", 0.04)):
        write_folds(tmp_path, model, [value] * 3)
    text = tables.markdown_table(tmp_path)
    assert "| nac | **0.0300 ± 0.0000** | 3/5 | 1.5 |  |" in text
    assert "| sdpa | **0.0300 ± 0.0000** | 3/5 | 1.5 | +0.0000 unclear, p=1 |" in text
    assert "| cta | 0.0400 ± 0.0000 | 3/5 | 3 | +0.0100, no test |" in text


def test_a_diverged_model_alone_is_neither_ranked_nor_bold(tmp_path):
    write_folds(tmp_path, "nac", [float("nan")] * 5)
    assert "| nac | diverged | 5/5 | – |" in tables.markdown_table(tmp_path)  # noqa: RUF001


def test_better_and_worse_follow_the_direction(tmp_path):
    write_folds(tmp_path, "nac", [90.0, 90.2, 90.1, 90.0, 90.1], **ACCURACY)
    write_folds(tmp_path, "sdpa", [95.0, 95.1, 95.2, 95.1, 95.0], **ACCURACY)
    write_folds(tmp_path, "cta", [85.0, 85.1, 85.2, 85.1, 85.0], **ACCURACY)
    text = tables.markdown_table(tmp_path)
    assert "| sdpa | **95.08 ± 0.08** | 5/5 | 1 | +5.00 better, p<0.001 |" in text
    assert "| cta | 85.08 ± 0.08 | 5/5 | 3 | -5.00 worse, p<0.001 |" in text


def test_seeds_are_counted_beside_folds(tmp_path):
    for fold in range(2):
        for seed in range(3):
            write_run(tmp_path, "nac", fold, seed, 0.1)
    assert "| 2/5 × 3 |" in tables.markdown_table(tmp_path)  # noqa: RUF001


def test_a_metric_in_the_papers_unit_stands_beside_what_it_reports(tmp_path, monkeypatch, capsys):
    for fold, value in enumerate((0.030, 0.032)):
        write_run(tmp_path, "nac", fold, value=value, metrics={"mse": value, "minmax mse": value / 10})
    write_run(tmp_path, "sdpa", value=0.04)  # finished before that unit was recorded
    text = tables.markdown_table(tmp_path)
    assert "| seconds | minmax mse | reported |" in text
    assert "| 61.2 | 0.00310 ± 0.00014 | 0.0258 ± 0.0012 |" in text
    assert "| 61.2 |  | 0.0353 ± 0.0008 |" in text
    narrow = shown(monkeypatch, capsys, tables.print_table, 80, directory=tmp_path)
    assert line_of(narrow, "nac").endswith("33,000 0.00310 0.0258")
    assert max(len(line.rstrip()) for line in narrow.splitlines()) <= 80
    nac = next(csv.DictReader(io.StringIO(tables.csv_table(tmp_path))))
    assert (nac["paper's metric"], float(nac["mean of it"])) == ("minmax mse", pytest.approx(0.0031))


def test_a_recipe_of_its_own_name_is_compared_with_the_column_it_names(tmp_path):
    write_run(tmp_path, task="carracing-4", column="carracing", value=57.2, metric="accuracy", better="higher")
    write_run(tmp_path, task="mine", column="", value=57.2, metric="accuracy", better="higher")
    assert tables.markdown_table(tmp_path).count("80.59 ± 1.82") == 1


def test_numbers_are_never_rounded_to_nothing():
    wanted = {
        (0.00001234, 4): "1.2e-05",
        (0.00004, 4): "4.0e-05",
        (0.00006, 4): "0.0001",
        (-0.00001, 4): "-1.0e-05",
        (1234.5, 1): "1,234.5",
        (3e9, 2): "3.0e+09",
    }
    assert {given: words.number(*given) for given in wanted} == wanted


def test_small_errors_get_more_digits():
    assert words.places_for("mse", [0.5, 0.00123]) == 5
    assert words.places_for("mse", [1e-12, math.nan]) == 6
    assert words.places_for("score", [37.7]) == 2
    assert words.places_for("mse", [0.0, math.nan]) == 4


# --- the paper's table --------------------------------------------------------------------------------------


def write_forecasts(root, model, values, **changes):
    """Runs of ETTm1 with its error in the paper's unit."""
    for fold, value in enumerate(values):
        write_run(root, model, fold, metrics={"mse": 1.0, "minmax mse": value}, value=1.0, **NEW, **changes)


@pytest.fixture
def nine(tmp_path):
    write_forecasts(tmp_path, "nac", [0.03, 0.04])
    write_forecasts(tmp_path, "sdpa", [0.05])
    write_folds(tmp_path, "nac", [95.0] * 5, **ACCURACY, **NEW)
    write_folds(tmp_path, "cta", [float("nan")] * 5, **ACCURACY, **NEW)
    for model in ("nac", "s4"):
        write_forecasts(tmp_path / "short", model, [0.01], steps=200)
    write_forecasts(tmp_path, "persistence", [0.06] * 5, control=True)
    scores = {"score PRONOSTIA": 40.0, "score XJTU-SY": 30.0, "score HUST": 35.5}
    write_run(tmp_path, "nac", task="bearings", value=40.0, metric="score PRONOSTIA", metrics=scores, **NEW)
    write_run(tmp_path, "our-own", task="jena", value=0.02, metrics={"minmax mse": 0.02})
    write_folds(tmp_path, "nac", [0.3], task="spiral", column="", **NEW)
    return tmp_path


def test_every_model_has_a_row_in_the_order_of_the_paper(nine):
    rows = [line.split(" | ") for line in paper_tables.markdown_paper_table(nine).splitlines() if line[:1] == "|"]
    names = [row[0].removeprefix("| ") for row in rows[2:]]
    assert names == [*paper_models(), "nac-plus", "our-own", "persistence (control)"]
    assert {len(row) for row in rows} == {10}
    cells = {name: row[1:] for name, row in zip(names, rows[2:], strict=True)}
    assert cells["nac"][0] == "**95.00 ± 0.00** (96.35)"
    assert cells["nac"][2] == "**0.0350 ± 0.0071 [2/5]** (0.0258)"
    assert cells["nac"][6:] == ["**40.00 [1/5]** (37.75)", "**30.00 [1/5]** (22.87)", "**35.50 [1/5]** (27.82) |"]
    assert cells["sdpa"][1:3] == ["– (88.36)", "0.0500 [1/5] (0.0353)"]  # noqa: RUF001
    assert cells["cta"][0] == "diverged (95.86)"
    assert cells["our-own"][2:4] == ["–", "**0.0200 [1/5]**"]  # noqa: RUF001
    assert cells["persistence (control)"][2] == "0.0600 ± 0.0000"


def test_the_largest_budget_fills_a_column_and_others_fill_its_gaps_with_a_mark(nine):
    text = paper_tables.markdown_paper_table(nine)
    assert "- ettm1: minmax mse, lower is better; quick: 300 steps" in text
    assert "- bearings: score PRONOSTIA, score XJTU-SY, score HUST, lower is better; quick: 300 steps" in text
    assert "- † ettm1: minmax mse, lower is better; quick: 200 steps" in text
    assert line_of(text, "s4").split("(")[2].endswith("0.0100 [1/5]† ")  # the smallest error, and not bold
    assert "**0.0350 ± 0.0071 [2/5]** (0.0258)" in text
    assert "spiral" not in text


def test_older_versions_of_a_model_fill_gaps_with_another_mark(nine):
    for model in ("nac", "nac-2k"):
        write_folds(nine / "old", model, [99.0], version=1, steps=9000, **ACCURACY)
    text = paper_tables.markdown_paper_table(nine)
    assert "**95.00 ± 0.00** (96.35)" in line_of(text, "nac")
    assert "99.00 [1/5]‡ (95.73)" in line_of(text, "nac-2k")
    assert re.search(r"^- ‡ event-mnist: accuracy.* 9,000 steps .*; older versions of nac-2k$", text, re.MULTILINE)


def test_nothing_that_was_measured_prints_a_dash():
    results = find_results(RESULTS).results
    rows = csv.DictReader(io.StringIO(paper_tables.csv_paper_table(RESULTS)))
    filled = {(row["model"], row["column"]) for row in rows if row["mean"]}
    measured = {
        (r.model, column.name)
        for r in results
        for column in COLUMNS
        if r.column == column.task and (r.metric == column.metric or column.metric in r.metrics)
    }
    assert len(measured) > 60
    assert filled == measured


def test_recipes_that_name_a_column_feed_it_after_the_task_itself(tmp_path):
    accuracy = {"metric": "accuracy", "better": "higher", "kind": "classification", "column": "carracing", **NEW}
    write_folds(tmp_path, "nac", [60.0], task="carracing", **accuracy)
    for model in ("nac", "sdpa"):
        write_folds(tmp_path, model, [70.0], task="carracing-4", steps=900, **accuracy)
    text = paper_tables.markdown_paper_table(tmp_path)
    assert "**60.00 [1/5]** (80.59)" in text
    assert "70.00 [1/5]† (79.99)" in text


def test_the_papers_table_in_csv(nine):
    rows = list(csv.DictReader(io.StringIO(paper_tables.csv_paper_table(nine))))
    assert len(rows) == (33 + 2) * len(COLUMNS)
    found = {(row["model"], row["column"]): row for row in rows}
    nac = found["nac", "ettm1"]
    assert (float(nac["mean"]), nac["folds"], nac["profile"]) == (pytest.approx(0.035), "2", "quick")
    assert float(nac["reported mean"]) == 0.0258
    assert float(found["nac", "HUST"]["mean"]) == 35.5
    assert (found["cta", "event-mnist"]["mean"], found["cta", "event-mnist"]["diverged"]) == ("", "5")
    assert (found["s4", "ettm1"]["mean"], found["s4", "ettm1"]["steps"]) == ("0.01", "200")
    assert (found["s4", "udacity"]["mean"], found["s4", "udacity"]["reported mean"]) == ("", "0.0183")


def test_the_papers_table_is_cut_to_the_console(nine, monkeypatch, capsys):
    for width in (80, 120, 250):
        text = shown(monkeypatch, capsys, paper_tables.print_paper_table, width, directory=nine)
        body = text[: text.index("Each cell")]
        assert max(len(line.rstrip()) for line in body.splitlines()) <= width
        assert (body.count("nac-phi-linear") == 1) == (width == 250), width
        for column in COLUMNS:
            heading = f"{column.name} {'↑' if column.better == 'higher' else '↓'}"
            assert body.count(heading) == 1, (width, heading)
        assert "0.0350 ± 0.0071 [2/5] (0.0258)" in body, width
        assert "controls" in body, width
