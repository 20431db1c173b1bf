"""DeepState's filter in textbook form, one sample and channel at a time, and the joint Gaussian behind it."""

import torch
from scipy.stats import multivariate_normal


def move(rate, drive, elapsed):
    """F and Q of dl = -diag(rate) l dt + drive dw over the elapsed time, by the matrix exponential of Van Loan."""
    size = len(rate)
    zero = torch.zeros(size, size, dtype=rate.dtype)
    both = torch.cat(
        [
            torch.cat([torch.diag(rate), torch.outer(drive, drive)], 1),
            torch.cat([zero, -torch.diag(rate)], 1),
        ]
    )
    both = torch.matrix_exp(both * elapsed)
    factor = both[size:, size:].T
    return factor, factor @ both[:size, size:]


def emitted(model, h, channel):
    """Parameters of each step of one sample, from the LSTM's outputs [T, hidden]: a, rate, g, b, sigma."""
    n = model.latent
    start = channel * (3 * n + 2)
    raw = (h @ model.emit.weight.T + model.emit.bias)[:, start : start + 3 * n + 2]
    a = raw[:, :n]
    rate = torch.log1p(torch.exp(raw[:, n : 2 * n])) + 1e-6
    g = 1e-6 + (1 - 1e-6) / (1 + torch.exp(-raw[:, 2 * n : 3 * n]))
    return a, rate, g, raw[:, 3 * n], 0.01 + 0.99 / (1 + torch.exp(-raw[:, 3 * n + 1]))


def prior(model, channel):
    std = 1e-6 + (1 - 1e-6) / (1 + torch.exp(-model.prior_std[channel]))
    return model.prior_mean[channel], torch.diag(std**2)


def kalman(model, x, time, channel):
    """Means [T, l], covariances [T, l, l] and log densities [T] of one sample, in the order of the paper."""
    a, rate, g, b, sigma = emitted(model, model.lstm(x[None])[0][0], channel)
    z = x @ model.observe.weight[channel]
    m, s = prior(model, channel)
    means, covariances, densities = [], [], []
    for i in range(len(x)):
        error, q = z[i] - a[i] @ m - b[i], a[i] @ s @ a[i] + sigma[i] ** 2
        gain = s @ a[i] / q
        m = m + gain * error
        s = (torch.eye(len(m), dtype=x.dtype) - torch.outer(gain, a[i])) @ s
        means.append(m)
        covariances.append(s)
        densities.append(-0.5 * (torch.log(2 * torch.pi * q) + error**2 / q))
        if i + 1 < len(x):
            factor, added = move(rate[i], g[i], time[i + 1] - time[i])
            m, s = factor @ m, factor @ s @ factor.T + added
    return torch.stack(means), torch.stack(covariances), torch.stack(densities)


def joint(model, x, time, channel):
    """Log density of all observations of one sample, and mean and covariance of the last state given them.

    No filter: all states are a linear map of the first and of the independent innovations.
    """
    a, rate, g, b, sigma = emitted(model, model.lstm(x[None])[0][0], channel)
    length, n = a.shape
    mean, covariance = prior(model, channel)
    sources = torch.block_diag(
        covariance, *(move(rate[i], g[i], time[i + 1] - time[i])[1] for i in range(length - 1))
    )
    maps, means = [torch.eye(n, length * n, dtype=x.dtype)], [mean]
    for i in range(length - 1):
        factor = move(rate[i], g[i], time[i + 1] - time[i])[0]
        new = torch.zeros(n, length * n, dtype=x.dtype)
        new[:, (i + 1) * n : (i + 2) * n] = torch.eye(n, dtype=x.dtype)
        maps.append(factor @ maps[-1] + new)
        means.append(factor @ means[-1])
    read = torch.block_diag(*a)  # [T, T l]
    states = torch.cat(maps) @ sources @ torch.cat(maps).T
    z = x @ model.observe.weight[channel]
    z_mean, z_cov = read @ torch.cat(means) + b, read @ states @ read.T + torch.diag(sigma**2)
    density = multivariate_normal(z_mean.numpy(), z_cov.numpy()).logpdf(z.numpy())
    both = states[-n:] @ read.T  # of the last state and all observations
    gain = torch.linalg.solve(z_cov, both.T).T
    return density, means[-1] + gain @ (z - z_mean), states[-n:, -n:] - gain @ both.T
