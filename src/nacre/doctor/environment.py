"""Checks of versions, extras and the machine."""

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from nacre._util.extras import how_to_install, requirements
from nacre._util.pool import default_jobs
from nacre._util.provenance import provenance
from nacre.doctor.finding import Finding, note, ok, problem

CORE = ("torch", "numpy", "ncps", "safetensors", "platformdirs")
# What the extras of pyproject.toml bring, by the names under which they are imported.
EXTRAS = {
    "train": (
        "lightning",
        "sklearn",
        "pandas",
        "scipy",
        "filelock",
        "tomli_w",
        "rich",
        "typer",
        "matplotlib",
        "pooch",
        "requests",
        "tensorboard",
    ),
    "tune": ("optuna",),
    "scale": ("ray",),
    "drive": ("gymnasium", "captum", "imageio", "imageio_ffmpeg", "PIL", "websockets"),
    "bearings": ("scipy", "pyarrow"),
    "view": ("zarr", "starlette", "uvicorn"),
    "export": ("onnx", "onnxscript", "onnxruntime"),
}


def check_environment() -> Iterator[Finding]:
    """Versions, extras, processor, memory and GPU."""
    yield _versions()
    yield _torch(torch.__version__, requirements())
    yield _extras()
    yield _processor()
    yield _memory()
    yield _gpu()


def _versions() -> Finding:
    found = provenance()
    packages = ", ".join(f"{name} {_version(name)}" for name in CORE)
    commit = f" (commit {found['commit']})" if found["commit"] else ""
    return ok(
        "versions", f"nacre {found['versions']['nacre']}{commit}, Python {platform.python_version()}, {packages}"
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "of unknown version"


def _torch(have: str, required: list[str]) -> Finding:
    oldest = next((found[1] for one in required if (found := re.match(r"torch>=([\d.]+)", one))), None)
    if oldest is None:
        return note("torch", f"{have}; nacre is not installed, so how new it must be is not known")
    if _numbers(have) < _numbers(oldest):
        fix = f"pip install 'torch>={oldest}'; older ones are not tested"
        return problem("torch", f"{have} is older than {oldest}", fix)
    return ok("torch", f"{have}, at least {oldest}")


def _numbers(version_text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version_text)[:2])


def _extras() -> Finding:
    missing = {extra: [name for name in names if find_spec(name) is None] for extra, names in EXTRAS.items()}
    complete = ", ".join(extra for extra, names in missing.items() if not names) or "none"
    lacking = {extra: names for extra, names in missing.items() if names}
    if not lacking:
        return ok("extras", f"complete: {complete}")
    text = "; ".join(f"{extra} lacks {', '.join(names)}" for extra, names in lacking.items())
    return note(
        "extras", f"complete: {complete}; {text}", f"for their commands: {how_to_install(','.join(lacking))}"
    )


def _processor() -> Finding:
    machine = provenance()["machine"]
    cpus, threads = default_jobs(), torch.get_num_threads()
    text = f"{machine['processor']}, {machine['architecture']}, {machine['system']}"
    text += f", {cpus} CPU{'s' * (cpus > 1)}, torch uses {threads} thread{'s' * (threads > 1)}"
    if asked := os.environ.get("OMP_NUM_THREADS"):
        text += f" (OMP_NUM_THREADS={asked})"
    if threads > cpus:
        return note("processor", f"{text}: they wait for each other", f"set OMP_NUM_THREADS={cpus}")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > 1.5 * cpus:
        return note("processor", f"{text}; busy: {load:.1f} processes want to run", "do not trust timings now")
    return ok("processor", text)


def _memory() -> Finding:
    if not hasattr(os, "sysconf"):
        return note("memory", "this system does not tell")
    total, free = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages) / 1e9 for pages in ("SC_PHYS_PAGES", "SC_AVPHYS_PAGES")
    )
    return ok("memory", f"{total:.1f} GB, {free:.1f} of them unused")


def _gpu() -> Finding:
    if torch.cuda.is_available():
        return ok("GPU", torch.cuda.get_device_name())
    return ok("GPU", "none that torch can use; all of nacre runs without one")
