"""Clock neurons on the page of the viewer: its data, its lesions, and the page itself."""

import math
import os
import shutil

import numpy as np
import pytest
import torch
from playwright.sync_api import expect, sync_playwright

import nacre
from nacre.inspect import Lesion, record
from nacre.inspect.analysis.rerun import Rerun
from nacre.inspect.viewer.report import write_report
from nacre.inspect.viewer.source import ViewerSource
from support.viewer import ask, one_layer, post, serving

CHROMIUM = os.environ.get("NACRE_CHROMIUM") or shutil.which("chromium")
CLOCK, EACH, STEPS = 3, 4, 60


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """A layer with a clock, its recording, and the port of a viewer of it and of a layer without one."""
    torch.manual_seed(0)
    options = {"clock": CLOCK, "match": "start", "near": 4, "phi": "linear", "sensory_activation": "identity"}
    layer = nacre.NAC(2 * EACH, 2, d_input=2, backbone_units=16, time_scale=0.5, **options).eval()
    with torch.no_grad():
        layer.backbone.weights.output_scale.mul_(4)
    folder = tmp_path_factory.mktemp("clock")
    x, time = torch.randn(1, STEPS, 2), torch.rand(1, STEPS).cumsum(1) + 7
    recording = record(layer, x, time, out=folder / "seen")
    with serving(recording, one_layer(folder / "plain")) as port:
        yield layer, recording, port


def test_the_clock_is_a_group_between_values_and_inter_neurons(seen):
    _, recording, port = seen
    first, second = (run["layers"][0] for run in ask(port, "/api/about").data["runs"])
    assert [group for group, _ in first["groups"]] == [
        "query",
        "key",
        "value",
        "clock",
        "inter",
        "command",
        "motor",
    ]
    assert dict(first["groups"])["clock"] == 2 * CLOCK
    assert (first["clock"], first["timed"]) == ([0.125, 0.5, 2.0], True)
    assert [group for group, _ in second["groups"]] == ["query", "key", "value", "inter", "command", "motor"]
    assert second["clock"] == []
    steps = ask(port, "/api/steps?head=1&start=3&stop=9").data["states"]
    want = np.asarray(recording.layers["nac"].array("states")[0, 3:9, 1])
    np.testing.assert_allclose(steps, want, atol=1e-5)


def test_synapses_begin_at_clock_neurons(seen):
    layer, recording, port = seen
    for head in range(2):
        circuit = ask(port, f"/api/circuit?head={head}").data
        names, wiring = recording.layers["nac"].neurons, layer.backbone.wiring
        drive = layer.backbone.weights.drive()[0][head].detach()
        heard = 0
        for source, target, weight in zip(circuit["source"], circuit["target"], circuit["weight"], strict=True):
            (group, i), (to, j) = names[source], names[target]
            if group in ("query", "key", "clock"):
                row = i + {"query": 0, "key": EACH, "clock": 2 * EACH}[group]
                assert weight == pytest.approx(float(drive[row, wiring.group(to)[j]]), abs=1e-4)
                heard += group == "clock"
        assert heard == np.count_nonzero(wiring.input_adjacency[2 * EACH :])


def test_clock_neurons_can_be_silenced(seen):
    _, recording, port = seen
    rerun = Rerun(recording, 0)
    wanted = {Lesion("clock", 4, 0): {"index": 4, "head": 0}, Lesion("clock", head=1): {"head": 1}}
    to = np.flatnonzero(recording.layers["nac"].wiring.input_adjacency[2 * EACH])[0]
    target = recording.layers["nac"].wiring.group("inter").index(to)
    cut = {"index": 0, "target": {"group": "inter", "index": target}}
    wanted[Lesion("clock", 0, target=("inter", target))] = cut
    for lesion, data in wanted.items():
        got = post(port, [{"group": "clock", **data}]).data
        output = rerun.outputs([lesion]).curve[0]
        assert (output - rerun.outputs().curve[0]).abs().max() > 1e-4
        np.testing.assert_allclose(np.array([c["mean"] for c in got["output"]]).T, output, atol=1e-4)
        gates = rerun.gates([lesion], "nac")[:, 0]
        np.testing.assert_allclose(np.array([c["mean"] for c in got["gates"]]).T, gates, atol=1e-3)


def test_what_a_layer_does_not_have_cannot_be_silenced(seen):
    port = seen[2]
    for lesion in ({"group": "clock"}, {"group": "clock", "index": 0}):
        reply = post(port, [lesion], "run=1")
        assert (reply.status, reply.error) == (
            400,
            "group must be one of query, key, value, inter, command, motor",
        )
    assert post(port, [{"group": "clock", "index": 6}]).error == (
        "index must be from 0 to 5 among the clock neurons"
    )


@pytest.fixture
def page(seen):
    """A page that fails the test if anything is said on its console."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1366, "height": 1100})
        said = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        yield page
        browser.close()
    assert said == []


def curve(page):
    chart = page.locator(".inspector").first.locator(
        ".chart", has=page.locator("b", has_text="State over elapsed time")
    )
    return [tuple(map(float, p.split(","))) for p in chart.locator("polyline").get_attribute("points").split()]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium; .ci/run installs it")
def test_the_page_shows_the_clock_and_its_curves_and_silences_it(page, seen, tmp_path):
    _, recording, port = seen
    write_report([recording], tmp_path / "report.html")
    for address in ((tmp_path / "report.html").as_uri(), f"http://127.0.0.1:{port}/"):
        page.goto(address)
        page.wait_for_selector("body[data-ready=yes]")
        expect(page.locator('text[data-group="clock"]').first).to_contain_text("clock 6")
        assert page.locator('circle[data-name^="clock"]').count() == 2 * CLOCK  # of the first run only
        page.locator("#step").fill("30")
        for index, wave, turn in ((1, "Cosine", 0.5), (5, "Sine", 2.0)):
            page.locator(f'circle[data-name="clock {index}"]').first.hover()
            note = page.locator(".inspector").first.locator(".note")
            expect(note).to_have_text(
                f"{wave} of the time from key to query, one turn in {2 * math.pi * turn:.4g}"
            )
            drawn = np.array(curve(page))
            row = ViewerSource(recording).steps(0, "nac", 0, 30, 31)
            kept = [at for at, w in zip(row["keyTime"][0], row["weights"][0], strict=True) if w is not None]
            elapsed = row["time"][0] - np.array([*kept, row["time"][0]])
            x = np.interp(drawn[:, 0], drawn[[0, -1], 0], [elapsed.min(), elapsed.max()])
            states = np.cos(x / turn) if wave == "Cosine" else np.sin(x / turn)
            assert np.corrcoef(drawn[:, 1], states)[0, 1] < -0.999  # y goes down on a screen
        page.locator('circle[data-name="inter 1"]').first.hover()
        expect(page.locator(".inspector").first.locator(".note")).to_have_count(0)
    page.locator('text[data-group="clock"]').first.click()
    expect(page.locator(".lesions button").first).to_have_text("all clock, head 0 ✕")
    page.wait_for_selector("polyline.lesioned")
    assert page.locator("path.silent").count() == 2 * CLOCK
    page.keyboard.press("Escape")
    expect(page.locator("polyline.lesioned")).to_have_count(0)
    page.locator('circle[data-name="clock 2"]').first.click()
    expect(page.locator(".lesions button").first).to_have_text("clock 2, head 0 ✕")
    page.wait_for_selector("polyline.lesioned")
