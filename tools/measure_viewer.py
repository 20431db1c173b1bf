"""How fast the viewer is on a trace of 100,000 steps, measured in Chromium, into results/inspect/viewer.json.

python tools/measure_viewer.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from measured import provenance, write_result
from playwright.sync_api import Page, sync_playwright

import nacre
from nacre.inspect import record

STEPS, DRAGS, ROUNDS = 100_000, 200, 5


def main() -> None:
    """Record, serve, drag, write."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "long"
        recorded = _record(out)
        command = [str(Path(sys.executable).parent / "nacre"), "view", str(out), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                address = server.stderr.readline().split()[-1]
                found = {"record": recorded, **_measure(address, server.pid)}
            finally:
                server.terminate()
    write_result("inspect/viewer.json", {**provenance(), **found})


def _record(out: Path) -> dict[str, float]:
    torch.manual_seed(0)
    layer = nacre.NAC(64, 4, d_input=7).eval()
    x, stamps = torch.randn(1, STEPS, 7), torch.rand(1, STEPS).cumsum(1)
    with torch.no_grad():
        began = time.perf_counter()
        layer(x, time=stamps)
        plain = time.perf_counter() - began
    began = time.perf_counter()
    record(layer, x, stamps, out=out, detail="means")
    seconds = time.perf_counter() - began
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return {"steps": STEPS, "forward_seconds": plain, "record_seconds": seconds, "megabytes": size / 1e6}


def _measure(address: str, server: int) -> dict[str, object]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        first, moves, memory = [], [], []
        for _ in range(ROUNDS):
            page = browser.new_page(viewport={"width": 1366, "height": 850})
            page.goto(address)
            page.wait_for_selector("body[data-ready=yes]")
            first.append(page.evaluate("nacre.measured.first"))
            moves += _drag(page)
            memory.append(_resident(server))
            page.close()
        browser.close()
    return {
        "first_picture_ms": {"median": statistics.median(first), "largest": max(first)},
        "drag_ms": {
            "moves": len(moves),
            "median": statistics.median(moves),
            "p95": statistics.quantiles(moves, n=20)[-1],
            "largest": max(moves),
        },
        "server_megabytes_after_each_round": memory,
    }


def _drag(page: Page) -> list[float]:
    """Milliseconds from each move of the slider, to anywhere, until the new state is painted."""
    page.evaluate("nacre.measured.moves.length = 0")
    generator = torch.Generator().manual_seed(0)
    for step in torch.randint(STEPS, (DRAGS // ROUNDS,), generator=generator).tolist():
        known = page.evaluate("nacre.measured.moves.length")
        page.evaluate(
            "(step) => { const s = document.getElementById('step'); s.value = step; "
            "s.dispatchEvent(new Event('input')); }",
            step,
        )
        while page.evaluate("nacre.measured.moves.length") == known:
            page.wait_for_timeout(5)
    return page.evaluate("nacre.measured.moves")


def _resident(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
