"""The models of the zoo by name, small, with inputs for them, and what several tests of models share."""

import contextlib

import pytest
import torch

import nacre
from reference.compare import assert_same
from support.hypothesis import DEEP

NAMES = nacre.list_models()
BASELINES = [n for n in NAMES if nacre.model_info(n).kind != "NAC"]
# Classes that a registered name makes only with an option.
CELLS = {"ode-rnn": ("ct-rnn", {"cell": "ode-rnn"})}
# One name of every class but NAC.
CLASSES = [*BASELINES, *CELLS]
SMALL = {"mtan": {"references": 16}}

ORDERS = {"euler": 1, "heun": 2, "rk4": 4}


def names(*variants):
    """One name of each class, `nac-plus`, and the NAC variants on which a property depends; all in deep runs."""
    return [*NAMES, *CELLS] if DEEP else [*CLASSES, "nac", "nac-plus", *variants]


def each(choice):
    """Run a test once for each of some names."""
    return pytest.mark.parametrize("name", choice)


@contextlib.contextmanager
def case(*labels):
    """Name the case of a loop in the message of a failure."""
    try:
        yield
    except BaseException as error:
        error.add_note("case: " + " ".join(map(str, labels)))
        raise


def info(name):
    """What the registry says about a name or cell."""
    return nacre.model_info(CELLS.get(name, (name,))[0])


def make(name, **options):
    torch.manual_seed(1)
    name, preset = CELLS.get(name, (name, SMALL.get(name, {})))
    return nacre.create(name, **{"d_input": 5, "d_model": 8, "num_heads": 2, **preset, **options})


def batch(rows=3, length=9, dtype=torch.float32):
    time = torch.rand(rows, length, dtype=torch.float64).add(0.1).cumsum(1)
    return torch.randn(rows, length, 5, dtype=dtype), time


def padding_of(rows, length, where):
    """Row 0 whole, row 1 padded at one side or inside, row 2 with one valid step, others whole."""
    padding = torch.zeros(rows, length, dtype=torch.bool)
    padding[1, {"right": slice(5, None), "left": slice(0, 4), "inside": slice(2, 5)}[where]] = True
    padding[2] = True
    padding[2, {"right": 0, "left": -1, "inside": 3}[where]] = False
    return padding


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def drawn(model, **options):
    """A small recurrent model of float64 whose every number is random, so that none is at a special value."""
    made = model(5, 8, **options).double()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)
    return made


def irregular(rows=3, length=7):
    """Irregular time, with two equal stamps in the first row."""
    time = torch.rand(rows, length, dtype=torch.float64).mul(1.5).cumsum(1)
    time[0, 3] = time[0, 2]
    return torch.randn(rows, length, 5, dtype=torch.float64, requires_grad=True), time


def check_parity(model, reference):
    """Outputs and all gradients in double precision, and outputs in single, against a loop with a solver."""
    x, time = irregular()
    y, want = model(x, time=time), reference(model, x, time, model.unfolds)
    assert_same(y, want, [x, *model.parameters()], 1e-9)
    single = model.float()(x.float(), time=time)
    torch.testing.assert_close(single.double(), want, rtol=1e-5, atol=1e-5)
