"""Trivial controls by name: what every table of results shows beside the networks.

A network that does not beat them has shown nothing, and where `time-only` does well, the split or time itself
gives answers away.
"""

from nacre._util.checks import choice
from nacre.data.dataset import Dataset
from nacre.tasks.controls.base import Control
from nacre.tasks.controls.fitted import Linear, LinearRms, TimeOnly
from nacre.tasks.controls.simple import (
    Interpolation,
    LastAction,
    LifeClock,
    Majority,
    Mean,
    Persistence,
    ZeroSteering,
)

__all__ = ["CONTROLS", "Control", "controls_for", "create_control"]

_ALL = (
    Majority,
    Mean,
    Persistence,
    Interpolation,
    LastAction,
    ZeroSteering,
    LinearRms,
    Linear,
    TimeOnly,
    LifeClock,
)
CONTROLS: dict[str, type[Control]] = {control.name: control for control in _ALL}


def controls_for(data: Dataset) -> list[str]:
    """Names of the controls that make sense for a data set, in the order of tables."""
    return [name for name, control in CONTROLS.items() if control.applies(data)]


def create_control(name: str, data: Dataset) -> Control:
    """A control that is ready to be fitted.

    Args:
        name: One of `CONTROLS`.
        data: What it is for.

    Example:
        >>> from nacre.data.dataset import Dataset, Kind
        >>> series = torch.arange(10.0).unsqueeze(1)
        >>> data = Dataset(
        ...     name="stairs", kind=Kind.FORECASTING, values=series, time=torch.arange(10.0).double(),
        ...     start=torch.arange(7), length=torch.full((7,), 2), y=series[2:9].clone(),
        ...     group=torch.zeros(7, dtype=torch.int64), groups=("stairs",), features=("height",),
        ...     targets=("next height",), target_column=0,
        ... )
        >>> for name in controls_for(data):
        ...     control = create_control(name, data)
        ...     control.fit(data, torch.arange(5))
        ...     print(name, round(control.predict(data, torch.tensor([6])).item(), 3))  # the truth is 8
        mean 4.0
        persistence 7.0
        linear 8.0
        time-only 4.0
    """
    choice("control", name, CONTROLS)
    if not CONTROLS[name].applies(data):
        raise ValueError(
            f"control {name!r} makes no sense for {data.name!r}, which is {data.kind}; "
            f"use one of {', '.join(map(repr, controls_for(data)))}"
        )
    return CONTROLS[name]()
