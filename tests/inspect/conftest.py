"""Recordings that are served, and a browser that looks at them."""

import pytest
import torch
from playwright.sync_api import sync_playwright

from nacre.inspect import record
from support.browser import CHROMIUM, small_layer
from support.viewer import Answers, serving


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
