"""Build the C++ kernels.

They need a C++ compiler but no headers of torch or Python, so a build takes seconds. The library is cached under a
hash of the source, the flags and the processor: another version, flag or machine builds its own.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from nacre._util.files import cache_folder
from nacre._util.provenance import cpu_info

_HERE = Path(__file__).parent
_SOURCES = ("cfc.cpp", "ltc.cpp", "pairs.cpp", "s4.cpp", "selection.cpp", "step.cpp")
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC")
_BUILD_SECONDS = 300  # some 10 are usual


def build(folder: Path | None = None) -> Path:
    """Path of the compiled kernels in a folder (None: the user's cache), built there if they are missing.

    Raises:
        RuntimeError: If there is no compiler, or it fails or takes too long.
    """
    compiler = find_compiler()
    if compiler is None:
        raise RuntimeError("no C++ compiler was found")
    folder = cache_folder() if folder is None else folder
    target = folder / f"nacre-{_fingerprint(compiler)}.so"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _require_own(folder)
    if target.exists():
        _require_own(target)
        return target
    # Without OpenMP (Apple's clang) the kernels run on one thread.
    errors = [_compile(compiler, extra, target) for extra in (("-fopenmp",), ())]
    if target.exists():
        return target
    raise RuntimeError(f"{compiler} failed: {errors[0]}")


def find_compiler() -> str | None:
    """The C++ compiler: `$CXX`, g++ or clang++; None where there is none."""
    return os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")


def _compile(compiler: str, extra: tuple[str, ...], target: Path) -> str | None:
    """Try one set of flags; the library appears under its name whole or not at all."""
    if target.exists():
        return None
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "kernels.so"
        sources = (f"-I{_HERE / 'include'}", *(str(_HERE / name) for name in _SOURCES))
        command = [compiler, *_FLAGS, *extra, "-o", str(made), *sources]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(
                f"{compiler} took more than {_BUILD_SECONDS} seconds; try again when the machine is less busy"
            ) from error
        except OSError as error:
            return str(error)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            return next((line for line in lines if "error" in line), lines[-1] if lines else "no message")
        made.chmod(0o755)  # whatever the umask is, nobody else may write it
        made.replace(target)
    return None


def _require_own(path: Path) -> None:
    """Refuse to load code from where another user can put it."""
    if not hasattr(os, "getuid"):
        return
    status = path.stat()
    if status.st_uid not in (os.getuid(), 0) or status.st_mode & 0o022:
        raise RuntimeError(
            f"{path} can be written by others; set NACRE_CACHE to a folder of your own, or run chmod go-w {path}"
        )


def _fingerprint(compiler: str) -> str:
    digest = hashlib.sha256()
    for path in [*sorted(_HERE.glob("*.cpp")), *sorted(_HERE.glob("include/*.h"))]:
        digest.update(path.read_bytes())
    # -march=native depends on the instructions that the processor has.
    digest.update(repr((compiler, _FLAGS, platform.machine(), cpu_info("flags", "Features"))).encode())
    return digest.hexdigest()[:16]
