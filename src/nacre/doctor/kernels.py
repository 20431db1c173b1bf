"""Checks of the compiled kernels: built, loaded, and how much faster than PyTorch here."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from nacre._util.files import cache_folder
from nacre.doctor.finding import Finding, note, ok, problem
from nacre.doctor.known_numbers import small_layer
from nacre.native import library
from nacre.native.build import build, find_compiler

ROUNDS = 5


def check_kernels() -> Iterator[Finding]:
    """Compiler, library and speed."""
    if os.environ.get(library.SWITCH) == "0":
        yield note("kernels", f"switched off by {library.SWITCH}=0", f"unset {library.SWITCH}")
        return
    compiler = find_compiler()
    if compiler is None:
        yield note(
            "kernels",
            "no C++ compiler was found: nacre runs on PyTorch, several times slower",
            "install g++ 12 or newer, or clang (Debian: apt-get install g++)",
        )
        return
    try:
        path = build()
    except (OSError, RuntimeError) as error:
        what, fix = _what_and_fix(error)
        yield problem("kernels", f"they cannot be built: {what}", fix)
        return
    if damage := _load_elsewhere(path):
        os.environ[library.SWITCH] = "0"  # or the checks to come would load it
        fix = f"delete {path}, so that it is built again; if it comes back, set CXX to g++ or clang++"
        yield problem("kernels", f"{path}, built by {compiler}, cannot be loaded: {damage}", fix)
        return
    loaded = library.library()
    assert loaded is not None
    vector = 8 * loaded.nacre_vector_bytes()
    yield ok("kernels", f"built by {compiler}, vectors of {vector} bits, in {path}")
    yield _speed()


def _load_elsewhere(path: Path) -> str:
    """Why a process of its own cannot load a library, which may end it; empty if it can."""
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", load, str(path)], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return f"the file is damaged ({signal.strsignal(-done.returncode)})"
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def _what_and_fix(error: Exception) -> tuple[str, str]:
    """What kept the kernels from being built, and what to do about it."""
    if isinstance(error, OSError):
        return str(
            error
        ), f"set NACRE_CACHE to a folder that you can write and nobody else; now it is {cache_folder()}"
    for fix in ("set NACRE_CACHE", "try again"):
        what, _, rest = str(error).partition(f"; {fix}")
        if rest:
            return what, fix + rest
    return str(error), "set CXX to a C++17 compiler (g++ 12 or newer, or clang), or NACRE_NATIVE=0 to do without"


def _speed() -> Finding:
    """Time of a training step with kernels and without, in turns."""
    layer, x, stamps = small_layer("nac-plus", steps=200, dtype=torch.float32)
    best = {"kernels": float("inf"), "PyTorch": float("inf")}
    for _ in range(ROUNDS):
        for name in best:
            start = time.perf_counter()
            if name == "kernels":
                layer(x, time=stamps).square().mean().backward()
            else:
                with library.switched_off():
                    layer(x, time=stamps).square().mean().backward()
            best[name] = min(best[name], time.perf_counter() - start)
    ratio = best["PyTorch"] / best["kernels"]
    text = f"a training step of nac-plus is {ratio:.1f} times as fast with kernels as without"
    return ok("speed", text) if ratio > 1 else note("speed", text, "try again when the machine is idle")
