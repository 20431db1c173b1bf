"""The page of the viewer in a real browser: several layers and runs, small windows, drives, reports."""

import xml.etree.ElementTree as ET

import numpy as np
from playwright.sync_api import expect

from nacre.inspect import Recording
from nacre.inspect.recording.run import record_run
from nacre.inspect.viewer.report import write_report
from support.browser import NEEDED, STEPS, neuron, open_page, promises_no_click, wait, wait_for_numbers
from support.drive import write_episodes, write_run
from support.viewer import serving

pytestmark = NEEDED


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
