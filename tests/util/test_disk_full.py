"""A full disk is named by the path that could not be written, and leaves nothing behind."""

import errno
import os

import pytest

from nacre._util.files import write_atomic
from support.train import MODEL, nacre, tiny


def full(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_writing_names_the_path(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/log.csv'"):
        write_atomic(tmp_path / "log.csv", b"x")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError, match=rf"No such file or directory: '{tmp_path}/nowhere/log.csv'"):
        write_atomic(tmp_path / "nowhere" / "log.csv", b"x")


def test_training_names_the_run(tmp_path, monkeypatch, capsys):
    tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nacre.train.run_cell._run_model", full)
    words = ["tiny.toml", "-m", MODEL, "--profile", "quick", "--folds", 1, "--no-controls"]
    assert nacre(monkeypatch, "train", *words) == 2
    said = capsys.readouterr().err
    assert said == f"nacre: [Errno 28] No space left on device: 'runs/tiny/{MODEL}/fold0-seed0'\n"
