"""The paper's table, as quoted."""

import pytest

import nacre
from nacre.train.report import paper
from nacre.train.report.paper import COLUMNS, paper_column, paper_models, reported

# Read off the paper by eye.
QUOTED = {
    ("ct-rnn", "event-mnist"): "95.18 ± 0.20",
    ("ct-rnn", "HUST"): "39.99 ± 6.33",
    ("ltc-fc", "event-mnist"): "95.25 ± 0.00",
    ("cfc-fc", "ettm1"): "0.5884 ± 0.3023",
    ("cfc-ncp", "jena"): "0.8972 ± 0.2534",
    ("cfc-ncp", "carracing"): "80.73 ± 0.22",
    ("deepstate", "jena"): "0.0160 ± 0.0003",
    ("linear-attention", "XJTU-SY"): "87.80 ± 19.52",
    ("phased-lstm", "jena"): "0.0700 ± 0.0004",
    ("cta", "PRONOSTIA"): "39.16 ± 3.54",
    ("contiformer", "udacity"): "0.0174 ± 0.0013",
    ("ot-transformer", "person-activity"): "89.49 ± 0.52",
    ("pde-attention", "carracing"): "71.53 ± 10.76",
    ("nac-2k", "person-activity"): "89.70 ± 0.98",
    ("nac-09s", "ettm1"): "0.0308 ± 0.0013",
    ("nac-02s", "HUST"): "38.90 ± 6.43",
    ("nac-phi-linear", "ettm1"): "0.0273 ± 0.0006",
    ("nac-phi-tanh", "carracing"): "80.60 ± 0.06",
    ("nac-05sfc", "udacity"): "0.0263 ± 0.0039",
    ("nac-rw", "event-mnist"): "95.99 ± 0.47",
    ("nac-steady", "HUST"): "37.12 ± 12.43",
    ("nac", "XJTU-SY"): "22.87 ± 1.75",
    ("nac", "carracing"): "80.59 ± 1.82",
}


def test_cells_are_quoted_as_printed():
    assert {cell: str(reported(*cell)) for cell in QUOTED} == QUOTED


def test_every_model_of_the_paper_has_all_nine_columns():
    assert len(COLUMNS) == 9
    assert {*paper_models()} == {name for name in nacre.list_models() if nacre.model_info(name).in_paper}
    assert not nacre.model_info("nac-plus").in_paper  # which is ours
    for model in paper_models():
        assert all(reported(model, column.name) is not None for column in COLUMNS)


def test_baselines_come_before_the_nac_family():
    kinds = [model.startswith("nac") for model in paper_models()]
    assert kinds == sorted(kinds)
    assert len({*kinds}) == 2


def test_metrics_of_a_column_have_its_magnitude():
    ranges = {"accuracy": (70, 97), "mse": (0.01, 1), "score": (20, 100)}
    for column in COLUMNS:
        low, high = next(ends for unit, ends in ranges.items() if unit in column.metric)
        means = [reported(model, column.name).mean for model in paper_models()]
        assert low < min(means) <= max(means) < high
        assert (column.better == "higher") == (column.metric == "accuracy")


def test_models_that_the_paper_lacks_have_no_metric():
    assert reported("persistence", "ettm1") is None


def test_an_unknown_column_gets_the_nearest_one():
    with pytest.raises(ValueError, match="did you mean 'ettm1'"):
        reported("nac", "etm1")


def test_columns_are_found_by_what_recipes_call_them():
    assert paper_column("jena").name == "jena"
    assert paper_column("bearings") is None  # three columns
    assert paper_column("") is None


def test_the_table_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paper._cells.cache_clear()
    assert reported("nac", "jena").mean == 0.0149
