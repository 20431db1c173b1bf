"""The commands around training, as a user meets them: help, lists, tables, and what they say about mistakes."""

import re

import pytest
from typer.testing import CliRunner

from nacre.cli import app as commands
from nacre.tasks.controls import CONTROLS
from nacre.tasks.recipe import Precision, Profile, list_recipes
from nacre.train import grid as grid_module
from nacre.train.grid import Grid
from nacre.train.scale.options import Cluster, Executor, Processes, Scale
from support.train import MODEL, TINY_TOML, files_below, nacre


def plain(text):
    """Without colours and line ends."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "train",
            "TASKS --model -m --profile paper quick --folds --seed --out --data-dir --precision --no-controls "
            "Scale-out --executor serial ray --address --cpus --gpus --devices --nodes",
        ),
        ("table", "RUNS --task --paper --markdown --csv --plots"),
        ("predict", "RUN CSV --out predictions.csv"),
        ("tasks", "List the tasks"),
        ("data", "list get check"),
        ("data list", "--data-dir"),
        ("data get", "NAMES --data-dir"),
        ("data check", "NAMES --data-dir"),
    ],
)
def test_help_names_every_option(command, words):
    done = CliRunner().invoke(commands.app, [*command.split(), "--help"], env={"COLUMNS": "120"})
    assert done.exit_code == 0
    for word in words.split():
        assert word.lower() in plain(done.output).lower(), word


def test_train_passes_its_options_on(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(grid_module, "run_grid", seen.append)
    options = ["-m", "nac", "-m", "cfc-*", "--profile", "quick", "--folds", 2, "--seed", 1, "--seed", 4]
    options += ["--out", tmp_path, "--data-dir", tmp_path / "data", "--precision", "64-true", "--no-controls"]
    assert nacre(monkeypatch, "train", "spiral", "jena", *options) == 0
    assert nacre(monkeypatch, "train", "spiral") == 0
    assert seen[0].models == ["nac", "cfc-*"]
    assert (list(seen[0].tasks), list(seen[0].seeds), seen[0].folds) == (["spiral", "jena"], [1, 4], 2)
    assert (seen[0].profile, seen[0].precision, seen[0].controls) == (Profile.QUICK, Precision.FLOAT64, False)
    assert (seen[0].out, seen[0].data_dir) == (tmp_path, tmp_path / "data")
    default = Grid(["spiral"])
    for name in ("profile", "folds", "out", "data_dir", "precision", "controls", "scale"):
        assert getattr(seen[1], name) == getattr(default, name)
    assert (list(seen[1].models), list(seen[1].seeds)) == (["nac"], [0])


def test_train_passes_options_of_scale_on(monkeypatch):
    seen, launched = [], []
    monkeypatch.setattr(grid_module, "run_grid", seen.append)
    monkeypatch.setattr("nacre.train.scale.torchrun.launch", lambda processes: launched.append(processes) or 7)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    options = ["--executor", "ray", "--address", "auto", "--cpus", 3, "--gpus", 0.25]
    assert nacre(monkeypatch, "train", "spiral", *options) == 0
    assert seen[0].scale == Scale(Executor.RAY, Cluster("auto", 3, 0.25))
    options = ["--devices", 2, "--nodes", 3]
    assert nacre(monkeypatch, "train", "spiral", *options) == 7  # what the processes end with
    assert launched == [Processes(2, 3)]
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "one of them")
    assert nacre(monkeypatch, "train", "spiral", *options) == 0
    assert seen[1].scale == Scale(processes=Processes(2, 3))
    assert (len(seen), len(launched)) == (2, 1)


@pytest.mark.parametrize(
    "options",
    [
        *(["--folds", "0"], ["--seed", "-1"], ["--profile", "fast"], ["--precision", "8"]),
        *(["--devices", "0"], ["--gpus", "2"], ["--cpus", "0"], ["--executor", "dask"]),
    ],
)
def test_options_that_make_no_sense_exit_with_2(monkeypatch, capsys, options):
    assert nacre(monkeypatch, "train", "spiral", *options) == 2
    assert options[0] in plain(capsys.readouterr().err)


def test_tasks_lists_every_task_and_control(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    assert nacre(monkeypatch, "tasks") == 0
    out = plain(capsys.readouterr().out)
    for name in (*list_recipes(), *CONTROLS):
        assert name in out


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two models and the controls on the first fold of a tiny task."""
    place = tmp_path_factory.mktemp("table")
    (place / "tiny.toml").write_text(TINY_TOML % 6)
    with pytest.MonkeyPatch.context() as patch:
        args = ("-m", MODEL, "-m", "sdpa", "--profile", "quick", "--folds", 1, "--out", place / "runs")
        assert nacre(patch, "train", place / "tiny.toml", *args) == 0
    return place / "runs"


@pytest.mark.slow
def test_table_shows_runs_and_writes_files_and_figures(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    files = ("--markdown", tmp_path / "t.md", "--csv", tmp_path / "t.csv", "--plots", tmp_path / "plots")
    before = files_below(runs)
    assert nacre(monkeypatch, "table", runs, *files) == 0
    out = capsys.readouterr().out
    for text in (out, (tmp_path / "t.md").read_text(), (tmp_path / "t.csv").read_text()):
        for name in ("tiny", MODEL, "sdpa", "linear", "time-only"):
            assert name in text
    written = {name for name in files_below(tmp_path) if name.startswith("plots/")}
    assert written
    assert all(f"wrote {tmp_path / name}\n" in out for name in {*written, "t.md", "t.csv"})
    assert files_below(runs) == before


@pytest.mark.slow
def test_figures_go_among_the_runs_unless_told_otherwise(runs, monkeypatch, capsys):
    assert nacre(monkeypatch, "table", runs, "--task", "tiny") == 0
    assert any((runs / "plots").iterdir())
    capsys.readouterr()
    assert nacre(monkeypatch, "table", runs) == 0  # figures are no runs
    assert MODEL in capsys.readouterr().out


@pytest.mark.slow
def test_the_papers_table_takes_no_task(runs, tmp_path, monkeypatch, capsys):
    args = ("--paper", "--task", "tiny", "--csv", tmp_path / "t.csv")
    assert nacre(monkeypatch, "table", runs, *args) == 2
    assert capsys.readouterr().err == "nacre: --paper has all tasks of the paper; leave --task out\n"
    assert files_below(tmp_path) == set()


def test_a_table_of_nothing_exits_with_2_and_a_hint(tmp_path, monkeypatch, capsys):
    for place in (tmp_path, tmp_path / "nowhere"):
        assert nacre(monkeypatch, "table", place, "--csv", tmp_path / "t.csv") == 2
        err = capsys.readouterr().err
        assert err.startswith("nacre: ")
        assert str(place) in err
        assert "nacre train" in err
    assert files_below(tmp_path) == set()


@pytest.mark.slow
def test_a_table_of_an_unknown_task_exits_with_2_and_the_nearest(runs, monkeypatch, capsys):
    assert nacre(monkeypatch, "table", runs, "--task", "tinny") == 2
    assert "tiny" in capsys.readouterr().err


GOOD = 'data = { csv = "my.csv", time = "when", target = "state", group = "who" }\n'
TABLE = "who,when,pulse,state\n" + "".join(
    f"p{i},{t},{i}{t},{'calm' if i % 2 else 'tense'}\n" for i in range(6) for t in range(4)
)
MISTAKES = {
    "recipe key": (
        GOOD + "traning = { lr = 0.1 }\n",
        TABLE,
        "my.toml: unknown key traning; did you mean 'training'?",
    ),
    "key of a section": (
        GOOD + "training = { lrr = 0.1 }",
        TABLE,
        "unknown key training.lrr; did you mean 'lr'?",
    ),
    "value of a section": (GOOD + "training = { lr = -1 }", TABLE, "training.lr must lie in (0.0, 10.0], got -1"),
    "type in a section": (
        GOOD + 'training = { batch_size = "8" }',
        TABLE,
        "training.batch_size must be an integer",
    ),
    "data key": (
        GOOD.replace("target", "targte"),
        TABLE,
        "unknown key data.targte for csv; did you mean 'target'?",
    ),
    "no target": (GOOD.replace('target = "state", ', ""), TABLE, "[data] of csv lacks target"),
    "not TOML": ("data = {", TABLE, "my.toml is not TOML"),
    "no file": (GOOD, None, "there is no file"),
    "column": (GOOD.replace("state", "stata"), TABLE, "has no column 'stata'; did you mean 'state'?"),
    "cell": (GOOD, TABLE.replace(",01,", ",high,"), "line 3: column 'pulse' holds 'high', not a finite number"),
    "type of data option": (
        GOOD.replace(" }", ', lookback = "7" }'),
        TABLE,
        "lookback must be an integer, got '7'",
    ),
    "model option": (GOOD + "[models.cfc-fc]\ntime_scael = 2.0\n", TABLE, "time_scael"),
    "type of model option": (GOOD + '[models.cfc-fc]\ntime_scale = "slow"\n', TABLE, "slow"),
    "heads": (GOOD + "network = { d_model = 7, num_heads = 3 }\n", TABLE, "num_heads"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_exits_with_2_and_says_what_to_do(tmp_path, monkeypatch, capsys, name):
    recipe, table, message = MISTAKES[name]
    (tmp_path / "my.toml").write_text(recipe)
    if table is not None:
        (tmp_path / "my.csv").write_text(table)
    monkeypatch.chdir(tmp_path)
    model = "nac" if name == "heads" else MODEL
    assert nacre(monkeypatch, "train", "my.toml", "-m", model, "--profile", "quick", "--no-controls") == 2
    err = capsys.readouterr().err
    assert err.startswith("nacre: ")
    assert message in err
    assert not list(tmp_path.rglob("result.json"))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["spirl"], "unknown task 'spirl'; did you mean 'spiral'?"),
        (["none.toml"], "no recipe none.toml; `nacre tasks` lists the tasks"),
        (["spiral", "-m", "nacc"], "no model 'nacc'; did you mean 'nac'?"),
        (["spiral", "--folds", "6"], "folds must be at most 5 for spiral, got 6"),
        (["ettm1", "--data-dir", "nowhere"], "data_dir is 'nowhere', which is no folder"),
    ],
)
def test_names_that_are_not_there_exit_with_2_before_anything_is_written(
    tmp_path, monkeypatch, capsys, args, message
):
    monkeypatch.chdir(tmp_path)
    assert nacre(monkeypatch, "train", *args) == 2
    assert message in plain(capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_a_good_recipe_of_the_same_shape_trains(tmp_path, monkeypatch, capsys):
    (tmp_path / "my.toml").write_text(GOOD + "network = { d_model = 8 }\ntraining = { quick_steps = 6 }\n")
    (tmp_path / "my.csv").write_text(TABLE)
    monkeypatch.chdir(tmp_path)
    assert nacre(monkeypatch, "train", "my.toml", "-m", MODEL, "--profile", "quick", "--folds", 1) == 0
    out = plain(capsys.readouterr().out)
    assert "my: classification, 6 sequences, features: 1, folds: 5; your own" in out
    assert out.count("The task is classification, because 'state' holds text") == 1
    assert "Features: pulse." in out
    assert "4 cells, of which 0 have results" in out
    assert re.search(rf"my, {MODEL}, fold 1 of 5: accuracy [\d.]+, \d+ s", out)
