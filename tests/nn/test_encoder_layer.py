"""`NACEncoderLayer` inside `torch.nn.TransformerEncoder`, in place of PyTorch's own layer."""

import copy
import inspect
import warnings
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import nacre
from nacre.nn import NACEncoderLayer, stamps
from support.refused import refused

ROWS, LENGTH, WIDTH = 3, 10, 8


def encoder(batch_first=True, **options):
    torch.manual_seed(0)
    layer = NACEncoderLayer(WIDTH, 2, 16, 0.0, batch_first=batch_first, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)


def drawn():
    torch.manual_seed(1)
    padding = torch.arange(LENGTH) >= torch.tensor([[LENGTH], [7], [3]])
    return torch.randn(ROWS, LENGTH, WIDTH), torch.rand(ROWS, LENGTH).cumsum(1), padding


def test_signatures_are_those_of_torch():
    want = list(inspect.signature(nn.TransformerEncoderLayer.__init__).parameters)
    assert list(inspect.signature(NACEncoderLayer.__init__).parameters) == [*want, "layer"]
    want = list(inspect.signature(nn.TransformerEncoderLayer.forward).parameters)
    assert list(inspect.signature(NACEncoderLayer.forward).parameters) == [*want, "time"]


@pytest.mark.parametrize("norm_first", [True, False])
def test_it_is_what_the_formula_says(norm_first):
    net = encoder(norm_first=norm_first).eval()
    x, time, padding = drawn()
    want = x
    for layer in net.layers:
        attend = layer.self_attn.layer
        if norm_first:
            want = want + attend(layer.norm1(want), time=time, key_padding_mask=padding)
            want = want + layer._ff_block(layer.norm2(want))
        else:
            want = layer.norm1(want + attend(want, time=time, key_padding_mask=padding))
            want = layer.norm2(want + layer._ff_block(want))
    with stamps(time):
        got = net(x, src_key_padding_mask=padding)
    torch.testing.assert_close(got, want)
    assert not torch.allclose(got, net(x, src_key_padding_mask=padding))  # time acts


def test_padding_changes_nothing_and_the_layout_may_be_either():
    x, time, padding = drawn()
    first, second = encoder().eval(), encoder(batch_first=False).eval()
    second.load_state_dict(first.state_dict())
    with stamps(time):
        want = first(x, src_key_padding_mask=padding)
        dirty = first(x.masked_fill(padding.unsqueeze(-1), 7.0), src_key_padding_mask=padding)
    assert torch.equal(dirty[~padding], want[~padding])
    with stamps(time.T):
        torch.testing.assert_close(second(x.transpose(0, 1), src_key_padding_mask=padding).transpose(0, 1), want)


@pytest.mark.parametrize("training", [True, False])
def test_causal_masks(training):
    net = encoder().train(training)
    x, time, _ = drawn()
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    changed = x.clone()
    changed[:, 6:] = 0
    with stamps(time):
        assert torch.equal(net(x, mask=mask)[:, :6], net(changed, mask=mask)[:, :6])
        assert not torch.equal(net(x)[:, :6], net(changed)[:, :6])


def test_the_shortcuts_of_evaluation_give_what_training_gives():
    x, time, padding = drawn()
    with pytest.warns(UserWarning, match="enable_nested_tensor"):
        net = nn.TransformerEncoder(NACEncoderLayer(WIDTH, 2, 16, 0.0, batch_first=True), num_layers=2)
    with stamps(time):
        want = net(x, src_key_padding_mask=padding)
        with torch.inference_mode():
            got = net.eval()(x, src_key_padding_mask=padding)
            copied = copy.deepcopy(net)(x, src_key_padding_mask=padding)
    assert torch.equal(got, copied)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_has_the_same_stamps_when_it_computes_again(reentrant):
    net = encoder()
    x, time, _ = drawn()
    x.requires_grad_()

    def timed(x, time):
        with stamps(time):
            return net(x)

    (want,) = torch.autograd.grad(timed(x, time).square().sum(), x)
    y = checkpoint(timed, x, time, use_reentrant=reentrant)
    y.square().sum().backward()
    assert torch.equal(x.grad, want)
    with stamps(time):
        y = checkpoint(net, x, use_reentrant=reentrant)
    with refused("enter stamps in the function that is checkpointed", RuntimeError):
        y.square().sum().backward()
    net(x).sum().backward()  # a call without stamps is sound afterwards


def test_time_by_keyword_wins_over_the_context():
    layer = NACEncoderLayer(WIDTH, 2, 16, 0.0, batch_first=True)
    x, time, _ = drawn()
    want = layer(x, time=time)
    with stamps(3 * time):
        assert torch.equal(layer(x, time=time), want)
    with stamps(time):
        assert torch.equal(layer(x), want)


@pytest.mark.parametrize("timed", [True, False])
def test_a_plain_program_trains_with_it_swapped_in(timed):
    torch.manual_seed(0)
    x, time, padding = drawn()
    y = x.cumsum(1)[..., :1].masked_fill(padding.unsqueeze(-1), 0)
    layer = NACEncoderLayer(
        WIDTH, 2, 16, 0.0, batch_first=True, layer=nacre.create("nac-plus", d_input=8, d_model=8, num_heads=2)
    )
    model = nn.ModuleList([nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(WIDTH, 1)])
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        with stamps(time) if timed else nullcontext():
            out = model[1](model[0](x, src_key_padding_mask=padding))
        loss = (out - y).masked_fill(padding.unsqueeze(-1), 0).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    assert all(p.grad is not None for p in model.parameters())
