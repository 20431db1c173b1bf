"""The third motor neuron: values that excite, and values that inhibit."""

import ncps.wirings
import pytest
import torch

import nacre
from nacre.inspect.analysis.lesion import Lesion, lesioned
from nacre.native import library


def layer_and_inputs(**options):
    torch.manual_seed(0)
    layer = nacre.NAC(8, 2, inhibition=True, dtype=torch.float64, **options)
    x, time = torch.randn(2, 20, 8, dtype=torch.float64), torch.rand(2, 20, dtype=torch.float64).cumsum(1)
    return layer, x, time


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("integrate", [True, False])
def test_values_are_summed_with_the_effect_of_the_third_motor_neuron(kernels, integrate, monkeypatch):
    if not kernels:
        monkeypatch.setattr(library, "runs", lambda *tensors: False)
    layer, x, time = layer_and_inputs(integrate=integrate)
    y, trace = layer(x, time=time, return_trace=True)
    weights = layer.backbone.weights
    by_head = (1, 2, 1, 1)
    m = trace.motor[..., 2] * weights.output_scale[:, 2].view(by_head) + weights.output_shift[:, 2].view(by_head)
    torch.testing.assert_close(trace.effect, torch.where(trace.valid, 1 + m, 0))
    share = trace.weights * trace.effect * (trace.t if integrate else 1)
    rows = trace.index.flatten(2)[..., None].expand(-1, -1, -1, 4)
    value = trace.value.gather(2, rows).unflatten(2, trace.index.shape[2:])  # [B, H, T, K, D]
    heads = (share.unsqueeze(-1) * value).sum(3).transpose(1, 2).flatten(2)
    torch.testing.assert_close(y, layer.out_proj(heads))


def test_a_new_layer_excites_all_alike():
    layer, x, time = layer_and_inputs()
    _, first = layer(x, time=time, return_trace=True)
    layer.reset_parameters()
    _, again = layer(x, time=time, return_trace=True)
    for trace in (first, again):
        effect = trace.effect[trace.valid]
        assert (effect - 1).abs().max() <= 0.1
        assert len(effect.unique()) > 100  # and yet every neuron behind it learns


def test_what_inhibits_is_subtracted():
    layer, x, time = layer_and_inputs()
    weights, last = layer.backbone.weights, layer.out_proj
    with torch.no_grad():
        last.bias.zero_()
        weights.output_scale[:, 2] = 0
        excited = layer(x, time=time)
        weights.output_shift[:, 2] = -2
        torch.testing.assert_close(layer(x, time=time), -excited)
        weights.output_shift[:, 2] = -1
        assert (layer(x, time=time) == 0).all()


def test_a_silent_motor_neuron_leaves_one_effect_for_all_pairs():
    layer, x, time = layer_and_inputs()
    _, trace = lesioned(layer, [Lesion("motor", 2, head=1)])(x, time=time, return_trace=True)
    shift = layer.backbone.weights.output_shift[1, 2]
    assert torch.equal(trace.effect[:, 1][trace.valid[:, 1]].unique(), (1 + shift).view(1))
    assert len(trace.effect[:, 0][trace.valid[:, 0]].unique()) > 100
    torch.testing.assert_close(trace.phi, layer(x, time=time, return_trace=True)[1].phi)


@pytest.mark.parametrize("shared", [False, True])
def test_the_certificate_shows_effects_within_their_limit(shared):
    layer, x, time = layer_and_inputs(share_backbone=shared)
    with torch.no_grad():
        layer.backbone.weights.output_scale[:, 2] *= 5
    certificate = nacre.certify(layer, x, time)
    for head, found in enumerate(certificate.heads):
        _, trace = layer(x, time=time, return_trace=True)
        seen = trace.effect[:, head][trace.valid[:, head]]
        assert found.effect == (seen.min().item(), seen.max().item())
        assert max(map(abs, found.effect)) <= found.effect_limit
        with torch.no_grad():  # the limit is that of a saturated neuron
            scale, shift = (x[0 if shared else head, 2].item() for x in _output_map(layer))
        assert found.effect_limit == pytest.approx(1 + abs(scale) + abs(shift))
    plain = nacre.certify(nacre.NAC(8, 2), x.float(), time).heads[0]
    assert (plain.effect, plain.effect_limit) == (None, 1.0)


def _output_map(layer):
    return layer.backbone.weights.output_scale, layer.backbone.weights.output_shift


def test_a_wiring_needs_a_motor_neuron_for_it():
    with pytest.raises(ValueError, match=r"3 motor neurons \(phi, omega and effect\), got Wiring"):
        nacre.NAC(8, 2, inhibition=True, wiring=ncps.wirings.AutoNCP(12, 2))
    with pytest.raises(ValueError, match=r"2 motor neurons \(phi and omega\), got Wiring"):
        nacre.NAC(8, 2, wiring=ncps.wirings.AutoNCP(12, 3))
