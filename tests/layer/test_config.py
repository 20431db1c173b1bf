"""The options of a layer: declared once, checked by their types."""

import inspect
import typing

import pytest

import nacre
from nacre.layer.config import NACConfig, RareOptions

HINTS = typing.get_type_hints(NACConfig)
NAMED = [name for name in inspect.signature(nacre.NAC).parameters if name in HINTS]


def test_keywords_of_the_layer_are_the_options_of_its_config():
    rare = typing.get_type_hints(RareOptions)
    assert [*NAMED, *rare] == [*HINTS]
    assert rare == {name: hint for name, hint in HINTS.items() if name in rare}


def test_named_options_have_the_same_defaults():
    for name in NAMED[2:]:
        default = inspect.signature(nacre.NAC).parameters[name].default
        assert default == inspect.signature(NACConfig).parameters[name].default, name


@pytest.mark.parametrize("name", [name for name in HINTS if name != "wiring"])
def test_every_option_refuses_what_it_cannot_be(name):
    for wrong in ("no such word", object(), -1, float("nan")):
        with pytest.raises((ValueError, TypeError), match=f"^{name} must"):
            NACConfig(**{"d_model": 8, "num_heads": 2, name: wrong})


@pytest.mark.parametrize("name", [name for name, hint in HINTS.items() if type(None) not in typing.get_args(hint)])
def test_none_is_refused_where_the_type_does_not_say_so(name):
    with pytest.raises((ValueError, TypeError), match=f"^{name} must"):
        NACConfig(**{"d_model": 8, "num_heads": 2, name: None})


def test_numbers_become_floats():
    assert isinstance(NACConfig(d_model=8, num_heads=2, time_scale=3).time_scale, float)
