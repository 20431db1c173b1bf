"""`check_model`: good models pass, and each promise that is broken is named."""

import pytest
import torch
from torch import nn

import nacre
from support.models import BASELINES, each


@each([*BASELINES, "nac", "nac-plus"])
def test_models_of_nacre_pass(name):
    kept = nacre.check_model(name)
    assert len(kept) >= 8
    assert any("only ask" in words for words in kept)


class Mean(nn.Module):
    """The mean of all steps beside each: the least that passes. Others break one promise of it."""

    def __init__(self, d_input, d_model):
        super().__init__()
        self.inputs = nn.Linear(2 * d_input, d_model)

    def forward(self, x, time=None, key_padding_mask=None):
        padding = torch.zeros(x.shape[:2], dtype=torch.bool) if key_padding_mask is None else key_padding_mask
        return self.outputs(x.masked_fill(padding.unsqueeze(-1), 0), ~padding).masked_fill(
            padding.unsqueeze(-1), 0
        )

    def outputs(self, x, valid):
        mean = x.sum(1, keepdim=True) / valid.sum(1)[:, None, None]
        return self.inputs(torch.cat([x, mean.expand_as(x)], -1))


class Narrow(Mean):
    def outputs(self, x, valid):
        return super().outputs(x, valid)[..., 1:]


class Padded(Mean):
    def forward(self, x, time=None, key_padding_mask=None):
        return super().forward(x)


class Batched(Mean):
    def outputs(self, x, valid):
        return super().outputs(x, valid) + x.abs().max()


class Deaf(Mean):
    def __init__(self, d_input, d_model):
        super().__init__(d_input, d_model)
        self.unused = nn.Parameter(torch.ones(3))


class Noisy(Mean):
    def outputs(self, x, valid):
        return super().outputs(x, valid) + torch.rand(())


class Forgetful(Mean):
    def __init__(self, d_input, d_model):
        super().__init__(d_input, d_model)
        self.kept = [nn.Linear(d_model, d_model)]  # not in the state dict, and not the same twice
        self.kept[0].weight.data.normal_(generator=torch.Generator().manual_seed(id(self) % 2**31))

    def outputs(self, x, valid):
        return self.kept[0].to(x.dtype)(super().outputs(x, valid))


class Fixed(Mean):
    model_info = nacre.ModelInfo("", "other", "", "", uses_time=True, causal=False, cost="", checked="")


class Early(Mean):
    model_info = nacre.ModelInfo("", "other", "", "", uses_time=False, causal=True, cost="", checked="")


class Asked(Mean):
    def forward(self, x, time=None, key_padding_mask=None, *, query_only=None):
        return super().forward(x, time, key_padding_mask)


BROKEN = {
    Narrow: "Outputs are",
    Padded: "What stands at padded steps",
    Batched: "A batch gives what its rows give",
    Deaf: "Every parameter gets a gradient",
    Noisy: "In evaluation mode",
    Forgetful: "All that it learns is in its state dict",
    Fixed: "Time stamps change outputs",
    Early: "Later steps change no earlier output",
    Asked: "Steps that only ask",
}


def test_the_least_model_passes():
    assert len(nacre.check_model(Mean)) == 6


@pytest.mark.parametrize("model", BROKEN)
def test_each_broken_promise_is_named(model):
    with pytest.raises(ValueError, match=f"does not keep what networks need:\\n(.*\\n)*- {BROKEN[model]}"):
        nacre.check_model(model)


def test_random_numbers_of_the_caller_are_left_alone():
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    nacre.check_model(Mean)
    assert torch.equal(torch.rand(3), want)
