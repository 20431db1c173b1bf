"""The page of the viewer in a real browser: Debian's Chromium, which .ci/run installs."""

import csv
import io
import os
import re
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from playwright.sync_api import expect, sync_playwright

import nacre
from nacre.inspect import Recording, record
from nacre.inspect.recording.run import record_run
from nacre.inspect.viewer.report import write_report
from support.drive import write_episodes, write_run
from support.viewer import Answers, serving

CHROMIUM = os.environ.get("NACRE_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium; .ci/run installs it"),
]
STEPS = 120


def small_layer(folder, seed, heads=2):
    torch.manual_seed(seed)
    layer = nacre.NAC(8, heads, d_input=2, backbone_units=20)
    with torch.no_grad():  # gates that move, as training makes them
        layer.backbone.weights.output_scale.mul_(4)
    x, time = torch.randn(2, STEPS, 2), torch.rand(2, STEPS).cumsum(1)
    return record(layer, x, time, out=folder)


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    recording = small_layer(tmp_path_factory.mktemp("one") / "seen", 0)
    with serving(recording) as port:
        yield f"http://127.0.0.1:{port}/", recording


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    with serving(small_layer(folder / "a", 1), small_layer(folder / "b", 2, heads=4)) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    torch.manual_seed(3)
    x, time = torch.randn(2, 60, 2), torch.rand(2, 60).cumsum(1)
    recording = record(Answers(), x, time, out=tmp_path_factory.mktemp("layers") / "seen")
    with serving(recording) as port:
        yield f"http://127.0.0.1:{port}/", recording


@pytest.fixture
def page(browser):
    """A page that fails the test if anything is said on its console, or asked of another host."""
    page = browser.new_page(viewport={"width": 1366, "height": 900})
    said, asked = [], []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:"))] == []


def open_page(page, address):
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]")
    return page


def wait(page, expression):
    """Until a JavaScript expression is true; not page.wait_for_function, which the page's own policy forbids."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def wait_for_numbers(page, expression, want, atol=1e-5):
    """Until a JavaScript expression gives these numbers."""
    for _ in range(200):
        got = np.array(page.evaluate(expression), float)
        if got.shape == want.shape and np.allclose(got, want, atol=atol):
            return
        page.wait_for_timeout(50)
    np.testing.assert_allclose(got, want, atol=atol)


def step_of(page):
    return int(page.locator("#step").input_value())


def neuron(page, name):
    return page.locator(f'circle[data-name="{name}"]').first


def points(locator):
    return [tuple(map(float, pair.split(","))) for pair in locator.get_attribute("points").split()]


def output_lines(page, kind):
    chart = page.locator(".chart", has=page.locator("b", has_text="Answer")).first
    return [points(line) for line in chart.locator(f"polyline.{kind}").all()]


def test_the_page_loads_and_hovering_names_a_neuron_and_shows_its_trace(page, one):
    open_page(page, one[0])
    assert page.locator("circle.neuron").count() == 3 * 4 + 20
    assert page.locator("svg polyline.intact").count() >= 6
    assert page.title() == "nacre: NAC"
    neuron(page, "command 2").hover()
    expect(page.locator(".inspector .who")).to_have_text("command 2")
    expect(page.locator(".inspector polyline.intact")).to_have_count(1)
    layer = one[1].layers["nac"]
    states = np.asarray(layer.array("states")[0, :, 0, layer.column("command", 2)])
    drawn = np.array(points(page.locator(".inspector polyline.intact")))
    assert len(drawn) == STEPS
    assert np.corrcoef(drawn[:, 1], states)[0, 1] < -0.999  # y goes down on a screen


def test_inputs_of_different_sizes_have_a_scale_each(page, tmp_path):
    x = torch.rand(1, 50, 3) * torch.tensor([1.0, 1.0, 1000.0])
    with serving(record(nacre.NAC(8, 1, d_input=3), x, out=tmp_path / "look")) as port:
        open_page(page, f"http://127.0.0.1:{port}/")
        heights = page.evaluate(
            "[...nacre.views[0].charts.input.svg.querySelectorAll('polyline')].map(line => line.getBBox().height)"
        )
        assert len(heights) == 3
        assert min(heights) > 0.9 * max(heights)
        expect(page.locator(".chart .title").first).to_contain_text("Input, a scale each")


def test_play_moves_the_slider_and_the_neurons_and_pause_or_the_last_step_stops_it(page, one):
    open_page(page, one[0])
    fills = "[...document.querySelectorAll('circle.neuron')].map((dot) => dot.getAttribute('fill')).join()"
    before = page.evaluate(fills)
    page.locator("#speed").select_option("50")
    page.locator("#play").click()
    wait(page, "Number(document.getElementById('step').value) > 10")
    assert page.evaluate(fills) != before
    page.locator("#play").click()
    page.wait_for_timeout(100)
    stopped = step_of(page)
    page.wait_for_timeout(300)
    assert step_of(page) == stopped
    assert page.locator("#now").inner_text().startswith(f"step {stopped} of {STEPS - 1}")
    page.locator("#speed").select_option("1000")
    page.locator("#play").click()
    wait(page, f"document.getElementById('step').value == {STEPS - 1}")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    box = page.locator(".chart svg").nth(2).bounding_box()  # a click on a curve goes there
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 20)
    wait(page, f"document.getElementById('step').value < {STEPS - 1}")
    assert 30 < step_of(page) < 90


def test_a_click_silences_a_neuron_and_the_answer_changes_and_another_click_undoes_it(page, one):
    open_page(page, one[0])
    assert output_lines(page, "lesioned") == []
    neuron(page, "value 1").click()
    page.wait_for_selector("polyline.lesioned")
    intact, changed = output_lines(page, "intact"), output_lines(page, "lesioned")
    assert len(intact) == len(changed) == 8
    assert any(np.abs(np.array(a) - np.array(b)).max() > 1 for a, b in zip(intact, changed, strict=True))
    expect(page.locator(".lesions button")).to_have_text(["value 1, head 0 ✕"])
    with page.expect_download() as got:
        page.locator("#save-svg").click()
    assert "silent: value 1, head 0<" in got.value.path().read_text(encoding="utf-8")
    assert page.locator("path.silent").count() == 1
    neuron(page, "value 1").click()
    expect(page.locator("polyline.lesioned")).to_have_count(0)
    expect(page.locator(".lesions button")).to_have_count(0)


def test_a_motor_neuron_flattens_its_gate_only_and_a_group_and_a_synapse_can_be_silenced(page, one):
    open_page(page, one[0])
    neuron(page, "motor 0 (φ)").click()
    page.wait_for_selector("polyline.lesioned")

    def heights(title):
        chart = page.locator(".chart", has=page.locator("b", has_text=title)).first
        return {y for _, y in points(chart.locator("polyline.lesioned"))}

    assert len(heights("φ, content target")) == 1
    assert len(heights("ω, decay rate")) > 10
    page.keyboard.press("Escape")
    expect(page.locator("polyline.lesioned")).to_have_count(0)
    page.locator('text[data-group="inter"]').click()
    expect(page.locator(".lesions button")).to_have_text(["all inter, head 0 ✕"])
    page.wait_for_selector("polyline.lesioned")
    page.keyboard.press("Escape")
    expect(page.locator(".lesions button")).to_have_count(0)
    neuron(page, "motor 1 (ω)").hover()
    page.locator(".inspector .synapses button").first.click()
    expect(page.locator(".lesions button")).to_have_count(1)
    assert "→" in page.locator(".lesions button").inner_text()
    page.wait_for_selector("polyline.lesioned")


def test_figures_and_numbers_are_saved(page, one):
    open_page(page, one[0])
    page.keyboard.press("ArrowRight")
    with page.expect_download() as got:
        page.locator("#save-svg").click()
    text = got.value.path().read_text(encoding="utf-8")
    assert got.value.suggested_filename == "nacre-step-1.svg"
    tree = ET.fromstring(text)
    assert len([e for e in tree.iter() if e.get("class") == "neuron"]) == 32
    assert "content target" in text
    assert "style=" not in text  # looks the same anywhere
    with page.expect_download() as got:
        page.locator("#save-png").click()
    assert got.value.path().read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with page.expect_download() as got:
        page.locator("#save-csv").click()
    rows = list(csv.DictReader(io.StringIO(got.value.path().read_text(encoding="utf-8"))))
    phi = [float(row["value"]) for row in rows if row["what"] == "gate" and row["name"] == "phi"]
    layer = one[1].layers["nac"]
    np.testing.assert_allclose(phi, np.asarray(layer.array("gates")[0, :, 0, layer.gates.index("phi")]), atol=1e-5)
    states = [float(row["value"]) for row in rows if row["what"] == "state"]
    np.testing.assert_allclose(states, np.asarray(layer.array("states")[0, 1, 0]), atol=1e-5)


def test_sample_layer_and_head_can_be_chosen(page, layers):
    address, recording = layers
    open_page(page, address)
    page.keyboard.press("End")

    def wait_for(sample, layer, head):
        gates = np.asarray(recording.layers[layer].array("gates")[sample, 59, head])
        wait_for_numbers(page, "nacre.views[0].row.gates", gates)

    wait_for(0, "first", 0)
    assert page.locator('[data-choose="layer"] option').all_inner_texts() == ["first", "second"]
    page.locator('[data-choose="head"]').select_option("2")
    wait_for(0, "first", 2)
    page.locator('[data-choose="layer"]').select_option("1")
    expect(page.locator("circle.neuron")).to_have_count(3 * 6 + 22)
    wait_for(0, "second", 0)
    page.locator("#sample").select_option("1")
    wait_for(1, "second", 0)


def promises_no_click(page, why):
    """Nothing says that neurons can be silenced, nor looks like it."""
    neuron(page, "inter 0").click()
    expect(page.locator(".lesions")).to_be_empty()
    page.locator("#help").click()
    expect(page.locator("#silencing")).to_contain_text(why)
    assert page.locator("circle.neuron").first.evaluate("dot => getComputedStyle(dot).cursor") != "pointer"
    assert page.locator(".synapses button").count() == 0
    said = page.locator("body").inner_text() + page.locator("main").inner_html()
    assert not re.search("click it|silence all|cut this synapse|Enter silences", said)


def test_a_model_that_was_not_kept_can_be_looked_at_but_not_silenced(page, layers):
    open_page(page, layers[0])
    promises_no_click(page, "This recording holds no model")


def test_two_runs_stand_side_by_side_and_move_together(page, pair):
    open_page(page, pair)
    assert page.locator(".view").count() == 2
    boxes = [page.locator(".view").nth(i).bounding_box() for i in (0, 1)]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    page.keyboard.press("End")
    wait(page, f"nacre.views.every((view) => view.step === {STEPS - 1} && view.row)")
    assert page.evaluate("nacre.views.map((view) => view.seen.heads)") == [2, 4]
    page.locator(".view").nth(1).locator('[data-choose="head"]').select_option("3")
    wait(page, "nacre.views[1].head === 3 && nacre.views[0].head === 0")
    page.locator(".view").nth(1).locator('circle[data-name="value 0"]').click()
    page.wait_for_selector(".view:nth-child(2) polyline.lesioned")
    assert page.locator(".view").nth(0).locator("polyline.lesioned").count() == 0


def test_everything_can_be_done_with_keys(page, one):
    open_page(page, one[0])
    press = page.keyboard.press
    press("ArrowRight")
    press("Shift+ArrowRight")
    wait(page, "document.getElementById('step').value == 11")
    press("ArrowLeft")
    wait(page, "document.getElementById('step').value == 10")
    press("End")
    wait(page, f"document.getElementById('step').value == {STEPS - 1}")
    press("Home")
    wait(page, "document.getElementById('step').value == 0")
    press(" ")
    wait(page, "document.getElementById('step').value > 2")
    press(" ")
    press("h")
    wait(page, "nacre.views[0].head === 1")
    press("+")
    wait(page, f"nacre.views[0].stop - nacre.views[0].start === {STEPS // 2}")
    press("-")
    wait(page, f"nacre.views[0].stop - nacre.views[0].start === {STEPS}")
    press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.locator(".circuit svg").focus()
    for _ in range(6):
        press("ArrowRight")
    expect(page.locator(".inspector .who")).to_have_text("motor 0 (φ)")
    press("ArrowDown")
    expect(page.locator(".inspector .who")).to_have_text("motor 1 (ω)")
    press("Enter")
    expect(page.locator(".lesions button")).to_have_text(["motor 1 (ω), head 1 ✕"])
    press("Escape")
    expect(page.locator(".lesions button")).to_have_count(0)


def test_light_and_dark(browser, one):
    for scheme, ground in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 26)")):
        page = browser.new_page(color_scheme=scheme)
        open_page(page, one[0])
        colour = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(colour) == ground
        page.keyboard.press("t")
        assert page.evaluate(colour) != ground
        page.reload()
        page.wait_for_selector("body[data-ready=yes]")
        assert page.evaluate(colour) != ground  # it is remembered
        page.close()


def test_nothing_sticks_out_on_a_phone_a_tablet_and_a_laptop(browser, pair):
    inside = """[...document.querySelectorAll('.circuit svg circle, .circuit svg text')].every((part) => {
      const box = part.getBoundingClientRect(), frame = part.ownerSVGElement.getBoundingClientRect();
      return box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.bottom <= frame.bottom + 1; })"""
    for width in (360, 820, 1366):
        page = browser.new_page(viewport={"width": width, "height": 780})
        open_page(page, pair)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert page.evaluate(inside), width
        page.close()


def test_a_drive_shows_the_frame_of_each_step_and_what_is_decided(page, tmp_path):
    write_episodes(tmp_path / "carracing", steps=30)
    recording = record_run(write_run(tmp_path / "run"), 1, data_dir=tmp_path)
    with serving(recording) as port:
        open_page(page, f"http://127.0.0.1:{port}/")
        picture = page.locator("img.picture")
        wait(page, "document.querySelector('img.picture').naturalWidth === 96")
        seen = picture.get_attribute("src")
        page.keyboard.press("End")
        wait(page, "nacre.views[0].step === nacre.views[0].length - 1")
        assert picture.get_attribute("src") != seen
        names = page.locator(".answers tr").first.locator("th").all_inner_texts()
        assert names == ["", "coast", "right", "left", "gas", "brake"]
        assert page.locator("path.arc").count() == 4
        neuron(page, "value 0").click()
        page.wait_for_selector("polyline.lesioned")
        assert page.locator(".answers tr").count() == 4  # names, answer, with the lesion, truth
        with page.expect_download() as got:
            page.locator("#save-svg").click()
        assert "data:image/png;base64," in got.value.path().read_text(encoding="utf-8")
        write_report([recording], tmp_path / "report.html")
        open_page(page, (tmp_path / "report.html").as_uri())
        wait(page, "document.querySelector('img.picture').naturalWidth === 96")


def test_a_server_that_is_gone_is_told(browser, one):
    page = browser.new_page()
    with serving(one[1]) as port:
        open_page(page, f"http://127.0.0.1:{port}/")
    page.locator("#sample").select_option("1")
    expect(page.locator("#problem")).to_contain_text("is `nacre view` still running?")
    page.close()


def test_a_report_is_the_same_page_in_one_file(page, one, tmp_path):
    recording = Recording(one[1].path)
    write_report([recording], tmp_path / "report.html", sample=1)
    open_page(page, (tmp_path / "report.html").as_uri())
    assert page.locator("circle.neuron").count() == 32
    page.keyboard.press("End")
    states = np.asarray(recording.layers["nac"].array("states")[1, -1, 0])
    wait_for_numbers(page, "nacre.views[0].row.states", states, atol=0.01)
    wait_for_numbers(page, "nacre.views[0].row.input", np.asarray(recording.array("x")[1, -1]))
    page.locator('[data-choose="head"]').select_option("1")
    wait(page, "nacre.views[0].head === 1 && nacre.views[0].row")
    neuron(page, "inter 3").hover()
    expect(page.locator(".inspector polyline.intact")).to_have_count(1)
    promises_no_click(page, "This file cannot run the model")
    with page.expect_download() as got:
        page.locator("#save-svg").click()
    assert ET.fromstring(got.value.path().read_text(encoding="utf-8")).tag.endswith("svg")
