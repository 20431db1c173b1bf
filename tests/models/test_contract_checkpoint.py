"""Every model of the zoo trains with non-reentrant gradient checkpointing, as if it were not there."""

import copy

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import nacre
from nacre.layer import pairs
from support.models import batch, case, make, names, padding_of


def run(model, wrapped, *, twice=False):
    """Output and all gradients of a loss with the model's own part; with `twice`, those of a loss of gradients."""
    torch.manual_seed(5)
    x, time = batch()
    x.requires_grad_()
    padding = padding_of(3, 9, "inside")

    def call(x):
        return model(x, time=time, key_padding_mask=padding)

    y = checkpoint(call, x, use_reentrant=False) if wrapped else call(x)
    loss = y.square().sum() + (0 if getattr(model, "aux_loss", None) is None else model.aux_loss)
    inputs = [x, *model.parameters()]
    grads = torch.autograd.grad(loss, inputs, create_graph=twice)
    if twice:
        loss = sum(grad.square().sum() for grad in grads)
        grads = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
    return [y.detach(), *grads]


def same(model, **options):
    """Whether a run with checkpointing gives every bit of a run without it, and leaves the same buffers."""
    twin = copy.deepcopy(model)
    plain, wrapped = run(twin, False, **options), run(model, True, **options)
    both = zip([*plain, *twin.buffers()], [*wrapped, *model.buffers()], strict=True)
    return all(torch.equal(a, b) for a, b in both)


def test_gradients_are_those_without_checkpointing():
    for name in names("nac-euler", "nac-steady", "nac-pw"):
        with case(name):
            assert same(make(name))


@pytest.mark.parametrize("name", ["nac", "nac-plus", "cfc-fc", "cfc-ncp", "ltc-ncp"])
def test_gradients_of_gradients_are_too(name):
    assert same(make(name), twice=True)


def test_models_with_dropout_draw_it_once():
    for name in ("nac", "nac-plus", "sdpa", "odeformer", "ot-transformer"):
        with case(name):
            assert same(make(name, dropout=0.5))


@pytest.mark.parametrize("match", ["none", "both"])
def test_encoders(match):
    torch.manual_seed(1)
    config = nacre.NACConfig(d_model=8, num_heads=2, d_input=5, dropout=0.2, match=match)
    assert same(nacre.NACEncoder(config, num_layers=2))


@pytest.mark.parametrize("name", ["nac", "nac-plus"])
def test_around_the_chunks_that_a_layer_recomputes_itself(name, monkeypatch):
    monkeypatch.setattr(pairs, "CHUNK_NUMBERS", 2000)
    assert same(make(name, dropout=0.2))


def test_a_recomputed_pass_draws_no_new_features():
    model = make("performer", redraw=1)
    first = model.projection.clone()
    assert same(model)
    assert torch.equal(model.projection, first)
    assert same(model)  # this pass draws, and its recomputation does not
    assert not torch.equal(model.projection, first)
