"""The page of the viewer in a real browser: Debian's Chromium, which .ci/run installs."""

import os
import re
import shutil

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

import nacre
from nacre.inspect import record

CHROMIUM = os.environ.get("NACRE_CHROMIUM") or shutil.which("chromium")
NEEDED = [
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
