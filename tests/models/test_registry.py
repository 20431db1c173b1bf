"""The registry."""

import pytest
import torch

import nacre
from nacre.models import _registry as registry
from nacre.models._listing import parameters

# Parameters at d_input 64, d_model 64, 4 heads. A change here changes what is compared: know why before editing.
COUNTS = {
    "cfc-fc": 49536,
    "cfc-ncp": 15200,
    "contiformer": 46336,
    "ct-rnn": 8320,
    "cta": 46784,
    "deepstate": 36312,
    "gru-ode": 24768,
    "linear-attention": 16768,
    "ltc-fc": 33216,
    "ltc-ncp": 6688,
    "mmrnn": 41344,
    "mtan": 165504,
    "nac": 32804,
    "nac-02s": 48640,
    "nac-05sfc": 24080,
    "nac-09s": 11540,
    "nac-2k": 32804,
    "nac-32k": 32804,
    "nac-euler": 32804,
    "nac-fc": 41472,
    "nac-phi-linear": 32804,
    "nac-phi-tanh": 32804,
    "nac-plus": 20788,
    "nac-pw": 32804,
    "nac-rw": 81160,
    "nac-steady": 32804,
    "odeformer": 29312,
    "ot-transformer": 29312,
    "pde-attention": 16580,
    "performer": 16448,
    "phased-lstm": 33216,
    "s4": 20928,
    "sdpa": 16576,
}


def test_models_that_are_compared_keep_their_parameter_count():
    assert {*COUNTS} >= {name for name in nacre.list_models() if nacre.model_info(name).in_paper}
    assert {name: parameters(name) for name in COUNTS} == COUNTS


def test_list_models_takes_patterns():
    assert nacre.list_models("nac-phi*") == ["nac-phi-linear", "nac-phi-tanh"]
    assert nacre.list_models("nothing*") == []
    assert {"nac", "sdpa"} <= set(nacre.list_models())


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="unknown model 'nac-stead'; did you mean 'nac-steady'"):
        nacre.create("nac-stead", d_input=5, d_model=8, num_heads=2)
    with pytest.raises(ValueError, match="unknown model 'zzz'; there are cfc-fc, cfc-ncp"):
        nacre.model_info("zzz")


def test_a_variant_refuses_to_be_another():
    assert nacre.create("nac-2k", d_input=5, d_model=8, num_heads=2, top_k=2).config.top_k == 2
    with pytest.raises(ValueError, match="nac-2k means top_k=2, got 4"):
        nacre.create("nac-2k", d_input=5, d_model=8, num_heads=2, top_k=4)
    assert nacre.create("nac", d_input=5, d_model=8, num_heads=2, top_k=4, causal=True).config.causal


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="'sdpa' is registered twice"):
        registry.register(nacre.model_info("sdpa"))(lambda: torch.nn.Identity())
