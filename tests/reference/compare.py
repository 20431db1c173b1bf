"""Whether two ways of computing the same agree, in outputs and in gradients."""

import torch


def assert_same(got, want, inputs, near, *, grad_near=None):
    """Equal outputs, and equal gradients of a random function of them by all inputs.

    Args:
        got: Output under test.
        want: Output it should be.
        inputs: Tensors that both were computed from.
        near: Absolute and relative tolerance of outputs.
        grad_near: That of gradients, relative to the largest of each if that is above 1; `near` if not given.
    """
    torch.testing.assert_close(got, want, rtol=near, atol=near)
    weight = torch.randn_like(want)
    made = (torch.autograd.grad((y * weight).sum(), inputs, retain_graph=True) for y in (got, want))
    for ours, theirs in zip(*made, strict=True):
        size = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(
            ours / size, theirs / size, rtol=0, atol=near if grad_near is None else grad_near
        )


def assert_rows_same(model, oracle, x, time, lengths, near=1e-9):
    """`assert_same` for a padded batch and an oracle that takes one row [T, F] at times [T] without padding."""
    padding = torch.arange(x.shape[1]) >= torch.tensor(lengths)[:, None]
    rows = [oracle(x[b, :n], time[b, :n]) for b, n in enumerate(lengths)]
    want = torch.stack([torch.cat([row, row.new_zeros(x.shape[1] - len(row), row.shape[1])]) for row in rows])
    assert_same(model(x, time=time, key_padding_mask=padding), want, list(model.parameters()), near)
