"""Reading result files."""

import json
import math

import pytest

from nacre.train.report.results import find_results
from support.runs import fields, write_folds, write_run


def test_a_result_is_read_with_what_tables_need(tmp_path):
    changes = {"classes": ["a", "b"], "confusion": [[3, 1], [0, 2]], "parameters": 7, "train": 80, "test": 20}
    directory = write_run(tmp_path, "cfc-ncp", 2, 5, 0.25, metrics={"mse": 0.25, "mae": 0.4}, **changes)
    (result,) = find_results(tmp_path).results
    assert (result.task, result.model, result.fold, result.seed, result.folds) == ("ettm1", "cfc-ncp", 2, 5, 5)
    assert (result.metric, result.better, result.value, result.parameters) == ("mse", "lower", 0.25, 7)
    assert (result.profile, result.steps, result.batch_size, result.form) == ("quick", 300, 64, "official")
    assert (result.train, result.test, result.seconds, result.control) == (80, 20, 61.2, False)
    assert (result.data, result.recipe, result.split) == ("d" * 64, "c" * 64, "split2")
    assert (result.classes, result.confusion) == (("a", "b"), ((3, 1), (0, 2)))
    assert result.directory == directory
    assert (result.number("mse"), result.number("mae"), result.number("r2")) == (0.25, 0.4, None)


def test_results_are_found_at_any_depth_and_by_task(tmp_path):
    write_folds(tmp_path, "nac", [0.1, 0.2])
    write_folds(tmp_path / "more", "nac", [0.3], task="jena")
    assert len(find_results(tmp_path).results) == 3
    assert [r.value for r in find_results(tmp_path, "jena").results] == [0.3]
    assert [r.value for r in find_results(tmp_path / "ettm1" / "nac").results] == [0.1, 0.2]


def test_a_diverged_run_has_no_number(tmp_path):
    for value in (math.nan, math.inf, None):
        write_run(tmp_path, value=value, metrics={"mse": value, "mae": 0.1})
        (result,) = find_results(tmp_path).results
        assert result.diverged, value
        assert math.isnan(result.number("mse")), value
        assert math.isnan(result.number("mae")), value


def without(data, *path):
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return json.dumps(data)


DAMAGED = {
    "half a file": json.dumps(fields())[:100],
    "nothing": "",
    "no text": b"\xff\xfe\x00\x9f",
    "a list": "[1, 2]",
    "deep": "[" * 100_000,
    "another format": json.dumps(fields(format=3)),
    "no value": without(fields(), "value"),
    "no steps": without(fields(), "budget", "steps"),
    "no digest": without(fields(), "data", "digest"),
    "a word as value": json.dumps(fields(value="good")),
    "a word as fold": json.dumps(fields(fold="first")),
    "a negative fold": json.dumps(fields(fold=-1)),
    "a flag as seed": json.dumps(fields(seed=True)),
    "no direction": json.dumps(fields(better="sideways")),
    "a ragged confusion": json.dumps(fields(classes=["a", "b"], confusion=[[1, 2], [3]])),
    "a word among counts": json.dumps(fields(classes=["a"], confusion=[["b"]])),
    "too small a confusion": json.dumps(fields(classes=["a", "b"], confusion=[[1]])),
    "metrics in a list": json.dumps(fields(metrics=[0.1])),
}


def test_a_damaged_file_is_named_and_left_out(tmp_path):
    write_run(tmp_path, "sdpa")
    path = write_run(tmp_path, "nac") / "result.json"
    for name, text in DAMAGED.items():
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = find_results(tmp_path)
        assert [r.model for r in found.results] == ["sdpa"], name
        (line,) = found.damaged
        assert line.startswith(f"left out: {path} is damaged: "), name


def test_no_results_say_how_to_make_some(tmp_path):
    for directory in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=f"no results under {directory}; `nacre train TASK -m nac`"):
            find_results(directory)


def test_only_damaged_results_are_named_in_the_error(tmp_path):
    (write_run(tmp_path) / "result.json").write_text("{")
    with pytest.raises(FileNotFoundError, match="(?s)makes some.*left out: .*fold0-seed0/result.json is damaged"):
        find_results(tmp_path)


def test_an_unknown_task_gets_the_nearest_one(tmp_path):
    write_run(tmp_path)
    write_run(tmp_path, task="jena")
    with pytest.raises(ValueError, match="'etm1' .*did you mean 'ettm1'. There are ettm1, jena"):
        find_results(tmp_path, "etm1")
