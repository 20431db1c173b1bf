"""Recurrent models in continuous time, step by step, with the solvers of torchdiffeq and the cells of torch.

Every function takes a model of the zoo for its weights, x [B, T, d_input] and time [B, T], so that gradients reach
the model's own parameters.
"""

import torch
from torch import nn
from torch.func import functional_call
from torchdiffeq import odeint


def solve(field, h, elapsed, unfolds):
    """h after elapsed [B, 1], in `unfolds` steps of Euler's method, or as exactly as can be if it is None.

    Rows have different elapsed times, so all are solved from 0 to 1 with their slopes scaled.
    """

    def scaled(_, state):
        return elapsed * field(state)

    if unfolds is None:
        return odeint(scaled, h, torch.tensor([0.0, 1.0], dtype=h.dtype), method="dopri5", rtol=1e-10, atol=1e-10)[
            -1
        ]
    return odeint(scaled, h, torch.linspace(0, 1, unfolds + 1, dtype=h.dtype), method="euler")[-1]


def relaxing(elapsed, unfolds):
    """The time for which a state with Euler steps of at most 1 unit flows."""
    return elapsed if unfolds is None else elapsed.clamp(max=unfolds)


def elapsed_at(time, step, first):
    """Time since the step before, [B, 1]."""
    return (time[:, step] - time[:, step - 1] if step else torch.full_like(time[:, 0], first))[:, None]


def initial(model, x):
    return x.new_zeros(x.shape[0], model.d_model)


def ct_rnn(model, x, time, unfolds):
    h, outputs = initial(model, x), []
    for i in range(x.shape[1]):
        held = x[:, i] @ model.input_proj.weight.T + model.input_proj.bias

        def field(h, held=held):
            return model.gain * torch.tanh(held + h @ model.state_weight) - h

        h = solve(field, h, relaxing(elapsed_at(time, i, 1.0), unfolds), unfolds)
        outputs.append(h)
    return torch.stack(outputs, 1)


def gru_ode(model, x, time, unfolds):
    w_r, w_z, w_c = model.input_proj.weight.chunk(3)
    b_r, b_z, b_c = model.input_proj.bias.chunk(3)
    u_r, u_z = model.gate_weight.chunk(2, 1)
    h, outputs = initial(model, x), []
    for i in range(x.shape[1]):

        def field(h, held=x[:, i]):
            r = torch.sigmoid(held @ w_r.T + h @ u_r + b_r)
            z = torch.sigmoid(held @ w_z.T + h @ u_z + b_z)
            c = torch.tanh(held @ w_c.T + (r * h) @ model.candidate_weight + b_c)
            return (1 - z) * (c - h)

        h = solve(field, h, relaxing(elapsed_at(time, i, 1.0), unfolds), unfolds)
        outputs.append(h)
    return torch.stack(outputs, 1)


def tanh_field(model):
    return lambda h: model.field_out(torch.tanh(model.field_in(h)))


def gru_weights(model):
    """Weights of ODERNN under the names of torch.nn.GRUCell."""
    return {
        "weight_ih": model.input_proj.weight,
        "weight_hh": torch.cat([model.gate_weight, model.candidate_weight], 1).T,
        "bias_ih": model.input_proj.bias,
        "bias_hh": torch.cat([torch.zeros_like(model.input_proj.bias[: 2 * model.d_model]), model.candidate_bias]),
    }


def ode_rnn(model, x, time, unfolds):
    cell, weights = nn.GRUCell(model.d_input, model.d_model), gru_weights(model)
    h, outputs = initial(model, x), []
    for i in range(x.shape[1]):
        h = solve(tanh_field(model), h, elapsed_at(time, i, 0.0), unfolds)
        h = functional_call(cell, weights, (x[:, i], h))
        outputs.append(h)
    return torch.stack(outputs, 1)


def lstm_weights(step):
    """Weights of LSTMStep, gates i, f, o, g, under the names of torch.nn.LSTMCell, gates i, f, g, o."""

    def reorder(stacked):
        i, f, o, g = stacked.chunk(4)
        return torch.cat([i, f, g, o])

    bias = reorder(step.input_proj.bias)
    return {
        "weight_ih": reorder(step.input_proj.weight),
        "weight_hh": reorder(step.state_weight.T),
        "bias_ih": bias,
        "bias_hh": torch.zeros_like(bias),
    }


def mmrnn(model, x, time, unfolds):
    cell, weights = nn.LSTMCell(model.d_input, model.d_model), lstm_weights(model.cell)
    h, c, outputs = initial(model, x), initial(model, x), []
    for i in range(x.shape[1]):
        h, c = functional_call(cell, weights, (x[:, i], (h, c)))
        h = solve(tanh_field(model), h, elapsed_at(time, i, 1.0), unfolds)
        outputs.append(h)
    return torch.stack(outputs, 1)


def openness(t, tau, s, r_on, leak):
    """Openness of one unit at one time, all of them scalars."""
    cycles = (t - s) / tau
    phase = cycles - torch.floor(cycles)
    if phase < r_on / 2:
        return 2 * phase / r_on
    if phase < r_on:
        return 2 - 2 * phase / r_on
    return leak * phase


def openness_of_units(model, time, leak):
    """[B, T, d], by one scalar after the other."""
    tau, r_on = model.log_period.exp(), torch.sigmoid(model.open_logit)
    units = range(model.d_model)
    values = [openness(t, tau[j], model.shift[j], r_on[j], leak) for t in time.flatten() for j in units]
    return torch.stack(values).view(*time.shape, model.d_model)


def phased_lstm(model, x, time, leak):
    cell, weights = nn.LSTMCell(model.d_input, model.d_model), lstm_weights(model.cell)
    k = openness_of_units(model, time, leak)
    h, c, outputs = initial(model, x), initial(model, x), []
    for i in range(x.shape[1]):
        new_h, new_c = functional_call(cell, weights, (x[:, i], (h, c)))
        c = k[:, i] * new_c + (1 - k[:, i]) * c
        h = k[:, i] * new_h + (1 - k[:, i]) * h
        outputs.append(h)
    return torch.stack(outputs, 1)
