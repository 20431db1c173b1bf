"""LTC by the code of ncps, one row and one step at a time, on the parameters of the model under test."""

import ncps.wirings
import numpy as np
import torch
from ncps.torch import LTCCell


def wiring_of(model):
    """The ncps wiring that the model should have."""
    if type(model).__name__ == "LTCFC":
        return ncps.wirings.FullyConnected(model.d_model)
    units, motors = max(model.d_model, 8), max(2, model.d_model // 4)
    return ncps.wirings.AutoNCP(units, motors, sparsity_level=model.sparsity, seed=model.seed)


def dense(values, polarity):
    """Numbers of synapses, ordered by target and then by source, as ncps' table [sources, targets]."""
    target, source = (torch.from_numpy(i) for i in np.nonzero(polarity.T))
    return values.new_zeros(polarity.shape).index_put((source, target), values)


def softplus(raw):
    return (1 + raw.exp()).log() + 1e-8


def cell_of(model):
    """ncps' cell with the model's own tensors in place of its parameters, so that gradients reach the model."""
    wiring, neurons = wiring_of(model), model.neurons
    cell = LTCCell(wiring, model.d_input, ode_unfolds=model.unfolds, output_mapping=None)
    masks = {k: v.to(neurons.rest.dtype) for k, v in cell._params.items() if "mask" in k}
    cell._params = {
        **masks,
        "gleak": softplus(neurons.raw_leak),
        "vleak": neurons.rest,
        "cm": softplus(neurons.raw_capacity),
        "input_w": neurons.input_scale,
        "input_b": neurons.input_shift,
    }
    for prefix, part, polarity in (
        ("", neurons.recurrent, wiring.adjacency_matrix),
        ("sensory_", neurons.sensory, wiring.sensory_adjacency_matrix),
    ):
        for name, values in (
            ("w", softplus(part.raw_weight)),
            ("sigma", part.sigma),
            ("mu", part.mu),
            ("erev", part.reversal),
        ):
            cell._params[prefix + name] = dense(values, polarity)
    return cell


def ltc(model, x, time):
    """Outputs [B, T, d_model]; ncps' cell gets one row at a time, because it mixes up rows that differ in time."""
    cell, rows = cell_of(model), []
    for sequence, stamps in zip(x, time, strict=True):
        v, outputs = sequence.new_zeros(1, cell.state_size), []
        for i, step in enumerate(sequence):
            elapsed = stamps[i] - stamps[i - 1] if i else torch.tensor(1.0, dtype=time.dtype)
            out, v = cell(step[None], v, (elapsed / model.time_scale if i else elapsed).to(x.dtype))
            outputs.append(out[0])
        rows.append(torch.stack(outputs))
    motors = torch.stack(rows)
    if type(model).__name__ == "LTCFC":
        return motors * model.output_scale + model.output_shift
    return model.out_proj(motors)
