"""Ways of changing training batches at random, so that a network meets more than was recorded."""

from collections.abc import Callable
from typing import NamedTuple

from nacre._util.checks import choice
from nacre.data.batches import Augmentation
from nacre.data.dataset import Dataset
from nacre.tasks.augment.frames import check_frames, frames
from nacre.tasks.augment.steering import check_steering, steering


class _Way(NamedTuple):
    """How batches are changed, and what refuses data that it is not for."""

    change: Augmentation
    check: Callable[[Dataset], None]


AUGMENTATIONS = {"steering": _Way(steering, check_steering), "frames": _Way(frames, check_frames)}


def augmentation_of(name: str, data: Dataset) -> Augmentation:
    """An augmentation by its name.

    Args:
        name: One of `AUGMENTATIONS`.
        data: What it is for.

    Raises:
        ValueError: If there is none of that name, or the data is of another kind.
    """
    choice("training.augment", name, AUGMENTATIONS)
    way = AUGMENTATIONS[name]
    way.check(data)
    return way.change
