"""Data as CSV, JSON and tables."""

import csv
import io
import json
import math

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from nacre._util.text import console_table, csv_text, json_text, markdown_rows
from support.hypothesis import examples

cells = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4) | st.sampled_from(['"', "a,b", "\n"])


@examples(50)
@given(st.lists(st.tuples(cells, cells), max_size=4))
def test_csv_reads_back(rows):
    text = csv_text(["x", "y"], rows)
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["x", "y"], *map(list, rows)]
    assert csv_text(["x", "y"], [{"y": y, "x": x, "z": 0} for x, y in rows]) == text


def test_csv_of_a_mapping_that_lacks_a_column_has_an_empty_cell():
    assert csv_text(["a", "b"], [{"a": 1}]) == "a,b\n1,\n"


def test_json_has_null_where_a_number_is_not_finite():
    data = {"a": [1.5, math.nan, (math.inf, {"b": -math.inf})], "c": "nan", "d": True, "e": None}
    text = json_text(data)
    assert text.endswith("}\n")
    assert json.loads(text) == {"a": [1.5, None, [None, {"b": None}]], "c": "nan", "d": True, "e": None}


def test_markdown_escapes_what_would_end_a_cell():
    lines = markdown_rows(["name", "a|b"], [["x|y", "1"], ["z", "2"]]).splitlines()
    assert lines == ["| name | a\\|b |", "| :-- | --: |", "| x\\|y | 1 |", "| z | 2 |"]


def test_a_console_table_sets_text_left_and_numbers_right():
    table = console_table(["name", "note", "score"], title="Scores", caption="of one run", left=["note"])
    table.add_row("a", "b", "1")
    table.add_row("longer", "longest", "10000")
    console = Console(file=io.StringIO(), width=60)
    console.print(table)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines[0] == "Scores"
    assert lines[-1].strip() == "of one run"
    assert "a       b            1" in [line.strip() for line in lines]
