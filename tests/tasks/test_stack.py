"""`ModelStack`: the formula, padding, losses of its own, and step by step."""

import pytest
import torch

import nacre
from nacre.tasks.network import TaskNetwork
from nacre.tasks.stack import ModelStack


def models(name, depth, **options):
    torch.manual_seed(0)
    return [nacre.create(name, d_input=8, d_model=8, num_heads=2, **options) for _ in range(depth)]


def batch(length=6):
    padding = torch.arange(length) >= torch.tensor([[length], [4], [1]])
    return torch.randn(3, length, 5), torch.rand(3, length).cumsum(1), padding


@pytest.mark.parametrize(("name", "depth"), [("sdpa", 2), ("cfc-fc", 1), ("nac", 2)])
def test_it_is_what_the_formula_says(name, depth):
    stack = ModelStack(models(name, depth), 5, 8)
    x, time, padding = batch()
    h = stack.embed(x.masked_fill(padding[..., None], 0))
    for block in stack.blocks:
        h = h + block.attention(block.attention_norm(h), time=time, key_padding_mask=padding)
        h = h + block.feedforward(block.feedforward_norm(h))
    want = stack.norm(h).masked_fill(padding[..., None], 0)
    assert torch.equal(stack(x, time, padding), want)
    assert (want[padding] == 0).all()
    dirty = x.masked_fill(padding[..., None], torch.nan)
    assert torch.equal(stack(dirty, time.masked_fill(padding, torch.nan), padding), want)


def test_losses_of_the_models_are_added():
    stack = ModelStack(models("ot-transformer", 2), 5, 8)
    stack(*batch())
    first, second = (block.attention.aux_loss for block in stack.blocks)
    assert stack.aux_loss == first + second
    plain = ModelStack(models("sdpa", 2), 5, 8)
    plain(*batch())
    assert plain.aux_loss is None


def test_a_stack_of_one_causal_layer_runs_step_by_step():
    stack = ModelStack(models("nac", 1, causal=True), 5, 8).eval()
    x, time = torch.randn(2, 9, 5), torch.rand(2, 9).cumsum(1)
    state, outputs = stack.init_state(2, 9), []
    for i in range(9):
        y, state = stack.step(x[:, i], state, time=time[:, i])
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs, 1), stack(x, time))


def test_dropout_acts_on_both_branches_in_training_only():
    stack = ModelStack(models("sdpa", 1), 5, 8, dropout=0.5)
    x, time, _ = batch()
    assert not torch.equal(stack(x, time), stack(x, time))
    stack.eval()
    assert torch.equal(stack(x, time), stack(x, time))


def test_blocks_have_wirings_of_their_own():
    network = TaskNetwork("nac", "classification", 3, 2, d_model=8, num_heads=2, depth=3)
    seeds = [block.attention.config.seed for block in network.layer.blocks]
    assert seeds == [seeds[0], seeds[0] + 1, seeds[0] + 2]
    with pytest.raises(ValueError, match="depth must be 1 without blocks, got 2"):
        TaskNetwork("nac", "classification", 3, 2, d_model=8, num_heads=2, block=False, depth=2)


@pytest.mark.parametrize(("name", "depth"), [("sdpa", 2), ("cfc-fc", 1), ("nac", 2), ("nac-plus", 1)])
def test_the_one_step_that_is_read_is_that_of_all_steps(name, depth):
    stack = ModelStack(models(name, depth), 5, 8).double()
    x, time, padding = batch()
    x = x.double().requires_grad_()
    last = (~padding).sum(1, keepdim=True) - 1  # [B, 1]
    got = stack(x, time, padding, read=last)
    want = stack(x, time, padding).take_along_dim(last.unsqueeze(-1), 1)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    gradients = [torch.autograd.grad(y.square().sum(), [x, *stack.parameters()]) for y in (got, want)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


class Watching:
    def __init__(self):
        self.scenes = []

    def begin(self, scene):
        self.scenes.append(scene)

    def see(self, rows, gates, neurons):
        pass


def test_an_observed_layer_answers_every_step():
    (model,) = models("nac", 1)
    model.observer = Watching()
    x, time, padding = batch()
    ModelStack([model], 5, 8)(x, time, padding, read=torch.zeros(3, 1, dtype=torch.int64))
    assert (model.observer.scenes[0].valid.any(-1).any(1) == ~padding).all()
