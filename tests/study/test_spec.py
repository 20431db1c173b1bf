"""Models with options on a command line."""

import pytest

from nacre.study.spec import ModelSpec

SIZE = {"d_input": 3, "d_model": 8, "num_heads": 2}


def test_a_spec_is_read_and_written_alike():
    for text, options in {
        "nac": {},
        "nac:match=content,top_k=4": {"match": "content", "top_k": 4},
        "nac:top_k=none,bias=false,sparsity=0.25": {"top_k": None, "bias": False, "sparsity": 0.25},
        "nac:match=none": {"match": "none"},
        "sdpa": {},
    }.items():
        spec = ModelSpec.parse(text)
        assert dict(spec.options) == options
        assert str(spec) == text
        layer = spec.create(**SIZE)
        assert all(getattr(layer.config, name) == value for name, value in options.items()), text


def test_names_of_files_hold_nothing_but_plain_letters():
    slug = ModelSpec.parse("nac:match=content,sparsity=0.25").slug
    assert slug == "nac_match_content_sparsity_0.25"


def test_replace_keeps_the_other_options():
    spec = ModelSpec.parse("nac:match=content,top_k=4").replace(top_k=2)
    assert str(spec) == "nac:match=content,top_k=2"
    assert spec.is_nac
    assert not ModelSpec.parse("sdpa").is_nac


def test_bad_texts_are_refused():
    for text, message in {
        "nak": "unknown model 'nak'",
        "nac:top_k": "must look like",
        "nac:=4": "must look like",
        "nac:top_k=": "must look like",
    }.items():
        with pytest.raises(ValueError, match=message):
            ModelSpec.parse(text)


def test_options_that_do_not_suit_are_refused():
    for text, message in {
        "nac:keys=4": "no option 'keys'",
        "sdpa:top_k=4": "no option 'top_k'",
        "nac-2k:top_k=4": "nac-2k means top_k=2",
        "nac:match=all": "match",
    }.items():
        with pytest.raises(ValueError, match=message):
            ModelSpec.parse(text).create(**SIZE)
