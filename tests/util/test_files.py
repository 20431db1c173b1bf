"""Files are written whole or not at all, and the cache is where the user wants it."""

import os
from pathlib import Path

import pytest

from nacre._util.files import cache_folder, write_atomic


def test_others_may_read_what_was_written(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    path = write_atomic(tmp_path / "whole", b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "file", b"old")

    def fail(*_):
        raise OSError("disk full")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fail)
            with pytest.raises(OSError, match="disk full"):
                write_atomic(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NACRE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "nacre"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "nacre"
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
