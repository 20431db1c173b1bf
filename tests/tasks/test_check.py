"""`nacre data check my.toml`: all problems at once, and what a good table was taken for."""

import pytest

from nacre.data.tables.check import csv_problems
from support.train import nacre

RECIPE = """
[data]
csv = "my.csv"
time = "when"
target = "state"
group = "who"
"""
TABLE = "who,when,pulse,tag,state\n" + "".join(
    f"p{i},{t},{i}{t},red,{'calm' if i % 2 else 'tense'}\n" for i in range(6) for t in range(4)
)


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    def run(recipe=RECIPE, table=TABLE):
        (tmp_path / "my.toml").write_text(recipe)
        (tmp_path / "my.csv").write_text(table)
        monkeypatch.chdir(tmp_path)
        code = nacre(monkeypatch, "data", "check", "my.toml")
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_good_recipe_is_described(check):
    code, out, err = check()
    assert (code, err) == (0, "")
    for line in (
        "The task is classification, because 'state' holds text that is constant within each of the 6 groups",
        "Features: pulse.",
        "Left out columns of text or without a name: 'tag'; to use text, name it in categories.",
        "6 sequences of 4 to 4 steps",
        "2 classes: calm, tense",
        "folds: 5; the first trains, validates and tests with",
    ):
        assert out.count(line) == 1, line


def test_all_problems_are_listed(check):
    recipe = RECIPE.replace('"who"', '"woh"') + 'features = ["pulse", "tga"]\n[training]\nlr = -1\nstps = 5\n'
    recipe += "[network]\nd_model = 7.5\n"
    table = TABLE.replace("p1,1,11,", "p1,soon,x,").replace("p1,2,12,", "p1,2,,").replace("red,calm", "red,", 1)
    code, _, err = check(recipe, table)
    assert code == 2
    assert err.startswith("nacre: 8 problems:\n")
    for line in (
        "my.toml: network.d_model must be an integer, got 7.5",
        "my.toml: training.lr must lie in (0.0, 10.0], got -1",
        "my.toml: unknown key training.stps; did you mean 'steps'?",
        "group: my.csv has no column 'woh'; did you mean 'who'?",
        "features: my.csv has no column 'tga'; did you mean 'tag'?",
        "my.csv, line 7: column 'when' holds 'soon', not a finite number; fill the cell or drop the row\n",
        "my.csv, line 6: column 'state' is empty; fill the cell or drop the row, or say missing='flags' ",
        "line 7: column 'pulse' holds 'x', not a finite number; fill the cell or drop the row, or leave the "
        "column out (features=...) (1 more cell of this column like that)",
    ):
        assert err.count(line) == 1, (line, err)


def test_unknown_keys_hide_no_column(check):
    recipe = RECIPE.replace('"when"', '"whne"') + "horizont = 3\nlookbak = 4\n"
    code, _, err = check(recipe)
    assert code == 2
    assert "unknown key data.horizont for csv; did you mean 'horizon'?" in err
    assert "unknown key data.lookbak for csv; did you mean 'lookback'?" in err
    assert "time: my.csv has no column 'whne'; did you mean 'when'?" in err


def test_what_rests_on_good_columns_is_checked_beside_bad_ones(check):
    table = TABLE.replace("p1,2,", "p1,0,").replace("p3,2,", "p3,0,").replace("p2,1,21", "p2,1,twenty")
    code, out, err = check(RECIPE, table)
    assert code == 2
    assert "The task is classification" in out
    assert "line 8: time 'when' goes back from 1 to 0 in group 'p1'; sort the rows" in err
    assert "(1 more row like that)" in err
    assert "column 'pulse' holds 'twenty'" in err


def test_networks_that_cannot_be_made_are_named(check):
    code, _, err = check(RECIPE + "[network]\nd_model = 7\n[models.cfc-fc]\ntime_scael = 2\n")
    assert code == 2
    assert "num_heads" in err
    assert "time_scael" in err


def test_a_recipe_that_is_none(check):
    for recipe, message in (
        ("data = {", "my.toml is not TOML"),
        ("[data]\nname = 'spirale'\n", "spirale"),
        ('[data]\ncsv = "my.csv"\n', "[data] of csv lacks time, target"),
        (RECIPE.replace("my.csv", "other.csv"), "there is no file"),
        (RECIPE.replace("target", "targte"), "unknown key data.targte for csv; did you mean 'target'?"),
    ):
        code, _, err = check(recipe)
        assert code == 2, recipe
        assert message in err, recipe


def test_the_first_problem_is_never_lost(tmp_path):
    path = tmp_path / "my.csv"
    path.write_text(TABLE)
    good = {"time": "when", "target": "state", "group": "who"}
    assert csv_problems(path, good) == []
    for change, message in (
        ({"target": "pulse", "kind": "forecasting"}, "lookback + horizon is 72 rows"),
        ({"features": ["pulse", "pulse"]}, "got 'pulse' twice"),
        ({"categories": ["who"]}, "different columns, got 'who' twice"),
        ({"lookback": 0}, "lookback must be at least 1"),
        ({"kind": "class"}, "kind must be one of"),
        ({"sort": "yes"}, "sort must be True or False"),
        ({"time": 3}, "3"),
    ):
        assert any(message in problem for problem in csv_problems(path, good | change)), change
