"""Readers of data sets by name."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from nacre.data.files.catalogue import loader_of


def test_a_file_of_the_folder_is_a_data_set(monkeypatch):
    made = ModuleType("nacre.data.sets.my_waves")
    made.__spec__ = ModuleSpec(made.__name__, None)
    made.load_my_waves = lambda n=3: n
    monkeypatch.setitem(sys.modules, made.__name__, made)
    assert loader_of("my-waves")() == 3
    for name in ("my-wave", "gaps", "store", "../sets", ""):  # no file, no reader of that name, no name
        with pytest.raises(ValueError, match=f"data set must be one of .*, got '{name}'"):
            loader_of(name)
