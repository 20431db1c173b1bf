"""Functions for a layer to fit: the sine of one number, and a smooth maximum of a set of eight."""

import math
from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

SET_SIZE, SET_REACH, SHARPNESS = 8, 2.0, 2.0
SINE_REACH = 2 * math.pi
GRID_POINTS = 500  # on which a fitted sine is drawn, as in the authors' demo
_TRAIN, _HELD_OUT = 3200, 1000  # 4,000 less the fifth that the authors' demo validates on, and 1,000
_HELD_OUT_SEED = 1_000_003
_DEGREE = 7  # of the polynomials in the control "sum of functions"


class Target(StrEnum):
    """What is to be fitted."""

    SIN = "sin"
    """sin x for x in (-2 pi, 2 pi): a sequence of one step, as in the authors' demo."""
    SET = "set"
    """log(mean(exp(2 x))) / 2 of eight x in (-2, 2): no sum of functions of single numbers can give it."""


class Points(NamedTuple):
    """Inputs [N, T, 1] and what should come out [N]."""

    x: Tensor
    y: Tensor


def value(target: str, x: Tensor) -> Tensor:
    """The true function, [N, T, 1] -> [N].

    Example:
        >>> value("set", torch.ones(1, 8, 1))
        tensor([1.])
    """
    if target == Target.SIN:
        return x[:, 0, 0].sin()
    return (torch.logsumexp(SHARPNESS * x[..., 0], 1) - math.log(x.shape[1])) / SHARPNESS


def draw(target: str, count: int, generator: torch.Generator) -> Points:
    """Points with evenly distributed inputs."""
    length, reach = (1, SINE_REACH) if target == Target.SIN else (SET_SIZE, SET_REACH)
    x = (torch.rand(count, length, 1, generator=generator) * 2 - 1) * reach
    return Points(x, value(target, x))


def training(target: str, seed: int) -> Points:
    """The points that a run trains on."""
    return draw(target, _TRAIN, torch.Generator().manual_seed(seed))


def held_out(target: str) -> Points:
    """Points that no run trains on, the same for all."""
    return draw(target, _HELD_OUT, torch.Generator().manual_seed(_HELD_OUT_SEED))


def grid() -> Points:
    """Even points over the range of the sine."""
    x = torch.linspace(-SINE_REACH, SINE_REACH, GRID_POINTS).view(-1, 1, 1)
    return Points(x, value(Target.SIN, x))


def controls(target: str) -> dict[str, float]:
    """Mean squared errors of fits without any network, by least squares: what a layer has to beat.

    "constant" answers with the mean; "affine" with the best straight line over the input (of a set: over its mean,
    since order means nothing); "sum of functions", of sets only, with the best sum of a polynomial of each number.

    Example:
        >>> {name: round(error, 2) for name, error in controls("set").items()}
        {'constant': 0.15, 'affine': 0.07, 'sum of functions': 0.03}
    """
    degrees = {"constant": 0, "affine": 1}
    if target == Target.SET:
        degrees["sum of functions"] = _DEGREE
    seen, asked = training(target, 0), held_out(target)
    errors = {}
    for name, degree in degrees.items():
        weight = torch.linalg.lstsq(_powers(seen.x, degree), seen.y.double().unsqueeze(1)).solution
        residual = (_powers(asked.x, degree) @ weight).squeeze(1) - asked.y
        errors[name] = residual.square().mean().item()
    return errors


def _powers(x: Tensor, degree: int) -> Tensor:
    """Means over a sequence of 1, x, x^2, ..., [N, degree + 1], in float64."""
    x = x[..., 0].double() / x.abs().max()
    return torch.stack([(x**k).mean(1) for k in range(degree + 1)], 1)
