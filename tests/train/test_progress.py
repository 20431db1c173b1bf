"""What a user sees while a grid runs: lines in a file, labels on a bar, how long the rest takes, what differs."""

import io
import re
from dataclasses import replace

from rich.console import Console

from nacre._util.progress import bars
from nacre.train import bar as bar_module
from nacre.train.bar import Bar
from nacre.train.estimate import Estimate
from nacre.train.grid import run_grid
from nacre.train.run_cell import run_cell
from support.refused import refused
from support.train import MODEL, cell, nacre, spirals, tiny, waves


def test_a_file_gets_lines_and_a_terminal_a_bar(tmp_path, monkeypatch):
    monkeypatch.setattr(bar_module, "PAUSE", 0.0)
    for terminal in (False, True):
        said, console = [], Console(file=io.StringIO(), force_terminal=terminal, width=200)
        with bars(console) as progress:
            task = progress.add_task("tiny", total=None, loss="", unit="steps")
            run_cell(cell(waves(), tmp_path / str(terminal)), (Bar(progress, task, said.append),))
            progress.refresh()
            shown = console.file.getvalue()
        lines = [line for line in said if re.fullmatch(r"tiny: step \d+ of 12, validation loss [\d.e+-]+", line)]
        assert len(lines) == len(said) == (0 if terminal else 6)
        if terminal:
            assert re.search(r"12/12 steps validation loss [\d.e+-]+ .*left", shown)


def test_lines_come_at_most_every_few_seconds(tmp_path, capsys):
    run_grid(tiny(tmp_path))
    out = capsys.readouterr().out
    assert "validation loss" not in out
    assert f"2 cells, of which 0 have results\ntiny, {MODEL}, fold 1 of 3: mse" in out
    assert re.search(r"fold 1 of 3: mse [\d.e+-]+, \d+ s; 1 to go, about \d+ s\n", out)
    assert re.search(r"fold 2 of 3: mse [\d.e+-]+, \d+ s\n", out)


def test_an_estimate_is_the_mean_of_what_is_most_alike(tmp_path):
    task, other = spirals(), waves()
    one, two = cell(task, tmp_path, "nac"), cell(task, tmp_path, "gru-ode")
    elsewhere, control = cell(other, tmp_path, "nac"), cell(task, tmp_path, "time-only")
    estimate = Estimate()
    assert estimate.left([one]) is None
    estimate.took(control, 500.0)
    assert estimate.left([one]) is None
    estimate.took(one, 10.0)
    assert estimate.left([replace(one, fold=1), two, elsewhere, control]) == 30.0
    estimate.took(two, 40.0)
    estimate.took(elsewhere, 100.0)
    assert estimate.left([replace(one, fold=1)]) == 10.0
    assert estimate.left([cell(task, tmp_path, "sdpa")]) == 25.0
    assert estimate.left([replace(elsewhere, model="sdpa")]) == 100.0


def test_a_changed_recipe_says_what_differs(tmp_path):
    grid = tiny(tmp_path)
    run_grid(replace(grid, folds=1))
    recipe = tmp_path / "tiny.toml"
    before = recipe.read_text()
    for old, new, message in (
        ("batch_size = 4", "batch_size = 3", "settings: training.batch_size 4 there, 3 here; give another --out"),
        ("n = 12", "n = 15", "settings: the data; data.n 12 there, 15 here;"),
        ("n = 12", "n = 12, spread = 0.02", "settings: data.spread not given there, 0.02 here;"),
        ("folds = 3", "folds = 4", "settings: the folds; split.folds 3 there, 4 here;"),
    ):
        assert old in before
        recipe.write_text(before.replace(old, new))
        with refused(message, case=new):
            run_grid(replace(grid, folds=1))
    recipe.write_text(before + "\n[models.cfc-fc]\nbackbone_layers = 2\n")
    with refused("models.cfc-fc.backbone_layers not given there, 2 here"):
        run_grid(replace(grid, folds=1))


def test_predictions_go_where_they_are_wanted(tmp_path, monkeypatch, capsys):
    rows = [f"{who},{t},{who}{t},{'ab'[who % 2]}" for who in range(6) for t in range(4)]
    (tmp_path / "my.csv").write_text("who,when,x,y\n" + "\n".join(rows))
    (tmp_path / "my.toml").write_text(
        'data = { csv = "my.csv", time = "when", target = "y", group = "who" }\n'
        "network = { d_model = 8 }\ntraining = { quick_steps = 6 }\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["-m", MODEL, "--profile", "quick", "--folds", 1, "--no-controls"]
    assert nacre(monkeypatch, "train", "my.toml", *words) == 0
    run = f"runs/my/{MODEL}/fold0-seed0"
    assert nacre(monkeypatch, "predict", run, "my.csv", "--out", "new/folder/p.csv") == 0
    assert len((tmp_path / "new/folder/p.csv").read_text().splitlines()) == 7
    assert nacre(monkeypatch, "predict", run, "my.csv", "--out", "new") == 2
    assert "new is a folder; give a file, such as new/predictions.csv" in capsys.readouterr().err


def test_a_recipe_with_the_name_of_a_task(tmp_path, monkeypatch, capsys):
    for name in ("jena", "mine"):
        (tmp_path / f"{name}.toml").write_text('data = { name = "spiral", n = 12 }')
    monkeypatch.chdir(tmp_path)
    assert nacre(monkeypatch, "train", "jena.toml", "-m", "time-only", "--folds", 1) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "jena.toml has the name of a task that nacre comes with: its runs pass for runs of that" in out
    assert nacre(monkeypatch, "train", "mine.toml", "-m", "time-only", "--folds", 1) == 0
    assert "has the name of a task" not in capsys.readouterr().out
    assert nacre(monkeypatch, "train", "mine") == 2
    assert "unknown task 'mine'; did you mean the file mine.toml?" in capsys.readouterr().err
