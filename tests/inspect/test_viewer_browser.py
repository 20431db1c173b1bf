"""The page of the viewer in a real browser: one recording, looked at and changed."""

import csv
import io
import xml.etree.ElementTree as ET

import numpy as np
import torch
from playwright.sync_api import expect

import nacre
from nacre.inspect import record
from support.browser import NEEDED, STEPS, neuron, open_page, output_lines, points, step_of, wait
from support.viewer import serving

pytestmark = NEEDED


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
