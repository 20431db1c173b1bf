"""Ways to break a layer on purpose."""

import torch


def batch(rows=6, length=14, width=16, dtype=torch.float32):
    return torch.randn(rows, length, width, dtype=dtype), torch.rand(rows, length, dtype=dtype).cumsum(1)


def wipe(parameter, where, head):
    """Set the existing entries of a masked parameter at a place of its table to 0."""
    gone = torch.zeros(parameter.shape, dtype=torch.bool)
    gone[where] = True
    with torch.no_grad():
        parameter.weight[head, gone.flatten()[parameter.index]] = 0


def deafen(weights, neuron, head=0):
    """Take everything away that drives a neuron."""
    wipe(weights.input_weight, (slice(None), neuron), head)
    wipe(weights.bias, neuron, head)
    if weights.recurrent_weight is not None:
        wipe(weights.recurrent_weight, (slice(None), neuron), head)


def named(findings):
    return {(f.head, f.group, f.index) for f in findings}
