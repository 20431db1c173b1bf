"""A demo with few steps, and its report."""

import base64
import io
import json
from html.parser import HTMLParser

import pytest
from rich.console import Console

from nacre.demo import report, run
from nacre.models import create
from support.demo import make_small

pytestmark = pytest.mark.slow  # all of them look at one demo

FILES = ["report.html", "result.json", "spirals.png", "losses.png", "circuit.png", "trace.png"]
STEPS = 60
MODELS = ["nac-plus", "sdpa", "cfc-fc", "nac"]
CONTROLS = ["straight lines, then last point held", "average training spiral of its family"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        return run.run_demo(tmp_path_factory.mktemp("demo") / "sub", steps=STEPS)


@pytest.fixture(scope="module")
def page(result):
    return Page(result.files[0].read_text())


class Page(HTMLParser):
    """Tags with attributes, text, and whether every tag is closed."""

    def __init__(self, source):
        super().__init__()
        self.source, self.tags, self.text, self.open = source, [], "", []
        self.feed(source)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_it_writes_its_files_and_no_others(result):
    assert [f.name for f in result.files] == FILES
    assert sorted(f.name for f in result.files[0].parent.iterdir()) == sorted(FILES)
    for figure in result.files[2:]:
        assert figure.read_bytes().startswith(b"\x89PNG")
        assert figure.stat().st_size > 10_000


def test_every_model_learns(result):
    assert list(result.models) == list(result.losses) == list(result.seconds) == MODELS
    for model, losses in result.losses.items():
        assert losses["step"][-1] == STEPS, model
        for part in ("train_loss", "valid_loss"):
            assert len(losses[part]) == 20, model
            assert losses[part][-1] < 0.9 * losses[part][0], (model, part)
        assert result.seconds[model] > 0, model


def test_parameters_are_counted(result):
    shared = {size["all"] - size["layer"] for size in result.parameters.values()}
    assert len(shared) == 1
    for model, size in result.parameters.items():
        layer = create(model, d_input=16, d_model=16, num_heads=2)
        assert size["layer"] == sum(p.numel() for p in layer.parameters()), model


def test_result_json_equals_the_result(result):
    stored = json.loads(result.files[1].read_text())
    assert stored == result.to_dict()
    assert stored["settings"] == {"seed": 1, "steps": STEPS, "spread": 0.02}
    assert set(stored["versions"]) == {"nacre", "torch"}
    assert list(stored["controls"]) == CONTROLS


def test_the_report_stands_alone(page, result):
    assert page.open == []
    assert "://" not in page.source
    assert "//" not in "".join(v or "" for tag, a in page.tags for v in a.values() if tag != "img")
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "a", "object"})
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert all(image["alt"] for image in images)
    head = "data:image/png;base64,"
    assert all(image["src"].startswith(head) for image in images)
    stored = [base64.b64decode(image["src"].removeprefix(head)) for image in images]
    assert stored == [f.read_bytes() for f in result.files[2:]]


def test_the_report_holds_all_numbers(page, result):
    rows = {**result.models, **result.controls}
    assert list(rows) == [*MODELS, *CONTROLS]
    for name, errors in rows.items():
        assert name in page.text
        for metric in ("mse", "mae"):
            for value in errors[metric].values():
                assert f"{value:.5f}" in page.text
    for size in result.parameters.values():
        assert f"{size['all']:,} ({size['layer']:,})" in page.text


def test_the_report_says_what_it_is_about(page, result):
    versions = f"nacre {result.versions['nacre']}, torch {result.versions['torch']}"
    assert f"seed 1, steps {STEPS}, spread 0.02, {versions}" in page.text
    assert "On 6 test spirals, in units of the answers' standard deviation" in page.text
    assert "the 18 training spirals" in page.text
    for model, said in (("sdpa", "knows time only from its inputs"), ("cfc-fc", "never looks ahead")):
        about = page.text.partition(f"{model}:")[2][:150]
        assert said in about, model
    assert "chosen on spirals of other seeds (0, and 100 and up), not on the spirals shown" in page.text


def test_the_lowest_of_a_column_is_bold(page, result):
    bold = page.source.split("<tbody>")[1].split("</tbody>")[0].count("<b>")
    assert bold == 4
    rows = {**result.models, **result.controls}.values()
    assert f"<b>{min(r['mae']['extrapolation'] for r in rows):.5f}</b>" in page.source


def test_the_console_table_fits(result):
    for width, has_mae in ((80, False), (140, True)):
        screen = io.StringIO()
        report.print_table(result, Console(width=width, file=screen))
        text = screen.getvalue()
        assert max(map(len, text.splitlines())) <= width
        assert ("MAE" in text) == has_mae, width
        flat = " ".join(text.split())
        assert "other seeds (0, and 100 and up), not on the spirals shown" in flat
        assert "…" not in flat
        for name, errors in result.models.items():
            assert f"{name} " in flat
            assert f"{errors['mse']['extrapolation']:.5f}" in flat
