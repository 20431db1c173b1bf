"""Small data sets of every kind, for the tests of the controls."""

import torch

from nacre.data.dataset import UNSCORED, Dataset, Kind
from nacre.tasks.controls import create_control
from nacre.tasks.metrics import answers_of


def ragged(kind, seed=0, n=60, longest=7):
    """Sequences of random length, two features x and y and `seen`, random answers, a fifth of them not scored."""
    random = torch.Generator().manual_seed(seed)
    length = torch.randint(1, longest + 1, (n,), generator=random)
    rows = int(length.sum())
    values = torch.randn(rows, 3, generator=random)
    values[:, 2] = (torch.rand(rows, generator=random) < 0.4).float()
    answers = rows if kind.each_step else n
    left_out = torch.rand(answers, generator=random) < 0.2
    if kind.has_classes:
        y = torch.randint(0, 3, (answers,), generator=random).masked_fill(left_out, UNSCORED)
    else:
        y = torch.randn(answers, 2, generator=random)
        y = (y > 0).float() if kind is Kind.MULTI_LABEL else y
        y[left_out, 1] = float("nan")  # one number missing is enough
    return Dataset(
        name="ragged",
        kind=kind,
        values=values,
        time=torch.rand(rows, generator=random, dtype=torch.float64).cumsum(0),
        start=length.cumsum(0) - length,
        length=length,
        y=y,
        group=torch.arange(n),
        groups=tuple(map(str, range(n))),
        features=("x", "y", "seen"),
        classes=("a", "b", "c") if kind.has_classes else (),
        targets=() if kind.has_classes else ("x", "y"),
    )


def series(values, lookback=5, horizon=3, target=0, time=None):
    """All windows of one series [N, F]."""
    values = torch.as_tensor(values, dtype=torch.float32)
    start = torch.arange(len(values) - lookback - horizon + 1)
    ahead = start.unsqueeze(1) + lookback + torch.arange(horizon)
    return Dataset(
        name="series",
        kind=Kind.FORECASTING,
        values=values,
        time=torch.arange(len(values)).double() if time is None else time,
        start=start,
        length=torch.full_like(start, lookback),
        y=values[ahead, target],
        group=torch.zeros_like(start),
        groups=("series",),
        features=tuple(f"f{i}" for i in range(values.shape[1])),
        targets=tuple(f"+{i + 1}" for i in range(horizon)),
        target_column=target,
    )


def walk(n=200, features=2, seed=0):
    return torch.randn(n, features, generator=torch.Generator().manual_seed(seed)).cumsum(0)


def example(kind):
    return series(walk()) if kind is Kind.FORECASTING else ragged(kind)


def fitted(name, data, train):
    control = create_control(name, data)
    control.fit(data, train)
    return control


def halves(data):
    return torch.arange(len(data)).chunk(2)


def mse(control, data, index):
    return (control.predict(data, index) - answers_of(data, index)).square().mean().item()


def accuracy(control, data, index):
    return (control.predict(data, index).argmax(1) == answers_of(data, index)).double().mean().item()
