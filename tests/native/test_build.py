"""Building and loading the compiled kernels, and doing without them."""

import shutil
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


def test_builds_at_the_same_time_end_well_and_are_kept(tmp_path, monkeypatch):
    compiler = tmp_path / "compiler"  # a slow one, so that both builds are under way at once
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nsleep 0.3\necho made > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    folder, made = tmp_path / "cache", []
    threads = [threading.Thread(target=lambda: made.append(build.build(folder))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert list(folder.iterdir()) == [made[0]] == [made[1]]
    stamp = made[0].stat().st_mtime_ns
    assert build.build(folder) == made[0]
    assert made[0].stat().st_mtime_ns == stamp


def test_another_source_or_compiler_gets_its_own_library(tmp_path, monkeypatch):
    first = build._fingerprint("g++")
    assert build._fingerprint("clang++") != first
    copy = tmp_path / "native"
    shutil.copytree(build._HERE, copy)
    monkeypatch.setattr(build, "_HERE", copy)
    assert build._fingerprint("g++") == first
    (copy / "include" / "vector.h").write_text("// other")
    assert build._fingerprint("g++") != first


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
    for mode in (0o777, 0o757, 0o775):
        (tmp_path if which == "folder" else made).chmod(mode)
        with pytest.raises(RuntimeError, match="can be written by others; set NACRE_CACHE .*chmod go-w"):
            build.build(tmp_path)


def test_a_library_is_its_owners_whatever_the_umask(tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho x > "$2"\nchmod 777 "$2"\n')
    compiler.chmod(0o755)
    target = tmp_path / "made.so"
    assert build._compile(str(compiler), (), target) is None
    assert target.stat().st_mode & 0o777 == 0o755


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


@pytest.mark.slow
def test_a_process_of_its_own_builds_on_first_use_without_a_warning(tmp_path):
    compiler, cache = tmp_path / "compiler", tmp_path / "cache"
    compiler.write_text('#!/bin/sh\nexec g++ -Wall -Wextra -Werror "$@"\n')
    compiler.chmod(0o755)
    code = "import torch, nacre; nacre.NAC(8, 2)(torch.randn(1, 5, 8))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"NACRE_CACHE": str(cache), "PATH": "/usr/bin:/bin", "CXX": str(compiler)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [path.suffix for path in cache.iterdir()] == [".so"]
