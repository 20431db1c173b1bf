"""`from_csv`: rows come out as they went in, and what is wrong with a file is named by its line."""

import csv
import gzip
import hashlib
import json
import os
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.splits import SplitBy, make_splits
from nacre.data.tables.columns import Clock, Columns
from nacre.data.tables.csv_dataset import from_csv, read_csv_task
from support.hypothesis import examples
from support.refused import refused

PULSE = """who,second,pulse,motion,state
ann,0,61,0.5,calm
bob,0,90,1.5,tense
ann,9,64,0.25,calm
bob,4,97,2.5,tense
bob,5,98,3.5,tense
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="pulse.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write_file


def pulse(path, **options):
    return from_csv(path, **{"time": "second", "target": "state", "group": "who", **options})


def series(rows, start=0):
    return "t,a,y\n" + "".join(f"{i},{i % 7},{i}.5\n" for i in range(start, start + rows))


def test_mixed_groups_come_together(write):
    data = pulse(path := write(PULSE))
    assert (data.name, data.kind, data.form) == ("pulse", "classification", "your own")
    assert (data.groups, data.features, data.classes) == (("ann", "bob"), ("pulse", "motion"), ("calm", "tense"))
    assert data.values.tolist() == [[61, 0.5], [64, 0.25], [90, 1.5], [97, 2.5], [98, 3.5]]
    assert data.time.tolist() == [0, 9, 0, 4, 5]
    assert (data.start.tolist(), data.length.tolist()) == ([0, 2], [2, 3])
    assert (data.y.tolist(), data.group.tolist()) == ([0, 1], [0, 1])
    assert data.files == {"pulse.csv": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert "The task is classification" in data.notes[0]


def slow_forecasts(path, lookback, horizon):
    """[(group, stamps, inputs, next values)] by plain loops."""
    groups = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            groups.setdefault(row["g"], []).append((float(row["t"]), float(row["a"]), float(row["y"])))
    found = []
    for name, rows in groups.items():
        for i in range(len(rows) - lookback - horizon + 1):
            seen, ahead = rows[i : i + lookback], rows[i + lookback : i + lookback + horizon]
            found.append((name, [r[0] for r in seen], [[r[1], r[2]] for r in seen], [r[2] for r in ahead]))
    return found


@examples(30)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4).filter(lambda sizes: max(sizes) >= 5),
    lookback=st.integers(1, 3),
    horizon=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_forecasting_windows_equal_a_plain_loop(tmp_path_factory, sizes, lookback, horizon, seed):
    rng = random.Random(seed)
    owner = [name for name, size in enumerate(sizes) for _ in range(size)]
    rng.shuffle(owner)
    path = tmp_path_factory.mktemp("csv") / "mixed.csv"
    rows = [f"{row},g{name},{rng.randrange(99)},{row}.25" for row, name in enumerate(owner)]
    path.write_text("\n".join(["t,g,a,y", *rows]))
    data = from_csv(path, time="t", target="y", group="g", lookback=lookback, horizon=horizon, kind="forecasting")
    batch = data.batch(torch.arange(len(data)))
    expected = slow_forecasts(path, lookback, horizon)
    assert len(expected) == len(data)
    for i, (name, stamps, inputs, ahead) in enumerate(expected):
        assert data.groups[batch.group[i]] == name
        assert batch.time[i].tolist() == stamps
        assert batch.x[i].tolist() == inputs
        assert batch.y[i].tolist() == ahead
    short = sum(size < lookback + horizon for size in sizes)
    assert len(data.groups) == len(sizes) - short
    assert any(f"Left out {short} of {len(sizes)} groups" in note for note in data.notes) == (short > 0)


def test_a_forecast_knows_its_column_and_its_targets(write):
    data = from_csv(write(series(10)), time="t", target="y", lookback=3, horizon=2)
    assert (data.kind, data.features, data.target_column) == ("forecasting", ("a", "y"), 1)
    assert (data.targets, data.groups) == (("y+1", "y+2"), ("all",))
    only = from_csv(write(series(10)), time="t", target="y", lookback=3, horizon=2, features=[])
    assert (only.features, only.target_column) == (("y",), 0)


def test_kinds_that_are_asked_for(write):
    for kind, target, shape in (
        ("regression", "pulse", (2, 1)),
        ("step-regression", "pulse", (5, 1)),
        ("step-classification", "state", (5,)),
    ):
        text = PULSE if kind != "regression" else PULSE.replace("64", "61").replace("97", "90").replace("98", "90")
        data = pulse(write(text), kind=kind, target=target)
        assert data.kind == kind
        assert tuple(data.y.shape) == shape, kind
        assert target not in data.features, kind
        assert not any("The task is" in note for note in data.notes)


def test_several_targets_of_each_group(write):
    text = "g,t,x,u,v\n" + "".join(f"{g},{t},{t},{g}.5,{g * 2}\n" for g in range(4) for t in range(3))
    data = from_csv(write(text), time="t", target=["u", "v"], group="g")
    assert (data.kind, data.targets) == ("regression", ("u", "v"))
    assert data.y.tolist() == [[0.5, 0], [1.5, 2], [2.5, 4], [3.5, 6]]


def test_one_long_series_of_steps_is_cut_and_can_be_split(write):
    text = "t,a,label\n" + "".join(f"{i},{i}.5,{'ab'[i % 2]}\n" for i in range(205))
    data, columns = read_csv_task(write(text), time="t", target="label", lookback=10)
    assert data.kind == "step-classification"
    assert data.length.tolist() == [10] * 20 + [5]
    assert data.start.tolist() == list(range(0, 205, 10))
    assert data.y.tolist() == [i % 2 for i in range(205)]
    assert columns.pieces
    assert "Cut 1 long series into 21 pieces of 10 rows." in data.notes
    assert len(make_splits(data, SplitBy.TIME, folds=3)) == 3


def test_series_of_steps_are_cut_only_where_groups_are_too_few_to_split(write):
    for groups, sequences in ((2, 6), (3, 3)):
        text = "g,t,a,label\n" + "".join(f"{g},{i},{i},{'ab'[i % 2]}\n" for g in range(groups) for i in range(9))
        data = from_csv(write(text), time="t", target="label", group="g", lookback=4)
        assert len(data) == sequences
        assert sorted(set(data.group.tolist())) == list(range(groups))


def test_dates_become_seconds_since_the_earliest(write):
    for dates in (
        ["2020-12-31 23:59:58", "2020-12-31 23:59:59.5", "2021-01-01"],
        ["31.12.2020 23:59:58.0", "31.12.2020 23:59:59.5", "01.01.2021 00:00:00.0"],
        ["12/31/2020 23:59:58.0", "12/31/2020 23:59:59.5", "01/01/2021 00:00:00.0"],
        ["2020-12-31T23:59:58+00:00", "2021-01-01T00:59:59.5+01:00", "2021-01-01T00:00:00Z"],
    ):
        text = "g,when,a,y\n" + "".join(f"{g},{date},1,{g}\n" for g in "vu" for date in dates[g == "v" :])
        data, columns = read_csv_task(write(text), time="when", target="y", group="g")
        assert data.time.tolist() == [1.5, 2.0, 0.0, 1.5, 2.0], dates
        assert columns.clock.origin is not None
        assert columns.clock.origin.startswith("2020-12-31T23:59:58"), dates


def test_groups_and_classes_keep_their_spelling(write):
    text = "g,t,a,y\n007,0,1,None\n7,0,2,NA\n1.0,0,3,None\n"
    data = from_csv(write(text), time="t", target="y", group="g")
    assert (data.groups, data.classes) == (("007", "7", "1.0"), ("NA", "None"))


def test_columns_of_text_and_without_a_name_are_left_out(write):
    text = ",g,t,a,flag,tag,y\n0,u,0,1,true,red,b\n1,v,0,2,false,blue,c\n"
    data = from_csv(write(text), time="t", target="y", group="g")
    assert data.features == ("a", "flag")
    assert data.values.tolist() == [[1, 1], [2, 0]]
    assert (
        "Left out columns of text or without a name: '(column 1)', 'tag'; to use text, name it in categories."
        in data.notes
    )


def test_other_ways_to_write_the_same_table(write):
    expected = pulse(write(PULSE)).digest
    forms = {
        "a.csv": PULSE.replace(",", ";"),
        "b.csv": PULSE.replace(",", "\t"),
        "c.csv": PULSE.replace(",", ", "),
        "d.csv": PULSE.replace("\n", "\r\n"),
        "e.csv": PULSE.replace("\n", "\n\n"),
        "f.csv": b"\xef\xbb\xbf" + PULSE.encode(),
        "g.csv.gz": gzip.compress(PULSE.encode()),
    }
    for name, text in forms.items():
        data = pulse(write(text, name))
        assert (data.name, data.digest) == (name[0], expected)


def test_what_is_wrong_is_named_with_its_line(write):
    for before, after, message in (
        ("61,", ",", r"pulse.csv, line 2: column 'pulse' is empty; fill the cell or drop the row"),
        ("97,", "oops,", r"line 5: column 'pulse' holds 'oops', not a finite number; .*features="),
        ("97,", "nan,", r"line 5: column 'pulse' holds 'nan'"),
        ("97,", "-inf,", r"line 5: column 'pulse' holds '-inf'"),
        ("97,", "1e39,", r"line 5: column 'pulse' holds '1e\+39'"),
        ("97,2.5,tense", "97,2.5,", r"line 5: column 'state' is empty"),
        ("bob,5", ",5", r"line 6: column 'who' is empty"),
        ("bob,5", "bob,", r"line 6: column 'second' is empty"),
        ("bob,5", "bob,5 o'clock", r"line 6: column 'second' holds \"5 o'clock\""),
        ("bob,5", "bob,3", r"line 6: time 'second' goes back from 4 to 3 in group 'bob'; sort the rows"),
        ("bob,5", "bob,4", r"line 6: time 'second' repeats the stamp 4 in group 'bob'; keep one row"),
        ("98,3.5,tense", "98,3.5", r"line 6: column 'state' is empty"),
        ("98,3.5,tense", "98,3.5,tense,1", r"pulse.csv is not a table: .*line 6"),
        ("98,3.5,tense", '98,3.5,"tense', r"pulse.csv is not a table"),
        ("motion", "pulse", r"column 'pulse' is in the header twice"),
        (
            "state",
            "stat",
            r"target: .*pulse.csv has no column 'state'; did you mean 'stat'\? Its columns are 'who'",
        ),
        ("who", "whom", r"group: .* has no column 'who'; did you mean 'whom'"),
        ("second", "seconds", r"time: .* has no column 'second'; did you mean 'seconds'"),
        ("tense", "calm", r"target 'state' holds one value only, calm"),
    ):
        assert before in PULSE
        with refused(message):
            pulse(write(PULSE.replace(before, after)))


def test_lines_are_counted_over_blank_lines_and_quoted_newlines(write):
    text = 'g,t,a,y\n\nu,0,1,"two\nlines"\n\n\nv,0,oops,b\nv,1,1,b\nv,2,1,b\n'
    with pytest.raises(ValueError, match="line 7: column 'a' holds 'oops'"):
        from_csv(write(text), time="t", target="y", group="g", features=["a"])


def test_files_that_are_no_tables(write):
    for text, message in (
        ("", "pulse.csv is empty"),
        (" \n\n", "pulse.csv is empty"),
        ("who,second,pulse,state\n", "holds a header but no rows"),
        (PULSE.encode() + b"\xff,1,2,3,4\n", "line 7: byte 0xff is not UTF-8; save the file as UTF-8"),
        ("who,second,pulse,state\nann,1,2,a,5\nbob,1,2,b,5\n", "rows have more cells than the header has names"),
        ("who,second,state\nann,1,a\nbob,1,b\n", "no column of numbers is left as an input"),
    ):
        with refused(message, case=repr(text)):
            pulse(write(text))


def test_missing_and_damaged_files(write, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file .*nowhere.csv"):
        pulse(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="ends in .gz but cannot be unpacked"):
        pulse(write(PULSE, "pulse.csv.gz"))


def test_arguments_that_do_not_fit(write):
    numbered = [f"{line},{'row' if i == 0 else i}" for i, line in enumerate(PULSE.splitlines())]
    path = write("\n".join(numbered))
    for options, message in (
        ({"kind": "clasification"}, "kind must be one of .* did you mean 'classification'"),
        (
            {"kind": "classification", "group": None, "time": "row"},
            "classification needs two or more groups, got 1",
        ),
        (
            {"target": "pulse", "kind": "regression"},
            "line 4: target 'pulse' changes within group 'ann'.*step-regre",
        ),
        ({"target": "motion", "kind": "step-classification"}, "line 2: column 'motion' holds '0.5', not a class"),
        ({"kind": "regression"}, "line 2: column 'state' holds 'calm', not a finite number"),
        ({"target": ["state", "pulse"], "kind": "classification"}, "classification predicts one column, got"),
        ({"target": ["pulse", "motion"]}, "for several columns say kind='step-regression'"),
        ({"target": []}, "target must name at least one column"),
        ({"target": "second"}, "different columns, got 'second' twice"),
        ({"features": ["pulse", "state"]}, "features must be .* got the target 'state'"),
        ({"features": ["pulse", "pulse"]}, "features must be .* got 'pulse' twice"),
        ({"features": "pulse"}, "features must be a list of columns, got 'pulse'"),
        ({"features": ["puls"]}, "features: .* no column 'puls'; did you mean 'pulse'"),
        ({"features": ["who", "pulse"]}, "line 2: column 'who' holds 'ann', not a finite number"),
        ({"features": []}, "no column of numbers is left"),
        (
            {"target": "motion", "kind": "forecasting"},
            "lookback \\+ horizon is 72 rows, but the longest series has 3",
        ),
        ({"lookback": 0}, "lookback must be at least 1"),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"group": None}, "line 3: time 'second' repeats the stamp 0; .*name the column .*group="),
    ):
        with refused(message):
            pulse(path, **options)


def test_dates_that_cannot_be_read(write):
    for first, second, message in (
        ("01.02.2020", "03.02.2020", "can be read with the day or the month first"),
        ("12:00", "13:00", "time of day without a date"),
        ("2020-01-01", "2020-01-32", "line 3: column 'when' holds '2020-01-32', not a date"),
        ("13.01.2020", "14.13.2020", "line 3: column 'when' holds '14.13.2020', not a date"),
        ("soon", "later", "line 2: column 'when' holds 'soon', not a date"),
    ):
        with refused(message):
            from_csv(write(f"when,a,y\n{first},1,0.5\n{second},2,1.5\n"), time="when", target="y")


def test_columns_survive_json(write):
    _, columns = read_csv_task(write(PULSE), time="second", target="state", group="who")
    assert Columns.from_dict(json.loads(json.dumps(columns.to_dict()))) == columns
    _, columns = read_csv_task(write(series(10)), time="t", target="y", lookback=3, horizon=2)
    assert (columns.group, columns.clock, columns.step) == (None, Clock(), 1.0)
    assert None not in columns.to_dict().values()
    assert Columns.from_dict(columns.to_dict()) == columns


def test_damaged_columns_are_refused(write):
    data = read_csv_task(write(PULSE), time="second", target="state", group="who")[1].to_dict()
    with refused("missing or unknown: 'feature'"):
        Columns.from_dict(data | {"feature": 1})
    with refused("clock, reading or vocabulary that is not one"):
        Columns.from_dict(data | {"clock": {"hands": 2}})
    del data["step"]
    with refused("missing or unknown: 'step'"):
        Columns.from_dict(data)


@pytest.mark.skipif("NACRE_DATA" not in os.environ, reason="needs real data in $NACRE_DATA")
def test_a_real_series_is_read_as_a_forecasting_task():
    path = Path(os.environ["NACRE_DATA"]) / "ettm1" / "ETTm1.csv.gz"
    data = from_csv(path, time="date", target="OT")
    assert (data.kind, data.features[data.target_column]) == ("forecasting", "OT")
    assert len(data) == 69_680 - 48 - 24 + 1
    assert data.time.diff().eq(900).all()
    assert data.y[5].equal(data.values[5 + 48 : 5 + 48 + 24, data.target_column])
