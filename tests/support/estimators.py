"""Short sequences at irregular moments, of two classes, and estimators that learn them in a second."""

import numpy as np
import pandas as pd

from nacre import Classifier, Regressor

SMALL = {"d_model": 8, "num_heads": 2, "max_steps": 40, "learning_rate": 0.02, "random_state": 0, "batch_size": 16}


def waves(n=32, seed=0):
    """n sequences [T, 2], their stamps, and whether both features have one sign, which no linear model tells."""
    random = np.random.default_rng(seed)
    time = [np.sort(random.uniform(0, 6, random.integers(4, 9))) for _ in range(n)]
    side = np.where([[i & 1, i >> 1 & 1] for i in range(n)], 1.0, -1.0)
    x = [s + 0.1 * random.normal(size=(len(t), 2)) for s, t in zip(side, time, strict=True)]
    same = side.prod(1) > 0
    return [part.astype(np.float32) for part in x], time, np.where(same, "same", "other")


def as_frame(x, time, y=None, names=("wave", "slope")):
    """The same as one frame with a row for each step."""
    parts = [
        pd.DataFrame(part, columns=list(names)).assign(
            who=f"w{i}", hour=t, **({} if y is None else {"state": y[i]})
        )
        for i, (part, t) in enumerate(zip(x, time, strict=True))
    ]
    return pd.concat(parts, ignore_index=True)


def classifier(**changes):
    """A small classifier."""
    return Classifier("cfc-fc", **{**SMALL, **changes})


def regressor(**changes):
    """A small regressor."""
    return Regressor("cfc-fc", **{**SMALL, **changes})
