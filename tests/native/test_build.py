"""Building and loading the compiled kernels, and doing without them."""

import subprocess
import sys
import threading

import pytest
import torch

import nacre
from nacre.native import build, library


@pytest.fixture
def fresh(monkeypatch):
    """As if nothing had been loaded yet, now and afterwards."""
    library.library.cache_clear()
    yield monkeypatch
    library.library.cache_clear()


def test_a_build_is_kept_and_leaves_nothing_else(tmp_path):
    made = build.build(tmp_path)
    stamp = made.stat().st_mtime_ns
    assert build.build(tmp_path) == made
    assert made.stat().st_mtime_ns == stamp
    assert list(tmp_path.iterdir()) == [made]


def test_builds_at_the_same_time_end_well(tmp_path):
    made = []
    threads = [threading.Thread(target=lambda: made.append(build.build(tmp_path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert list(tmp_path.iterdir()) == [made[0]] == [made[1]]


def test_another_source_or_compiler_gets_its_own_library(tmp_path, monkeypatch):
    first = build._fingerprint("g++")
    assert build._fingerprint("clang++") != first
    copy = tmp_path / "native"
    copy.mkdir()
    for name in build._HERE.glob("*.[ch]*"):
        (copy / name.name).write_bytes(name.read_bytes())
    monkeypatch.setattr(build, "_HERE", copy)
    assert build._fingerprint("g++") == first
    (copy / "vector.h").write_text("// other")
    assert build._fingerprint("g++") != first


def test_the_kernels_compile_without_a_warning(tmp_path):
    sources = [str(build._HERE / name) for name in build._SOURCES]
    flags = [*build._FLAGS, "-fopenmp", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(["g++", *flags, "-o", str(tmp_path / "k.so"), *sources], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_switch_turns_kernels_off(fresh):
    fresh.setenv("NACRE_NATIVE", "0")
    assert library.library() is None
    assert not library.runs(torch.ones(2))
    assert nacre.NAC(8, 2)(torch.randn(1, 5, 8)).shape == (1, 5, 8)


def test_without_a_compiler_one_warning_says_so(fresh):
    fresh.delenv("CXX", raising=False)
    fresh.setattr(build.shutil, "which", lambda name: None)
    with pytest.warns(RuntimeWarning, match="no C\\+\\+ compiler was found.*NACRE_NATIVE=0"):
        assert library.library() is None
    assert not library.runs(torch.ones(2))  # and no second warning, which would be an error here


def test_a_failing_compiler_is_quoted(fresh, tmp_path):
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'x.cpp:1: error: no such thing' >&2\nexit 1\n")
    compiler.chmod(0o755)
    fresh.setenv("CXX", str(compiler))
    fresh.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    with pytest.warns(RuntimeWarning, match="broken failed: x.cpp:1: error: no such thing"):
        assert library.library() is None
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("which", ["folder", "file"])
def test_code_that_others_can_write_is_not_loaded(which, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "_compile", lambda compiler, extra, target: target.write_bytes(b"") and None)
    made = build.build(tmp_path)
    made.chmod(0o644)
    assert build.build(tmp_path) == made
    (tmp_path if which == "folder" else made).chmod(0o777)
    with pytest.raises(RuntimeError, match="can be written by others; set NACRE_CACHE"):
        build.build(tmp_path)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("NACRE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.cache_folder() == tmp_path / "nacre"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(build.Path, "home", lambda: tmp_path)
    assert build.cache_folder() == tmp_path / ".cache" / "nacre"
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "own"))
    assert build.cache_folder() == tmp_path / "own"


@pytest.mark.parametrize(
    "tensors",
    [
        (torch.ones(2, dtype=torch.bfloat16),),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2, device="meta"),),
    ],
)
def test_what_the_kernels_leave_to_torch(tensors):
    assert library.runs(torch.ones(2))
    assert not library.runs(*tensors)


def test_a_process_of_its_own_builds_on_first_use(tmp_path):
    code = "import torch, nacre; nacre.NAC(8, 2)(torch.randn(1, 5, 8))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"NACRE_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.so"))) == 1
