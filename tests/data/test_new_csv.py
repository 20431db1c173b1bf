"""`read_new`: files without answers give the same inputs as training did, and a table that names each answer."""

import pandas as pd
import pytest
import torch

from nacre.data.dataset import UNSCORED
from nacre.data.tables.columns import Columns
from nacre.data.tables.csv_dataset import read_csv_task
from nacre.data.tables.csv_unlabelled import read_new
from support.refused import refused

STATES = """who,second,pulse,state,mood
ann,0,61,calm,0.5
bob,0,90,tense,1.5
ann,9,64,calm,0.5
bob,4,97,tense,1.5
cat,1,70,calm,2.5
"""


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="new.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


def without(text, *names):
    """The same table without some columns."""
    rows = [line.split(",") for line in text.splitlines()]
    kept = [i for i, name in enumerate(rows[0]) if name not in names]
    return "\n".join(",".join(row[i] for i in kept) for row in rows)


def columns_of(path, **options):
    return read_csv_task(path, **{"time": "second", "group": "who", "features": ["pulse"], **options})


KINDS = [
    ("state", "classification"),
    ("mood", "regression"),
    ("state", "step-classification"),
    ("mood", "step-regression"),
]


def test_the_inputs_are_those_of_training_and_no_answer_is_scored(write):
    for target, kind in KINDS:
        data, columns = columns_of(write(STATES), target=target, kind=kind)
        new, answers = read_new(write(without(STATES, "state", "mood")), columns)
        everything = torch.arange(len(data))
        for name in ("x", "time", "key_padding_mask", "group"):
            assert getattr(new.batch(everything), name).equal(getattr(data.batch(everything), name)), (kind, name)
        assert (new.kind, new.classes, new.targets) == (kind, data.classes, data.targets)
        assert (new.y.shape, new.y.dtype) == (data.y.shape, data.y.dtype), kind
        assert new.y.eq(UNSCORED).all() if data.classes else new.y.isnan().all(), kind
        assert len(new.answers(everything)) == 0, kind
        assert len(answers) == len(new.y), kind


def test_each_sequence_is_named(write):
    _, columns = columns_of(write(STATES), target="state")
    _, answers = read_new(write(without(STATES, "state")), columns)
    assert answers.to_dict("list") == {"who": ["ann", "bob", "cat"]}


def test_each_step_is_named_by_group_and_stamp_and_keeps_its_row(write):
    _, columns = columns_of(write(STATES), target="state", kind="step-classification")
    new, answers = read_new(write(without(STATES, "state")), columns)
    assert answers["who"].tolist() == ["ann", "ann", "bob", "bob", "cat"]
    assert answers["second"].tolist() == [0, 9, 0, 4, 1] == new.time.tolist()
    assert answers.sort_index()["who"].tolist() == ["ann", "bob", "ann", "bob", "cat"]


def test_dates_are_read_as_in_training_and_stay_as_they_were_written(write):
    later = "when,a\n05.04.2020,1\n06.04.2020,2\n"  # by itself, these could have the month first
    for first in (1, 20):
        rows = (f"{day:02}.03.2020,{day},{'uv'[day % 2]}\n" for day in range(first, 32))
        _, columns = read_csv_task(write("when,a,y\n" + "".join(rows)), time="when", target="y", lookback=4)
        new, answers = read_new(write(later), columns)
        assert new.time.tolist() == [(36 - first) * 86400, (37 - first) * 86400]  # the fifth and sixth of April
        assert answers.to_dict("list") == {"when": ["05.04.2020", "06.04.2020"]}


def test_a_series_is_cut_if_training_cut_it(write):
    text = "t,a,y\n" + "".join(f"{i},{i},{'uv'[i % 2]}\n" for i in range(10))
    _, columns = read_csv_task(write(text), time="t", target="y", lookback=4)
    new, answers = read_new(write(without(text, "y")), columns)
    assert new.length.tolist() == [4, 4, 2]
    assert (new.groups, list(answers.columns), len(answers)) == (("all",), ["t"], 10)


# --- forecasting --------------------------------------------------------------------------------------------

SALES = "shop,day,price,sales\n" + "".join(
    f"{shop},{day * step},{day}.5,{day * day}.25\n" for day in range(12) for shop, step in (("n", 1), ("s", 3))
)


def sales_columns(path):
    return read_csv_task(path, time="day", target="sales", group="shop", lookback=4, horizon=2)[1]


def test_a_forecast_sees_the_last_rows_of_each_group_and_goes_on_by_its_step(write):
    columns = sales_columns(write(SALES))
    new, answers = read_new(write(SALES), columns)
    batch = new.batch(torch.arange(2))
    assert batch.x[1].tolist() == [[8.5, 64.25], [9.5, 81.25], [10.5, 100.25], [11.5, 121.25]]
    assert batch.time.tolist() == [[8, 9, 10, 11], [24, 27, 30, 33]]
    assert answers.to_dict("list") == {"shop": ["n", "n", "s", "s"], "day": [12, 13, 36, 39]}
    assert (new.targets, new.target_column) == (("sales+1", "sales+2"), 1)
    assert tuple(new.y.shape) == (2, 2)
    assert new.y.isnan().all()


def test_short_histories_are_allowed(write):
    columns = sales_columns(write(SALES))  # steps of 1 and of 3, median 2
    new, answers = read_new(write("shop,day,price,sales\nx,5,1,2\ny,1,1,2\ny,2,3,4\ny,9,3,4\n"), columns)
    assert new.length.tolist() == [1, 3]
    assert new.batch(torch.arange(2)).key_padding_mask.tolist() == [[False, True, True], [False] * 3]
    assert answers["day"].tolist() == [7, 9, 13, 17]


def test_future_dates_are_dates(write):
    for zone in ("", "+00:00"):
        text = "when,y\n" + "".join(f"2020-02-{day:02}T12:00:00{zone},{day}.5\n" for day in range(1, 29))
        _, columns = read_csv_task(write(text), time="when", target="y", lookback=4, horizon=2)
        columns = Columns.from_dict(columns.to_dict())
        _, answers = read_new(write(text), columns)
        wanted = [pd.Timestamp(f"2020-{date}T12:00:00{zone}") for date in ("02-29", "03-01")]
        assert answers["when"].tolist() == wanted, zone
        assert list(answers.columns) == ["when"]


# --- bad input ----------------------------------------------------------------------------------------------


def test_what_is_wrong_is_named(write):
    columns = sales_columns(write(SALES, "train.csv"))
    for text, message in (
        (SALES.replace("price", "prices"), r"features: .*new.csv has no column 'price'; did you mean 'prices'"),
        (without(SALES, "sales"), r"features: .*new.csv has no column 'sales'"),
        (without(SALES, "shop"), r"group: .*new.csv has no column 'shop'"),
        (without(SALES, "day"), r"time: .*new.csv has no column 'day'"),
        (SALES.replace("n,4,4.5", "n,4,oops"), r"line 10: column 'price' holds 'oops'"),
        (SALES.replace("n,4,", "n,3,"), r"line 10: time 'day' repeats the stamp 3 in group 'n'"),
    ):
        with refused(message):
            read_new(write(text), columns)


def test_numbers_are_no_dates(write):
    text = "when,y\n" + "".join(f"2020-02-{day:02},{day}.5\n" for day in range(1, 29))
    _, columns = read_csv_task(write(text), time="when", target="y", lookback=4, horizon=2)
    with pytest.raises(ValueError, match="time 'when' holds numbers; dates were wanted, as in 2020-02-01"):
        read_new(write("when,y\n1,2\n2,3\n"), columns)
    numbers = "when,y\n" + "".join(f"{day},{day}.5\n" for day in range(28))
    _, columns = read_csv_task(write(numbers), time="when", target="y", lookback=4, horizon=2)
    with pytest.raises(ValueError, match="line 2: column 'when' holds '2020-02-01', not a finite number"):
        read_new(write(text), columns)
