"""S4 as slowly and as obviously as possible, in double precision."""

import torch


def hold(matrix, inlet, duration):
    """What a state of dx/dt = matrix x + inlet u becomes, as (factor, gain), while u is held for a duration."""
    size = matrix.shape[-1]
    both = torch.zeros(size + 1, size + 1, dtype=matrix.dtype)
    both[:size, :size], both[:size, size] = matrix * duration, inlet * duration
    both = torch.matrix_exp(both)
    return both[:size, :size], both[:size, size]


def state_space(u, times, matrix, inlet, outlet):
    """Outputs [T] of one channel u [T]; the first input is held for 1."""
    state, ys = torch.zeros_like(inlet), []
    for i in range(len(u)):
        factor, gain = hold(matrix, inlet, 1.0 if i == 0 else times[i] - times[i - 1])
        state = factor @ state + gain * u[i]
        ys.append((outlet @ state).real)
    return torch.stack(ys)


def s4(model, x, time):
    """The whole layer on [B, T, d_input] and stamps [B, T] in units of time_scale."""
    u = x @ model.in_proj.weight.T + model.in_proj.bias
    rows = []
    for row in range(len(x)):
        channels = []
        for c in range(model.d_model):
            half = torch.complex(-model.log_decay[c].exp(), model.frequency[c])
            eigenvalues = torch.cat([half, half.conj()])
            outlet = torch.complex(model.readout[c, :, 0], model.readout[c, :, 1])
            step = model.log_step[c].exp()
            y = state_space(
                u[row, :, c],
                time[row],
                torch.diag(eigenvalues) * step,
                torch.ones_like(eigenvalues) * step,
                torch.cat([outlet, outlet.conj()]),
            )
            channels.append(y + model.skip[c] * u[row, :, c])
        rows.append(torch.stack(channels, -1))
    y = torch.stack(rows)
    y = y * (1 + torch.erf(y / 2**0.5)) / 2
    value, gate = (y @ model.out_proj.weight.T + model.out_proj.bias).chunk(2, -1)
    y = u + value / (1 + torch.exp(-gate))
    y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    return y * model.norm.weight + model.norm.bias
