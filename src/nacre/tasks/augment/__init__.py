"""Augmentations: training batches are changed at random, so that a network sees more than was recorded."""

from collections.abc import Callable
from typing import NamedTuple

from nacre._util.checks import choice
from nacre.data.batches import Augmentation
from nacre.data.dataset import Dataset
from nacre.tasks.augment.frames import augment_frames, check_frames
from nacre.tasks.augment.steering import augment_steering, check_steering


class _Entry(NamedTuple):
    change: Augmentation
    check: Callable[[Dataset], None]  # refuses data that it is not for


AUGMENTATIONS = {
    "steering": _Entry(augment_steering, check_steering),
    "frames": _Entry(augment_frames, check_frames),
}


def augmentation_of(name: str, data: Dataset) -> Augmentation:
    """An augmentation by its name, one of `AUGMENTATIONS`.

    Raises:
        ValueError: If there is none of that name, or the data is of another kind.
    """
    choice("training.augment", name, AUGMENTATIONS)
    AUGMENTATIONS[name].check(data)
    return AUGMENTATIONS[name].change
