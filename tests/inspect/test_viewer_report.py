"""A report is one file that needs nothing else, and holds the sample that it shows."""

import base64
import io
import json
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

from nacre.inspect import record
from nacre.inspect.recording.description import Description
from nacre.inspect.viewer import command as view
from nacre.inspect.viewer import report as module
from nacre.inspect.viewer.app import SCRIPTS, page_file
from nacre.inspect.viewer.command import ViewOptions, open_recording
from nacre.inspect.viewer.report import MOST_STEPS, write_report
from nacre.inspect.viewer.source import ViewerSource
from support.viewer import Strange, digest, frames, one_layer, sequences, two_layers

STEPS = 12
NASTY = '</script><script>alert("1")</script><!-- <main & \u2028 </SCRIPT > ]]> é'


class Page(HTMLParser):
    """Elements of a page with their attributes and, of scripts and styles, their text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self._open = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open = (tag, dict(attrs))
            self.texts.append([*self._open, ""])

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._open = None

    def handle_data(self, data):
        if self._open:
            self.texts[-1][2] += data


def write(path, *recordings, sample=0):
    write_report(list(recordings), path, sample)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    [data] = [content for tag, attrs, content in page.texts if attrs.get("id") == "report"]
    return text, page, json.loads(data, parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return one_layer(tmp_path_factory.mktemp("layer") / "layer", STEPS)


# Alone


@pytest.mark.slow
def test_a_report_refers_to_nothing_outside_of_itself(example, tmp_path):
    drives, _ = frames(tmp_path / "drives")
    text, page, _ = write(tmp_path / "look.html", example.recording, drives)
    addresses = set(re.findall(r"[a-z]+://[^\s\"'`)]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert not re.search(r"@import|url\(\s*[\"']?(?!data:|#)|importScripts|new Worker|\bimport\s*\(", text)
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "srcset", "data", "poster", "formaction"):
            assert attributes.get(name, "data:").startswith("data:"), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], tag
        assert tag not in ("iframe", "object", "embed", "base", "form"), tag
    assert "page/" not in text.partition("<script")[0]
    assert str(tmp_path) not in text
    assert str(example.recording.path) not in text


def test_a_report_has_all_scripts_in_their_order_and_the_style(example, tmp_path):
    _, page, _ = write(tmp_path / "look.html", example.recording)
    scripts = [text for tag, attributes, text in page.texts if tag == "script" and not attributes]
    assert [text.strip() for text in scripts] == [page_file(name).strip() for name in SCRIPTS]
    [style] = [text for tag, _, text in page.texts if tag == "style"]
    assert style.strip() == page_file("style.css").strip()
    assert [tag for tag, _ in page.elements].count("main") == 1
    tags = [(tag, attributes.get("id")) for tag, attributes in page.elements]
    assert tags.index(("script", "report")) < tags.index(("main", "views")) < tags.index(("script", None))


def test_the_served_page_asks_for_what_is_served_and_nothing_else():
    page = Page(page_file("index.html"))
    asked = [a["src"] for tag, a in page.elements if tag == "script"]
    assert asked == [f"page/{name}" for name in SCRIPTS]
    assert [a["href"] for tag, a in page.elements if tag == "link"] == ["data:,", "page/style.css"]
    assert not [text for tag, _, text in page.texts if text.strip()], (
        "the policy lets no script of the page itself run"
    )
    assert not [a for _, a in page.elements if "style" in a or any(name.startswith("on") for name in a)]


@pytest.mark.slow
def test_no_name_can_break_out_of_the_data(tmp_path):
    example = one_layer(tmp_path / "layer", 5)
    many = tuple(f"{NASTY} {i}" for i in range(8))
    example.recording.about = Description(NASTY, many[:3], many, many, time_unit=NASTY)
    _, harmless, _ = write(tmp_path / "a.html", one_layer(tmp_path / "other", 5).recording)
    text, page, data = write(tmp_path / "b.html", example.recording, sample=2)
    run = data["about"]["runs"][0]
    assert (run["name"], run["timeUnit"], run["outputs"]) == (NASTY, NASTY, list(many))
    assert run["samples"] == [many[2]]
    assert page.elements == harmless.elements
    assert "alert(\\" in text  # it is there
    [held] = [content for _, attrs, content in page.texts if attrs.get("id") == "report"]
    assert "<" not in held


# What it holds


def states_of(head):
    """As the page decodes them: bytes between the smallest and the largest state of each neuron."""
    raw = np.frombuffer(base64.b64decode(head["states"]), np.uint8)
    low, high = np.array(head["low"]), np.array(head["high"])
    return low + (high - low) * raw.reshape(-1, len(low)) / 255, high - low


@pytest.mark.parametrize("sample", [0, 2])
def test_a_report_holds_the_sample(example, tmp_path, sample):
    _, _, data = write(tmp_path / "look.html", example.recording, sample=sample)
    source, layer = ViewerSource(example.recording), example.recording.layers["nac"]
    [run] = data["about"]["runs"]
    assert (run["name"], run["samples"], run["lesions"]) == ("NAC", [f"sample {sample}"], False)
    assert run["layers"][0]["lengths"] == [STEPS]
    assert set(data["heads"]) == {"0/0/0", "0/0/1"}
    assert data["frames"] == [[]]
    for head in range(2):
        held = data["heads"][f"0/0/{head}"]
        got, width = states_of(held)
        want = np.asarray(layer.array("states")[sample, :, head])
        assert got.shape == want.shape
        assert (np.abs(got - want) <= width / 255 + 1e-5).all()
        assert np.abs(got - want).max() > 0  # it is rounded, and not by more than half a step:
        assert (np.abs(got - want) <= width / 510 + 1e-5).all()
        assert held["circuit"] == source.circuit("nac", head)
        assert held["spread"] == source.spread(sample, "nac", head)
        steps = source.steps(sample, "nac", head, 0, STEPS)
        for name in ("time", "gates", "weights", "keyTime", "output", "input"):
            near(held["steps"][name], steps[name])
        assert held["steps"]["index"] == steps["index"]
        assert held["steps"]["inputStep"] == list(range(STEPS))
        assert (held["steps"]["truth"], held["steps"]["answer"]) == (None, None)
        assert "states" not in held["steps"]
        curves = source.curves(sample, "nac", head, 0, STEPS, STEPS)
        for name in ("gates", "output", "input"):
            assert held["curves"][name]["step"] == curves[name]["step"]
            near(held["curves"][name]["time"], curves[name]["time"])
            for one, other in zip(held["curves"][name]["columns"], curves[name]["columns"], strict=True):
                near(one["mean"], other["mean"])


def near(got, want):
    got, want = (np.array(values, dtype=float) for values in (got, want))
    np.testing.assert_allclose(got, want, atol=1.1e-5 * max(1, np.nanmax(np.abs(want))))


@pytest.mark.slow
def test_two_runs_are_side_by_side(example, tmp_path):
    drives, images = frames(tmp_path / "drives")
    with two_layers(tmp_path / "two") as two:
        _, _, data = write(tmp_path / "look.html", drives, two.recording, sample=1)
    assert [run["name"] for run in data["about"]["runs"]] == ["drives", "Two"]
    keys = [f"0/0/{head}" for head in range(2)]
    keys += [f"1/{layer}/{head}" for layer, heads in enumerate((4, 2, 4)) for head in range(heads)]
    assert list(data["heads"]) == keys
    for number, layer in enumerate(two.recording.layers.values()):
        for head in range(layer.heads):
            got, width = states_of(data["heads"][f"1/{number}/{head}"])
            assert (np.abs(got - layer.array("states")[1, :, head]) <= width / 255 + 1e-5).all()
    assert data["frames"][1] == []
    assert len(data["frames"][0]) == len(images[1])
    for address, pixels in zip(data["frames"][0], images[1], strict=True):
        head, _, file = address.partition(",")
        assert head == "data:image/png;base64"
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(file)))), pixels)
    held = data["heads"]["0/0/0"]["steps"]
    assert held["truth"] == images[1][:, 0, 0, 0].tolist()
    near(held["answer"], drives.array("answer")[1, 0])
    assert "input" not in data["heads"]["0/0/0"]["curves"]


@pytest.mark.slow
def test_a_long_sample_is_thinned_out_evenly_and_the_report_says_so(tmp_path, monkeypatch):
    x, time = sequences(1, 1031)
    long = record(Strange(top_k=2), x, time, out=tmp_path / "long", detail="means")
    monkeypatch.setattr(module, "MOST_STEPS", 15)
    _, _, data = write(tmp_path / "look.html", long)
    [run] = data["about"]["runs"]
    assert run["layers"][0]["lengths"] == [15]
    assert run["name"] == "Strange (15 of its 1,031 steps)"
    held = data["heads"]["0/0/1"]
    [layer] = long.layers.values()
    got, width = states_of(held)
    assert (np.abs(got - layer.array("states")[0, ::69, 1]) <= width / 255 + 1e-5).all()
    stamps = np.asarray(layer.array("time")[0])
    near(held["steps"]["time"], (stamps - stamps[0])[::69])
    assert held["curves"]["gates"]["step"] == held["steps"]["inputStep"] == list(range(15))
    near(held["steps"]["input"], np.asarray(long.array("x")[0])[::69])


@pytest.mark.parametrize(("length", "every"), [(1, 1), (MOST_STEPS, 1), (MOST_STEPS + 1, 2), (2 * MOST_STEPS, 2)])
def test_a_sample_is_thinned_out_no_more_than_needed(length, every):
    assert module._shown(length).tolist() == list(range(0, length, every))


def test_a_neuron_that_never_moves_is_told_exactly(tmp_path):
    x, time = sequences(1, 1)
    recording = record(Strange(), x, time, out=tmp_path / "one")
    _, _, data = write(tmp_path / "look.html", recording)
    got, width = states_of(data["heads"]["0/0/0"])
    assert (width == 0).all()
    near(got, recording.layers["layer"].array("states")[0, :, 0])


# What is refused


def test_what_is_refused_leaves_nothing_behind(example, tmp_path):
    drives, _ = frames(tmp_path / "drives")
    before = digest(tmp_path)
    for name in ("look.htm", "look", "look.html.txt", ".html", "look.HTML"):
        with pytest.raises(ValueError, match=r"export must be a file that ends with .html"):
            write_report([example.recording], tmp_path / name)
    for sample in (3, 10**9):
        with pytest.raises(ValueError, match=rf"sample must be from 0 to 2 in .*, got {sample}"):
            write_report([example.recording], tmp_path / "look.html", sample)
    with pytest.raises(ValueError, match="sample must be from 0 to 1"):  # the second has fewer
        write_report([example.recording, drives], tmp_path / "look.html", 2)
    for sample in (-1, 0.5, True, "0", None):
        with pytest.raises((TypeError, ValueError), match="sample"):
            write_report([example.recording], tmp_path / "look.html", sample)
    assert digest(tmp_path) == before


def test_a_report_that_fails_leaves_the_old_one(example, tmp_path, monkeypatch):
    path = tmp_path / "look.html"
    path.write_text("old")

    def full(*args):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="no space"):
            write_report([example.recording], path)
    assert [file.name for file in tmp_path.iterdir()] == ["look.html"]
    assert path.read_text() == "old"
    write_report([example.recording], path)
    assert [file.name for file in tmp_path.iterdir()] == ["look.html"]
    assert path.read_text().startswith("<!doctype html>")


# The command


def test_export_writes_the_file_and_serves_nothing(example, tmp_path, monkeypatch):
    monkeypatch.setattr(view, "serve", pytest.fail)
    path = tmp_path / "look.html"
    view.view(ViewOptions([example.recording.path], export=path, sample=1))
    want = write(tmp_path / "same.html", example.recording, sample=1)[0]
    assert path.read_text(encoding="utf-8") == want


def test_view_serves_one_recording_or_two_on_the_host_that_it_was_told(example, monkeypatch):
    served = []
    monkeypatch.setattr(view, "serve", lambda app, host, port, ready: served.append((app, host, port)))
    place = example.recording.path
    view.view(ViewOptions([place, place], host="viewer.lan", port=7))
    assert served[0][1:] == ("viewer.lan", 7)
    assert served[0][0]._knows("viewer.lan:7")
    assert not served[0][0]._knows("other.lan:7")
    for runs in ([], [place] * 3):
        with pytest.raises(ValueError, match="runs must be one run, or two to compare"):
            view.view(ViewOptions(runs))
    assert ViewOptions([place]).host == "127.0.0.1"


def test_a_run_is_recorded_when_it_has_no_recording_or_an_old_one_or_if_told(example, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(view, "record_run", lambda run, samples, **more: made.append((run, samples)))
    console = view.Console(quiet=True)
    run = tmp_path / "run"
    (run / "model").mkdir(parents=True)
    (run / "model" / "model.json").write_text("{}")
    open_recording(run, 5, None, console)
    assert made == [(run, 5)]
    one_layer(run / "inspect")
    assert open_recording(run, 5, None, console).path == run / "inspect"
    assert len(made) == 1
    open_recording(run, 5, None, console, again=True)
    assert len(made) == 2
    os.utime(run / "model" / "model.json", (2e9, 2e9))  # trained again since
    open_recording(run, 5, None, console)
    assert len(made) == 3
    assert open_recording(example.recording.path, 5, None, console, again=True).path == example.recording.path


def test_a_model_that_went_wrong_has_a_report(tmp_path):
    model, (x, time) = Strange(), sequences(1, 9)
    with torch.no_grad():
        next(iter(model.layer.parameters())).fill_(float("nan"))
    write(tmp_path / "look.html", record(model, x, time, out=tmp_path / "nan"))


@pytest.mark.slow
def test_a_report_of_several_layers_says_once_that_it_is_thinned_out(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_STEPS", 10)
    with two_layers(tmp_path / "two") as two:
        _, _, data = write(tmp_path / "look.html", two.recording)
    assert data["about"]["runs"][0]["name"].count("of its") == 1
