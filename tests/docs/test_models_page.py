"""docs/models.md says what the registry and the measurements say."""

import json
import re
from pathlib import Path

import pytest

import nacre

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import models_page

    return models_page


def test_the_tables_of_the_page_are_the_registry(page):
    assert page.page() == page.PAGE.read_text(), "run tools/models_page.py"
    assert sorted(re.findall(r"<!-- table: ([a-z-]+) -->", page.PAGE.read_text())) == sorted(page.TABLES)
    for name in nacre.list_models():
        assert f"| `{name}` |" in page.models()


def test_the_committed_figures_have_no_model_slower_than_its_counterpart():
    """What was measured once; `python tools/bench_counterparts.py` measures anew."""
    measured = json.loads((ROOT / "results" / "counterparts.json").read_text())
    assert re.fullmatch("[0-9a-f]{40}", measured["provenance"]["commit"])
    speedup = {
        (row["model"], row["batch"], key): row[key]["speedup"]
        for row in measured["results"]
        for key in row
        if isinstance(row[key], dict)
    }
    for (name, batch, key), value in speedup.items():
        assert value > 0.95, (name, batch, key)  # rounding and noise of machines that are shared
        if key == "forward" and name in ("ltc-fc", "ltc-ncp", "cfc-fc", "cfc-ncp"):
            assert value >= 3, (name, batch)


@pytest.mark.parametrize("name", [n for n in nacre.list_models() if nacre.model_info(n).kind != "NAC"])
def test_every_model_is_on_the_page_of_classes(name):
    model = type(nacre.create(name, d_input=5, d_model=8, num_heads=2))
    page = (ROOT / "docs" / "model-classes.md").read_text()
    assert f"::: {model.__module__}.{model.__name__}\n" in page
