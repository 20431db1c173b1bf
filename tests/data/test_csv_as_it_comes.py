"""Tables as they come: unsorted, repeated stamps, decimal commas, names; each only where an option says so."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nacre.data.tables.columns import Columns
from nacre.data.tables.csv_dataset import from_csv, read_csv_task
from nacre.data.tables.csv_unlabelled import read_new
from nacre.tasks.network import TaskNetwork
from support.hypothesis import examples
from support.refused import refused

PULSE = """who,second,pulse,kind,state
ann,0,61,cat,calm
bob,0,90,dog,tense
ann,9,64,cat,calm
bob,4,97,owl,tense
bob,5,98,dog,tense
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


@examples(30)
@given(seed=st.integers(0, 10_000), rows=st.integers(2, 30))
def test_sorting_undoes_any_shuffle(tmp_path_factory, seed, rows):
    chance = random.Random(seed)
    lines = [f"{chance.choice('ab')},{stamp},{stamp % 7},{stamp % 2}" for stamp in chance.sample(range(99), rows)]
    lines += ["a,100,1,0", "b,100,1,1"]
    folder = tmp_path_factory.mktemp("sort")
    ordered = sorted(lines, key=lambda line: int(line.split(",")[1]))
    options = {"time": "t", "target": "y", "group": "g", "kind": "step-classification", "lookback": 4}
    read = []
    for name, order in (("ordered.csv", ordered), ("mixed.csv", lines)):
        (folder / name).write_text("g,t,x,y\n" + "\n".join(order))
        data = from_csv(folder / name, sort=True, **options)
        groups = {data.groups[g]: data.batch(torch.tensor([i])) for i, g in enumerate(data.group.tolist())}
        read.append(
            {name: (batch.x.tolist(), batch.time.tolist(), batch.y.tolist()) for name, batch in groups.items()}
        )
    assert read[0] == read[1]


def test_stamps_that_go_back_are_refused_with_the_option_that_allows_them(write):
    path = write(PULSE.replace("bob,5", "bob,3"))
    with refused(r"line 6: time 'second' goes back from 4 to 3 .*sort=True \(sort = true in a recipe\)"):
        pulse(path)
    assert pulse(path, sort=True).time.tolist() == [0, 9, 0, 3, 4]


def test_equal_stamps(write):
    path = write(PULSE.replace("bob,5", "bob,4"))
    with refused("line 6: time 'second' repeats the stamp 4 .*duplicates='keep' .*duplicates='mean'"):
        pulse(path)
    kept, merged = (pulse(path, duplicates=how) for how in ("keep", "mean"))
    assert kept.time.tolist() == [0, 9, 0, 4, 4]
    assert kept.values[:, 0].tolist() == [61, 64, 90, 97, 98]
    assert merged.time.tolist() == [0, 9, 0, 4]
    assert merged.values[:, 0].tolist() == [61, 64, 90, 97.5]
    assert (merged.start.tolist(), merged.length.tolist()) == ([0, 2], [2, 2])


def test_means_of_answers(write):
    text = "t,x,y\n0,1,0.5\n0,3,1.5\n1,5,2\n2,6,3\n2,7,4\n2,8,5\n"
    data = from_csv(write(text), time="t", target="y", kind="step-regression", duplicates="mean")
    assert (data.values.tolist(), data.y.tolist()) == ([[2], [5], [7]], [[1], [2], [4]])
    labels = text.replace("0,3,1.5", "0,3,b").replace("0,1,0.5", "0,1,a")
    with refused("line 3: target 'y' is b here and a in another row .* duplicates='keep'"):
        from_csv(write(labels), time="t", target="y", kind="step-classification", duplicates="mean")


def test_a_forecast_goes_on_by_the_step_between_different_stamps(write):
    path = write("t,y\n" + "".join(f"{i // 3},{i}.5\n" for i in range(30)))
    data, columns = read_csv_task(path, "t", "y", lookback=6, horizon=2, duplicates="keep")
    assert (columns.step, len(data)) == (1.0, 23)
    assert read_new(path, columns)[1]["t"].tolist() == [10.0, 11.0]


def test_decimal_commas(write):
    text = "when;a;b;y\n0,5;1,25;7;10\n1,5;-2,5;8;11\n2,5;3;9;12,5\n"
    want = [[1.25, 7.0], [-2.5, 8.0], [3.0, 9.0]]
    data = from_csv(write(text), time="when", target="y", kind="step-regression", decimal=",")
    assert (data.values.tolist(), data.time.tolist()) == (want, [0.5, 1.5, 2.5])
    assert data.y.flatten().tolist() == [10, 11, 12.5]
    excel = b"\xef\xbb\xbfsep=;\r\n" + text.replace("\n", "\r\n").encode()
    assert (
        from_csv(write(excel), time="when", target="y", kind="step-regression", decimal=",").digest == data.digest
    )


def test_decimal_commas_are_never_taken_for_text(write):
    for text, column in (
        ("t;a;y\n0,5;1;1\n1,5;2;2\n", "t"),
        ("t;a;y\n0;1,5;1\n1;2,5;2\n", "a"),
        ("t;a;y\n0;1;1,5\n1;2;2,5\n", "y"),
    ):
        with refused(f"line 2: column '{column}' holds '.,5', not .*if this is a decimal comma, say decimal=','"):
            from_csv(write(text), time="t", target="y")
    with refused("line 2: column 'a' holds '1.500'"):  # 1500, or 1.5
        from_csv(write("t;a;y\n0;1.500;1\n1;2,5;2\n"), time="t", target="y", features=["a"], decimal=",")
    with refused("decimal and separator are both ','"):
        from_csv(write("t,a,y\n0,1,1\n1,2,2\n"), time="t", target="y", decimal=",")
    damaged = "sep=;\nt;a;y\n0;1;1,5\n1;oops;2,5\n2;3;3\n"
    with refused("line 4: column 'a' holds 'oops'"):  # the line of Excel counts
        from_csv(write(damaged), time="t", target="y", features=["a"], decimal=",")


def test_names_become_inputs(write):
    with refused(r"column 'kind' holds 'cat', not .*categories=\['kind'\]"):
        pulse(write(PULSE), features=["pulse", "kind"])
    data = pulse(write(PULSE), categories=["kind"])
    assert data.features == ("pulse", "kind=cat", "kind=dog", "kind=owl")
    assert data.one_hot == (1, 2, 3)
    assert data.values[:, 1:].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert not any("Left out" in note for note in data.notes)
    digits = PULSE.replace("cat", "007").replace("dog", "7").replace("owl", "07")
    assert pulse(write(digits), categories=["kind"]).features[1:] == ("kind=007", "kind=07", "kind=7")


def test_names_of_new_files_are_those_of_training(write):
    _, columns = read_csv_task(write(PULSE), "second", "state", "who", categories=["kind"])
    assert Columns.from_dict(columns.to_dict()) == columns
    data, _ = read_new(write(PULSE.replace("owl", "eel").replace("cat", "dog"), "new.csv"), columns)
    assert data.features == columns.inputs
    assert data.values[:, 1:].tolist() == [[0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0], [0, 1, 0]]


def test_names_that_training_rows_lack_act_like_no_name(write):
    data = pulse(write(PULSE), categories=["kind"])
    network = TaskNetwork("sdpa", data.kind, 4, 2, d_model=8, num_heads=2, one_hot=data.one_hot)
    network.fit_scale(data, torch.tensor([1]))  # bob: dog and owl, no cat
    batch = data.batch(torch.tensor([0, 1])).x
    answers = [network(x, torch.arange(3.0)) for x in (batch, batch.index_fill(2, torch.tensor([1]), 0.0))]
    assert answers[0].equal(answers[1])
    nameless = network(batch.index_fill(2, torch.tensor([2]), 0.0), torch.arange(3.0))
    assert not nameless[1].equal(answers[0][1])


def test_a_forecast_knows_the_name_of_its_series(write):
    rows = [f"{g},{t},{t}.5,{name}" for g, name in ((0, "up"), (1, "down")) for t in range(9)]
    path = write("g,t,y,kind\n" + "\n".join(rows))
    data = from_csv(path, time="t", target="y", group="g", lookback=4, horizon=2, categories=["kind"])
    column = data.features.index("y")
    sizes = {"d_model": 8, "num_heads": 2, "relative_to": [column], "one_hot": data.one_hot}
    network = TaskNetwork("sdpa", data.kind, 3, 2, **sizes)
    network.fit_scale(data, torch.arange(len(data)))
    up, down = (data.batch(torch.tensor([i])) for i in (0, len(data) - 4))
    x = network.tokens(up.x, up.time).x
    assert x[0, :, list(data.one_hot)].eq(up.x[0, :, list(data.one_hot)]).all()
    assert not network(up.x, up.time).equal(network(down.x, up.time))


def test_categories_that_do_not_fit(write):
    path = write(PULSE)
    for categories, message in (
        ("kind", r"categories must be a list of columns, got 'kind'; write \['kind'\]"),
        (["kin"], "categories: .* no column 'kin'; did you mean 'kind'"),
        (["kind", "kind"], "categories must be different columns, got 'kind' twice"),
        (["state"], "time, target, group and categories must be different columns, got 'state' twice"),
        ([3], r"categories must be a list of columns, got \(3,\)"),
    ):
        with refused(message):
            pulse(path, categories=categories)
    many = "g,t,k,y\n" + "".join(f"{i % 2},{i},k{i},{i % 2}\n" for i in range(201))
    with refused("'k' of .* has 201 different names, at most 200 can be inputs"):
        from_csv(write(many), time="t", target="y", group="g", categories=["k"])
    for options, message in (
        ({"duplicates": "drop"}, "duplicates must be one of 'error', 'keep', 'mean', got 'drop'"),
        ({"decimal": ";"}, "decimal must be one of '.', ',', got ';'"),
    ):
        with refused(message):
            pulse(path, **options)
