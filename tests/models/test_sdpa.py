"""SDPA against torch."""

import pytest
import torch

import nacre
from reference.compare import assert_same


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("causal", "padded"), [(False, True), (True, True), (True, False)])
def test_parity_sdpa_is_torch_multihead_attention(causal, padded, dtype, near):
    model = nacre.create("sdpa", d_input=8, d_model=8, num_heads=2, causal=causal).to(dtype)
    torch_mha = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=dtype)
    with torch.no_grad():
        parts = (model.query_proj, model.key_proj, model.value_proj)
        torch_mha.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        torch_mha.in_proj_bias.copy_(torch.cat([model.query_proj.bias, torch.zeros(8), model.value_proj.bias]))
        torch_mha.out_proj.load_state_dict(model.out_proj.state_dict())
    x = torch.randn(3, 7, 8, dtype=dtype, requires_grad=True)
    padding = (torch.arange(7) >= torch.tensor([7, 4, 1])[:, None]) if padded else None
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    want, _ = torch_mha(x, x, x, key_padding_mask=padding, attn_mask=mask)
    if padding is not None:
        want = want.masked_fill(padding[..., None], 0)
    assert_same(model(x, key_padding_mask=padding), want, [x], near)


def test_sdpa_refuses_bad_input():
    with pytest.raises(ValueError, match="multiple of num_heads, got d_model=8, num_heads=3"):
        nacre.create("sdpa", d_input=5, d_model=8, num_heads=3)
    model = nacre.create("sdpa", d_input=5, d_model=8, num_heads=2)
    with pytest.raises(ValueError, match="time must have shape"):
        model(torch.randn(2, 6, 5), time=torch.rand(5))
