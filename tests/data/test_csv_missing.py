"""Tables with empty cells: wide and long ones, static columns, categories, missing targets, what is refused."""

import math

import pandas as pd
import pytest
import torch

from nacre.data import from_csv, from_frame
from nacre.data.dataset import UNSCORED, Kind
from nacre.data.tables.check import csv_problems
from nacre.data.tables.columns import Columns
from nacre.data.tables.csv_dataset import read_csv_task
from nacre.data.tables.csv_unlabelled import read_new
from support.refused import refused

NAN = math.nan
WIDE = """who,hour,pulse,temp,age,ward,state
ann,0,61,,50,med,calm
ann,5,NA,37.5,,med,calm
bob,1,90,nan,70,,tense
bob,3,,39,70,,tense
cid,1,80,38,,surg,
"""
LONG = """who,hour,what,number,age,ward,state
ann,5,temp,37.5,50,med,calm
ann,0,pulse,61,50,med,calm
bob,1,pulse,90,70,,
bob,3,temp,39,70,,tense
cid,1,pulse,80,,surg,
cid,1,temp,38,,surg,
dan,2,pulse,,40,surg,calm
"""
NUMBERS = [[61.0, NAN], [NAN, 37.5], [90.0, NAN], [NAN, 39.0]]


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="pulse.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write_file


def wide(path, **options):
    roles = {"time": "hour", "target": "state", "group": "who", "static": ["age"], "categories": ["ward"]}
    return from_csv(path, **{**roles, "missing": "flags", **options})


def long(path, **options):
    return wide(path, **{"variable": "what", "value": "number", **options})


def same(found, wanted):
    torch.testing.assert_close(found, torch.tensor(wanted), rtol=0, atol=0, equal_nan=True)


# --- wide and long ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["flags", "last"])
def test_empty_cells_are_nan_and_static_columns_are_spread(write, missing):
    data = wide(write(WIDE), missing=missing)
    assert data.features == ("pulse", "temp", "age", "ward=med", "ward=surg")
    assert (data.static, data.one_hot, str(data.missing)) == ((2,), (3, 4), missing)
    same(data.values[:4, :2], NUMBERS)
    same(data.values[:4, 2:], [[50.0, 1.0, 0.0]] * 2 + [[70.0, 0.0, 0.0]] * 2)  # no ward is like an unknown one
    assert "Left out 1 of 3 sequences, whose target is missing." in data.notes
    assert data.notes[-1].startswith("Missing: 33.3 % of 12 values (pulse 50.0 %, temp 50.0 %); ")


def test_a_long_table_is_read_as_the_wide_one(write):
    data, other = long(write(LONG), features=["pulse", "temp"]), wide(write(WIDE, "wide.csv"))
    assert data.features == other.features
    assert data.static == (2, 3, 4)
    same(data.values[:4], other.values[:4].tolist())
    assert data.time[:4].tolist() == [0.0, 5.0, 1.0, 3.0]
    assert data.groups == ("ann", "bob", "dan")
    assert data.length.tolist() == [2, 2, 1]


@pytest.mark.parametrize("form", [wide, long])
def test_events_of_a_table_are_its_observed_cells(write, form):
    data = form(write(WIDE if form is wide else LONG), missing="events", static=["age", "ward"])
    bob = data.batch(torch.tensor([1]))
    assert bob.x[0].tolist() == [[2.0, 70.0], [0.0, 90.0], [1.0, 39.0]]
    assert bob.time[0].tolist() == [1.0, 1.0, 3.0]
    ann = data.batch(torch.tensor([0]))
    assert ann.x[0].tolist() == [[2.0, 50.0], [3.0, 1.0], [0.0, 61.0], [1.0, 37.5]]
    assert data.y.tolist() == [0, 1] + ([0] if form is long else [])
    assert data.notes[-1].endswith("each observed value is a step of its own.")


def test_a_group_of_which_nothing_was_observed_stays(write):
    text = "who,hour,what,number,state\nann,0,pulse,1,calm\nbob,0,pulse,,tense\ncid,0,pulse,3,tense\n"
    roles = {"time": "hour", "target": "state", "group": "who", "variable": "what", "value": "number"}
    data = from_csv(write(text), **roles, missing="events")
    assert data.length.tolist() == [1, 1, 1]
    same(data.values, [[0.0, 1.0], [0.0, NAN], [0.0, 3.0]])


def test_values_of_a_stamp_may_repeat_where_that_is_said(write):
    text = LONG + "ann,5,temp,38.5,50,med,calm\n"
    with refused(r"pulse.csv, line 9: 'temp' has a value at this stamp already; keep one row, or say dup"):
        long(write(text))
    same(long(write(text), duplicates="mean").values[1, :2], [NAN, 38.0])
    kept = long(write(text), duplicates="keep", missing="events")
    assert kept.batch(torch.tensor([0])).x[0, -2:].tolist() == [[1.0, 37.5], [1.0, 38.5]]
    with refused("duplicates='keep' in a long table needs missing='events'"):
        long(write(text), duplicates="keep")


def test_a_frame_is_read_as_its_file(write, tmp_path):
    for text, form in ((WIDE, wide), (LONG, long)):
        path = write(text)
        frame = pd.read_csv(path)
        roles = {"time": "hour", "target": "state", "group": "who", "static": ["age"], "categories": ["ward"]}
        more = {"variable": "what", "value": "number"} if form is long else {}
        data = from_frame(frame, **roles, **more, missing="flags")
        assert data.digest == form(path).digest
        assert data.classes == ("calm", "tense")
        assert data.files == {}
    dates = pd.DataFrame(
        {"at": pd.date_range("2024-01-01", periods=40, freq="h"), "load": pd.array(range(40), "Int64")}
    )
    dates.loc[3, "load"] = pd.NA
    data = from_frame(dates, time="at", target="load", kind="forecasting", lookback=4, horizon=2, missing="last")
    assert data.time[:3].tolist() == [0.0, 3600.0, 7200.0]
    same(data.values[:5, 0], [0.0, 1.0, 2.0, NAN, 4.0])
    with refused("frame, row 1: column 'load' is empty"):
        from_frame(dates.iloc[2:], time="at", target="load", kind="forecasting", lookback=4, horizon=2)


def test_equal_stamps_have_the_mean_of_what_is_known(write):
    text = "t,a,y\n0,1,1.5\n0,,2.5\n1,2,\n2,5,4\n3,4,5.5\n"
    options = {"time": "t", "target": "y", "kind": "step-regression", "lookback": 2}
    data = from_csv(write(text), **options, duplicates="mean", missing="flags")
    same(data.values[:, 0], [1.0, 2.0, 5.0, 4.0])
    same(data.y[:, 0], [2.0, NAN, 4.0, 5.5])


# --- targets ------------------------------------------------------------------------------------------------


def test_targets_of_rows_that_are_missing_are_not_scored(write):
    text = "who,t,a,up\n" + "".join(
        f"{who},{t},1,{up}\n" for who in "abc" for t, up in enumerate(["yes", "", "no"])
    )
    data = from_csv(write(text), time="t", group="who", target="up", missing="flags")
    assert data.kind is Kind.STEP_CLASSIFICATION
    assert data.y.tolist() == [1, UNSCORED, 0] * 3
    numbers = text.replace("yes", "1.5").replace("no", "2.5")
    data = from_csv(write(numbers), time="t", group="who", target="up", kind="step-regression", missing="flags")
    same(data.y[:3, 0], [1.5, NAN, 2.5])


def test_a_target_that_one_row_of_a_group_tells_is_enough(write):
    text = "who,t,a,y\na,0,1,\na,1,1,5\nb,0,1,6\nb,1,1,\nc,0,1,\n"
    for kind, wanted in (("classification", [0, 1]), ("regression", [[5.0], [6.0]])):
        data = from_csv(write(text), time="t", group="who", target="y", kind=kind, missing="flags")
        assert data.y.tolist() == wanted
        assert data.groups == ("a", "b")


def test_forecasts_are_scored_where_their_values_are_known(write):
    series = [1.0, 2.0, NAN, 4.0, 5.0, NAN, NAN, 8.0]
    text = "t,y\n" + "".join(f"{t},{'' if y != y else y}\n" for t, y in enumerate(series))
    options = {"time": "t", "target": "y", "kind": "forecasting", "lookback": 2, "horizon": 2, "missing": "last"}
    data = from_csv(write(text), **options)
    same(data.y, [[NAN, 4.0], [4.0, 5.0], [5.0, NAN], [NAN, 8.0]])
    assert data.start.tolist() == [0, 1, 2, 4]
    same(data.last_values(torch.arange(4), [0]), [[2.0], [2.0], [4.0], [5.0]])


# --- new files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["flags", "last", "events"])
@pytest.mark.parametrize("text", [WIDE, LONG], ids=["wide", "long"])
def test_new_files_are_read_in_the_same_way(write, text, missing):
    more = {"variable": "what", "value": "number"} if text is LONG else {}
    roles = {"time": "hour", "target": "state", "group": "who", "static": ["age"], "categories": ["ward"]}
    data, columns = read_csv_task(write(text), **roles, **more, missing=missing)
    assert Columns.from_dict(columns.to_dict()) == columns
    new = pd.read_csv(write(text)).drop(columns="state")
    new.loc[new["who"] == "bob", "ward"] = "attic"  # a name that training did not have
    if text is LONG:
        new = pd.concat([new, new.iloc[:1].assign(what="lactate")])  # nor such a variable
    new.to_csv(write("", "new.csv"), index=False)
    again, table = read_new(write(new.to_csv(index=False), "new.csv"), columns)
    assert table["who"].tolist() == ["ann", "bob", "cid", "dan"][: len(table)]
    assert again.missing is data.missing
    for number, group in enumerate(data.groups):  # those that have an answer
        old = data.batch(torch.tensor([number]))
        found = again.batch(torch.tensor([table["who"].tolist().index(group)]))
        same(found.x, old.x.tolist())
        assert found.time.tolist() == old.time.tolist()


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "options", "message"),
    [
        (
            "90",
            "high",
            {},
            r"line 4: column 'pulse' holds 'high', not a finite number; leave the cell empty",
        ),
        (
            "90",
            "inf",
            {},
            r"line 4: column 'pulse' holds 'inf', not a finite number; leave the cell empty",
        ),
        (
            "ann,5",
            "ann,-5",
            {},
            r"line 3: time 'hour' goes back from 0 to -5 in group 'ann'; sort the rows",
        ),
        ("ann,5", "ann,0", {}, r"line 3: time 'hour' repeats the stamp 0 in group 'ann'; keep one row for each"),
        ("ann,5", ",5", {}, r"line 3: column 'who' is empty; fill the cell or drop the row"),
        ("ann,5", "ann,", {}, r"line 3: column 'hour' is empty; fill the cell or drop the row"),
        (
            "tense",
            "calm",
            {},
            r"target 'state' holds one value only, calm, so there is nothing to learn",
        ),
        ("37.5,,", "37.5,51,", {}, r"line 3: static: 'age' changes within group 'ann'; leave it out of static"),
        ("bob,3", "bob,3", {"static": ["hour"]}, "static: 'hour' cannot be the time, the group or the target"),
        ("bob,3", "bob,3", {"static": ["aeg"]}, "static: .* has no column 'aeg'; did you mean 'age'"),
        (
            "bob,3",
            "bob,3",
            {"missing": "drop"},
            "missing must be one of 'error', 'flags', 'last', 'events', got",
        ),
        (
            "bob,3",
            "bob,3",
            {"missing": "error"},
            r"line 6: column 'state' is empty; fill .* or say missing=",
        ),
        ("bob,3", "bob,3", {"value": "pulse"}, "variable and value belong together: the columns of a long table"),
    ],
)
def test_what_is_wrong_is_named(write, before, after, options, message):
    assert before in WIDE
    with refused(message):
        wide(write(WIDE.replace(before, after)), **options)


def test_columns_of_which_nothing_is_known_are_named(write):
    none = WIDE.replace("37.5", "").replace("39", "").replace("38", "")
    with refused("pulse: nothing was observed of 'temp'; leave such columns out"):
        wide(write(none))
    with refused("target 'state' is missing everywhere, so there is nothing to learn"):
        wide(write(WIDE.replace("calm", "").replace("tense", "")))
    with refused(
        "'events' is for one answer for each sequence, not for step-classification; use 'flags' or 'last'"
    ):
        wide(write(WIDE), kind="step-classification", missing="events")


def test_a_long_table_that_is_none_is_refused(write):
    for options, message in (
        ({"variable": "waht"}, "variable: .* has no column 'waht'; did you mean 'what'"),
        ({"value": "ward"}, "column 'ward' holds 'med', not a finite number"),
        ({"features": ["puls"]}, "column 'what' holds none of the variables 'puls'; it holds 'temp', 'pulse'"),
        ({"missing": "error"}, r"a long table \(variable=..., value=...\) has no value of most variables"),
    ):
        with refused(message):
            long(write(LONG), **options)
    with refused("'age' is a column and a variable; rename one of them"):
        long(write(LONG.replace("temp", "age")))


def test_rows_of_one_stamp_in_a_long_table_agree(write):
    assert (
        len(long(write(LONG.replace("cid,1,temp,38,,surg,", "cid,1,temp,38,60,,")))) == 3
    )  # nobody knows cid's end
    for cells, others, message in (
        (
            "80,60,surg,calm",
            "38,60,surg,tense",
            "line 7: 'state' is tense here and calm in another row of the same",
        ),
        (
            "80,60,surg,calm",
            "38,61,surg,calm",
            r"line 7: 'age' is 61(\.0)? here and 60(\.0)? in another row of the same",
        ),
        (
            "80,60,surg,calm",
            "38,60,med,calm",
            "line 7: 'ward' is med here and surg in another row of the same stamp",
        ),
    ):
        text = LONG.replace("80,,surg,", cells).replace("38,,surg,", others)
        for missing in ("flags", "events"):
            with refused(message):
                long(write(text), missing=missing)
    units = (
        LONG.replace("state", "state,unit")
        .replace("80,,surg,", "80,,surg,,bpm")
        .replace("38,,surg,", "38,,surg,,C")
    )
    assert long(write(units)).features == long(write(LONG)).features  # other columns may differ


def test_names_that_are_missing_are_counted(write):
    assert (
        "Missing: 33.3 % of 3 names of 'ward'; they are like no name."
        in wide(write(WIDE), static=["age", "ward"]).notes
    )
    assert "Missing: 40.0 % of 5 names of 'ward'; they are like no name." in wide(write(WIDE)).notes
    assert not any("names of" in note for note in wide(write(WIDE.replace(",,tense", ",icu,tense"))).notes)
    with refused("categories: nothing was observed of 'ward'; leave it out"):
        wide(write(WIDE.replace("med", "").replace("surg", "")))


def test_check_finds_all_that_is_wrong_with_a_table_with_gaps(write):
    options = {
        "time": "hour",
        "target": "state",
        "group": "who",
        "missing": "flags",
        "features": ["pulse", "temp"],
    }
    assert csv_problems(write(WIDE), options) == []
    found = csv_problems(write(WIDE.replace("90", "high").replace("39", "low")), options)
    assert len(found) == 2
    assert "'high'" in found[0]
    assert "'low'" in found[1]


def test_text_stays_text(write):
    text = "who,t,a,y\na,0,1,None\na,1,,None\nb,0,1,NA\n"
    data = from_csv(write(text), time="t", group="who", target="y", missing="flags")
    assert data.classes == ("NA", "None")
    assert data.values[1, 0].isnan()
