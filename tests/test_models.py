"""The registry, and SDPA against torch."""

import pytest
import torch

import nacre
from nacre.models import registry

# Parameters at d_input 64, d_model 64, 4 heads. A change here changes what is compared: know why before editing.
COUNTS = {
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
    "nac-pw": 32804,
    "nac-rw": 81160,
    "nac-steady": 32804,
    "sdpa": 16576,
}


def test_every_model_has_its_parameter_count_pinned():
    made = {n: nacre.create(n, d_input=64, d_model=64, num_heads=4) for n in nacre.list_models()}
    assert {n: sum(p.numel() for p in m.parameters()) for n, m in made.items()} == COUNTS


@pytest.mark.parametrize("name", nacre.list_models())
def test_contract(name):
    model = nacre.create(name, d_input=5, d_model=8, num_heads=2)
    x, time = torch.randn(3, 9, 5), torch.rand(3, 9).cumsum(1)
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[1, 4:] = True
    y = model(x, time=time, key_padding_mask=padding)
    assert y.shape == (3, 9, 8)
    assert (y[padding] == 0).all()
    assert torch.equal(
        y, model(x.masked_fill(padding[..., None], float("nan")), time=time, key_padding_mask=padding)
    )
    assert model(x[:, :1]).isfinite().all()
    changed = not torch.allclose(y, model(x, time=time * 3, key_padding_mask=padding))
    assert changed == nacre.model_info(name).uses_time


def test_list_models_takes_patterns():
    assert nacre.list_models("nac-phi*") == ["nac-phi-linear", "nac-phi-tanh"]
    assert nacre.list_models("nothing*") == []
    assert {"nac", "sdpa"} <= set(nacre.list_models())


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="unknown model 'nac-stead'; did you mean 'nac-steady'"):
        nacre.create("nac-stead", d_input=5, d_model=8, num_heads=2)
    with pytest.raises(ValueError, match="unknown model 'zzz'; there are nac"):
        nacre.model_info("zzz")


def test_a_variant_refuses_to_be_another():
    assert nacre.create("nac-2k", d_input=5, d_model=8, num_heads=2, top_k=2).config.top_k == 2
    with pytest.raises(ValueError, match="nac-2k means top_k=2, got 4"):
        nacre.create("nac-2k", d_input=5, d_model=8, num_heads=2, top_k=4)
    assert nacre.create("nac", d_input=5, d_model=8, num_heads=2, top_k=4, causal=True).config.causal


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="'sdpa' is registered twice"):
        registry.register("sdpa", kind="x", summary="x", uses_time=False)(lambda: torch.nn.Identity())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_parity_sdpa_is_torch_multihead_attention(causal, padded):
    model = nacre.create("sdpa", d_input=8, d_model=8, num_heads=2, causal=causal).double()
    torch_mha = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        parts = (model.query_proj, model.key_proj, model.value_proj)
        torch_mha.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        torch_mha.in_proj_bias.copy_(torch.cat([model.query_proj.bias, torch.zeros(8), model.value_proj.bias]))
        torch_mha.out_proj.load_state_dict(model.out_proj.state_dict())
    x = torch.randn(3, 7, 8, dtype=torch.float64)
    padding = (torch.arange(7) >= torch.tensor([7, 4, 1])[:, None]) if padded else None
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    want, _ = torch_mha(x, x, x, key_padding_mask=padding, attn_mask=mask)
    if padding is not None:
        want = want.masked_fill(padding[..., None], 0)
    torch.testing.assert_close(model(x, key_padding_mask=padding), want, rtol=1e-9, atol=1e-9)


def test_sdpa_every_parameter_learns_and_empty_rows_are_zero():
    model = nacre.create("sdpa", d_input=5, d_model=8, num_heads=2)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[0] = True
    x = torch.full((2, 6, 5), float("nan"))
    x[1] = torch.randn(6, 5)
    y = model(x, key_padding_mask=padding)
    assert (y[0] == 0).all()
    y.square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None
        assert p.grad.isfinite().all(), name
        assert (p.grad != 0).any(), name


def test_sdpa_refuses_bad_input():
    with pytest.raises(ValueError, match="multiple of num_heads, got d_model=8, num_heads=3"):
        nacre.create("sdpa", d_input=5, d_model=8, num_heads=3)
    model = nacre.create("sdpa", d_input=5, d_model=8, num_heads=2)
    with pytest.raises(ValueError, match="time must have shape"):
        model(torch.randn(2, 6, 5), time=torch.rand(6))
