"""`TemporalConvolution`: convolutions against plain loops, and that padding never reaches a token."""

import math
from itertools import product

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from nacre.tasks.convolution import TemporalConvolution
from support.hypothesis import examples

LENGTHS = (13, 7, 1, 10)
SHAPES = [
    [(4, 5, 1)],
    [(4, 5, 1), (6, 3, 1)],
    [(4, 3, 2)],
    [(4, 5, 5), (6, 5, 5)],
    [(3, 1, 4)],
    [(4, 3, 1), (5, 3, 3)],
    [(4, 3, 1), (3, 2, 1)],
    [(4, 4, 1)],
]


def ragged(lengths=LENGTHS, longest=13, poison=0.0):
    """Steps [B, T, 2], stamps and padding; what is in padding is the poison."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(len(lengths), 13, 2, generator=random)
    time = torch.rand(len(lengths), 13, generator=random, dtype=torch.float64).add(0.1).cumsum(1)
    x, time = x[:, :longest], time[:, :longest]
    if longest > 13:
        x = nn.functional.pad(x, (0, 0, 0, longest - 13))
        time = nn.functional.pad(time, (0, longest - 13))
    padding = torch.arange(longest) >= torch.tensor(lengths).unsqueeze(1)
    return x.masked_fill(padding.unsqueeze(-1), poison), time.masked_fill(padding, poison), padding


def slow_layer(layer, steps, stamps):
    """One convolution over a sequence without padding: [[feature]], [stamp] -> the same of its tokens.

    A token is there as long as it covers a step. With stride 1 only those with a step of their own are kept.
    """
    weight, bias = layer.weight.double().tolist(), layer.bias.double().tolist()  # [out][in][tap]
    (kernel,), (stride,) = layer.kernel_size, layer.stride
    tokens, times, middle = [], [], 0
    while (middle < len(steps)) if stride == 1 else (middle - kernel // 2 < len(steps)):
        covered = [i for i in range(middle - kernel // 2, middle + (kernel + 1) // 2) if 0 <= i < len(steps)]
        sums = [
            bias[out]
            + sum(
                weight[out][feature][i - middle + kernel // 2] * number
                for i in covered
                for feature, number in enumerate(steps[i])
            )
            for out in range(len(bias))
        ]
        tokens.append([max(0.0, total) for total in sums])
        times.append(stamps[middle] if stride == 1 else max(stamps[i] for i in covered))
        middle += stride
    return tokens, times


@given(st.sampled_from(SHAPES), st.lists(st.integers(1, 13), min_size=1, max_size=4))
@examples(200)
@example(SHAPES[3], LENGTHS)
@example(SHAPES[6], LENGTHS)
def test_tokens_stamps_and_padding_equal_a_plain_loop_over_each_sequence(shape, lengths):
    torch.manual_seed(0)
    front = TemporalConvolution(2, shape)
    x, time, padding = ragged(lengths, max(lengths))
    tokens, stamps, empty = front(x, time, padding)
    assert front.width == shape[-1][0] == tokens.shape[-1]
    assert tokens.shape[:2] == stamps.shape == empty.shape
    for row, length in enumerate(lengths):
        steps, moments = x[row, :length].tolist(), time[row, :length].tolist()
        for layer in front.layers:
            steps, moments = slow_layer(layer, steps, moments)
        assert empty[row].tolist() == [False] * len(steps) + [True] * (empty.shape[1] - len(steps))
        torch.testing.assert_close(tokens[row, : len(steps)], torch.tensor(steps), rtol=1e-5, atol=1e-6)
        assert stamps[row, : len(steps)].tolist() == moments


def test_a_token_stands_for_every_step_unless_the_stride_leaps_over_it():
    for kernel, stride, length in product([1, 3, 5], [2, 3, 5], range(1, 14)):
        front = TemporalConvolution(2, [(4, kernel, stride)])
        nn.init.constant_(front.layers[0].bias, 100.0)  # no ReLU is shut
        x, time, padding = ragged((length,), length)
        tokens, _, _ = front(x.requires_grad_(), time, padding)
        (reached,) = torch.autograd.grad(tokens.sum(), x)
        skipped = [step for step in range(length) if min(step % stride, -step % stride) > kernel // 2]
        assert (reached[0] == 0).all(1).nonzero().flatten().tolist() == skipped, (kernel, stride, length)


def test_256_events_become_11_tokens_as_in_the_authors_code():
    front = TemporalConvolution(2, [(4, 5, 5), (4, 5, 5)])
    tokens, _, empty = front(torch.randn(1, 256, 2), torch.arange(256.0).view(1, -1), torch.zeros(1, 256).bool())
    assert tokens.shape == (1, 11, 4)
    assert not empty.any()


def test_what_is_in_padding_changes_no_token_and_no_gradient():
    def run(front, poison):
        front.zero_grad()
        x, time, padding = ragged(poison=poison)
        tokens, stamps, empty = front(x.requires_grad_(), time, padding)
        tokens[~empty].square().sum().backward()
        return tokens[~empty], stamps[~empty], empty, x.grad, *(p.grad.clone() for p in front.parameters())

    for shape in SHAPES:
        front = TemporalConvolution(2, shape)
        wanted = run(front, 0.0)
        for poison in (math.nan, math.inf, -1e30):
            same = [torch.equal(a, b) for a, b in zip(wanted, run(front, poison), strict=True)]
            assert all(same), (shape, poison, same)


@given(st.sampled_from(SHAPES), st.integers(13, 30))
@examples(80)
def test_a_longer_batch_gives_the_same_tokens(shape, longest):
    torch.manual_seed(0)
    front = TemporalConvolution(2, shape)
    tokens, stamps, empty = front(*ragged())
    longer_tokens, longer_stamps, longer_empty = front(*ragged(longest=longest))
    width = empty.shape[1]
    assert longer_empty[:, width:].all()
    assert torch.equal(longer_empty[:, :width], empty)
    torch.testing.assert_close(longer_tokens[:, :width][~empty], tokens[~empty], rtol=0, atol=1e-6)
    assert torch.equal(longer_stamps[:, :width][~empty], stamps[~empty])


def test_stamps_of_tokens_never_go_back_and_are_finite():
    for shape in SHAPES:
        _, stamps, empty = TemporalConvolution(2, shape)(*ragged(poison=math.nan))
        if any(stride > 1 for _, _, stride in shape):
            assert stamps.isfinite().all(), shape
        for row, padded in zip(stamps, empty, strict=True):
            assert (row[~padded].diff() >= 0).all(), shape
        assert stamps.dtype == torch.float64, shape


def test_a_row_of_nothing_but_padding_has_no_token():
    x, time, padding = ragged(lengths=(13, 0))
    _, stamps, empty = TemporalConvolution(2, [(4, 3, 2)])(x, time, padding)
    assert empty[1].all()
    assert not empty[0].any()
    assert stamps.isfinite().all()


def test_every_parameter_learns():
    for shape in SHAPES:
        front = TemporalConvolution(2, shape)
        tokens, _, empty = front(*ragged())
        (tokens * torch.randn_like(tokens))[~empty].sum().backward()
        for name, parameter in front.named_parameters():
            assert (parameter.grad != 0).any(), (shape, name)


def test_without_convolutions_nothing_happens():
    x, time, padding = ragged()
    front = TemporalConvolution(2, [])
    assert front.width == 2
    assert all(a is b for a, b in zip(front(x, time, padding), (x, time, padding), strict=True))


def test_even_kernels_with_strides_are_refused():
    with pytest.raises(ValueError, match="kernel sizes must be odd where the stride is not 1, got 4 and 2"):
        TemporalConvolution(2, [(3, 4, 2)])


@pytest.mark.parametrize(
    ("convolution", "message"),
    [
        ((0, 3, 1), "filters of conv must be at least 1, got 0"),
        ((3, 3.0, 1), "kernel size of conv must be an integer, got 3.0"),
        ((3, 3, 2**40 + 1), "stride of conv must be at most"),
    ],
)
def test_impossible_convolutions_are_refused(convolution, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TemporalConvolution(2, [convolution])
