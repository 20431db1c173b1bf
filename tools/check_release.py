"""Build sdist and wheel, and try the wheel in fresh environments: python tools/check_release.py [PYTHON ...].

Each PYTHON is an interpreter, such as python3.12; without any, the one that runs this. Needs `build`, `twine` and
a C++ compiler. Leaves both files in dist/. Torch comes from where pip looks; PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS
may name a place with builds without CUDA, which are far smaller.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

PROMISED = ("3.11", "3.12", "3.13")
ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
# Trains for a moment, saves and loads.
SCRIPT = """
import torch, nacre
layer = nacre.create("nac-plus", d_input=3, d_model=8, num_heads=2)
optimizer = torch.optim.Adam(layer.parameters())
for _ in range(3):
    layer(torch.randn(2, 20, 3), time=torch.rand(2, 20).cumsum(1)).square().mean().backward()
    optimizer.step()
nacre.save(layer, "layer")
assert type(nacre.load("layer")).__name__ == "NAC"
"""


def say(text: str) -> None:
    """Print a line of the transcript."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command, print its output, and stop where it fails."""
    say(f"$ {' '.join(str(part) for part in command)}")
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    say(done.stdout.rstrip())
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}")
    return done.stdout


def inside() -> set[str]:
    """What a wheel must hold: all that lies below src, kernels, recipes, pages and py.typed too."""
    source = ROOT / "src"
    files = (path for path in (source / "nacre").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(source).as_posix() for path in files}


def build() -> Path:
    """The wheel, freshly built beside the sdist, with all that must be inside and nothing else."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    run(sys.executable, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    if names != inside():
        missing, odd = sorted(inside() - names), sorted(names - inside())
        raise SystemExit(f"{wheel.name}: missing {missing}, not expected {odd}")
    kinds = Counter(name.rpartition(".")[2] for name in names)
    with tarfile.open(sdist) as archive:
        largest = max(archive.getmembers(), key=lambda member: member.size)
        say(f"{wheel.name}: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}")
        say(f"{sdist.name}: {len(archive.getnames())} files, the largest {largest.name} ({largest.size:,} bytes)")
    return wheel


def try_wheel(wheel: Path, python: str) -> str:
    """Install the wheel into a fresh environment, and use it with a compiler and without; gives the version."""
    version = run(python, "-c", "import platform; print(platform.python_version())").strip()
    with tempfile.TemporaryDirectory() as folder:
        place, binaries = Path(folder), Path(folder) / "venv" / "bin"
        install = (binaries / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
        own = {"NACRE_CACHE": str(place / "cache"), "NACRE_DATA": "", "PYTHONPATH": ""}
        bare = own | {"PATH": str(binaries), "NACRE_CACHE": str(place / "bare"), "CXX": ""}
        run(python, "-m", "venv", place / "venv")
        run(*install, wheel, cwd=place)
        run(
            binaries / "python", "-W", "error::RuntimeWarning", "-c", SCRIPT, cwd=place, **own
        )  # kernels are built
        run(binaries / "python", "-W", "ignore", "-c", SCRIPT, cwd=place, **bare)
        run(*install, f"{wheel}[train]", cwd=place)
        for environment, wanted in ((own, "kernels: built by"), (bare, "kernels: no C++ compiler")):
            if wanted not in run(binaries / "nacre", "doctor", cwd=place, **environment):
                raise SystemExit(f"nacre doctor should say {wanted!r} here")
        run(binaries / "nacre", "demo", "--steps", "20", cwd=place, **own)
    return version


def main() -> None:
    """Build and try."""
    wheel = build()
    tried = [try_wheel(wheel, python) for python in sys.argv[1:] or [sys.executable]]
    say(f"{wheel.name} is sound on Python {', '.join(tried)}.")
    if missing := [one for one in PROMISED if not any(f"{version}.".startswith(f"{one}.") for version in tried)]:
        say(f"Not tried: Python {', '.join(missing)}.")


if __name__ == "__main__":
    main()
