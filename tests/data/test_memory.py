"""Large tables become data sets in a few times their memory."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from nacre.data import from_frame

GROUPS, STAMPS, VARIABLES = 1_000, 10, 5
ROLES = {"time": "hour", "group": "who", "target": "state"}


def long_table():
    """Every variable of every group at every stamp, a row each."""
    random, size = np.random.default_rng(0), STAMPS * VARIABLES
    who, variables = np.arange(GROUPS), np.array([f"v{i}" for i in range(VARIABLES)], object)
    return pd.DataFrame(
        {
            "who": pd.Series([f"p{i:06}" for i in who]).repeat(size).to_numpy(),
            "hour": np.tile(np.arange(float(STAMPS)).repeat(VARIABLES), GROUPS),
            "what": np.tile(variables, GROUPS * STAMPS),
            "number": random.normal(size=GROUPS * size),
            "age": random.integers(20, 90, GROUPS).repeat(size),
            "state": random.integers(0, 2, GROUPS).repeat(size),
        }
    )


def cost(frame, **options):
    """Peak memory of reading a frame, by the frame's own."""
    tracemalloc.start()
    data = from_frame(frame, **ROLES, **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(data) == GROUPS
    return peak / frame.memory_usage(deep=True).sum()


@pytest.mark.parametrize("missing", ["flags", "events"])
def test_a_long_table(missing):
    assert cost(long_table(), variable="what", value="number", static=["age"], missing=missing) < 2.5


@pytest.mark.parametrize("missing", ["error", "flags"])
def test_a_wide_table(missing):
    frame = long_table().drop(columns="what")
    frame["hour"] = np.tile(np.arange(float(STAMPS * VARIABLES)), GROUPS)
    assert cost(frame, missing=missing) < 2.5
