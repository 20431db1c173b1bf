"""Fit x P(x^2) / Q(x^2) to tanh, for the kernels in src/nacre/native.

Least squares of the relative error, linearised in the coefficients and weighted anew until the largest error is
spread evenly over the interval.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.polynomial import polyval

EDGE = 9.02  # from here on tanh is 1 in float32
DEGREE = 4  # of both polynomials in x^2
ROUNDS = 200


def fit() -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients of P and Q from the constant on, and the largest relative error."""
    x = np.concatenate([np.geomspace(1e-3, EDGE, 3000), EDGE * (1 - np.cos(np.linspace(0.01, np.pi, 3000))) / 2])
    want, z = np.tanh(x), (x / EDGE) ** 2
    powers = z[:, None] ** np.arange(DEGREE + 1)
    table = np.concatenate([x[:, None] * powers, -want[:, None] * powers[:, 1:]], 1)  # x P - tanh (Q - 1) = tanh
    importance = q_of_z = error = np.ones_like(x)
    p = q = np.ones(DEGREE + 1)
    for _ in range(ROUNDS):
        scale = importance / (want * q_of_z)
        both, *_ = np.linalg.lstsq(table * scale[:, None], want * scale, rcond=None)
        p, q = both[: DEGREE + 1], np.concatenate([[1], both[DEGREE + 1 :]])
        q_of_z = polyval(z, q)
        error = np.abs(x * polyval(z, p) / q_of_z / want - 1)
        importance = importance * np.sqrt(error / error.max() + 1e-3)
        importance = importance / importance.max()
    unit = EDGE ** (-2.0 * np.arange(DEGREE + 1))
    return p * unit, q * unit, error.max()


if __name__ == "__main__":
    p, q, error = fit()
    for name, values in (("P", p), ("Q", q)):
        print(name, ", ".join(f"{value:.9e}f" for value in values))  # noqa: T201
    print(f"largest relative error {error:.1e} before rounding to float32")  # noqa: T201
