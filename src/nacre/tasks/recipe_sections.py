"""The sections of a recipe: [split], [network] and [training], each checked when it is made."""

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise
from typing import Any

from nacre._util.checks import choice, flag, real, there_are, whole
from nacre._util.foreign_code import is_reference
from nacre.tasks.augment import AUGMENTATIONS
from nacre.tasks.image_encoder import Activation, Colours, DropoutAfter, ImageTokens

LOSSES = ("mae", "huber", "quantile")  # of numbers, beside the squared error, in units of the answers' spread


class Schedule(StrEnum):
    """How the learning rate changes."""

    COSINE = "cosine"  # rises during the warm-up, then falls like a cosine to 0 at the last step
    CONSTANT = "constant"


def check_keys(section: type, table: dict[str, Any], where: str) -> None:
    """Refuse keys that a section does not have; messages put `where` before them."""
    known = [f.name for f in fields(section) if f.name != "name"]  # a task has the name of its file
    for key in table:
        if key not in known:
            raise ValueError(f"unknown key {where}{key}; {there_are(key, known)}")


def _list(name: str, value: object) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} must be a list, got {value!r}")
    return value


def _convolutions(name: str, value: object) -> tuple[tuple[int, int, int], ...]:
    """Filters, kernel size and stride of each convolution."""
    layers = []
    for layer in _list(name, value):
        if len(_list(name, layer)) != 3:
            raise ValueError(f"{name} must hold [filters, kernel size, stride], got {list(layer)}")
        for part, number in zip(("filters", "kernel size", "stride"), layer, strict=True):
            whole(f"{part} of {name}", number, 1)
        if layer[1] % 2 == 0 and layer[2] > 1:
            raise ValueError(f"{name}: kernel sizes must be odd where the stride is not 1, got {list(layer)}")
        layers.append(tuple(layer))
    return tuple(layers)


@dataclass(frozen=True)
class SplitRecipe:
    """How the data is split: see `nacre.data.make_splits`. "auto" is by group, or by time if groups are few."""

    by: str = "auto"
    folds: int = 5
    test_share: float = 0.2

    def __post_init__(self) -> None:
        """Check."""
        choice("split.by", self.by, ("auto", "group", "official", "time"))
        whole("split.folds", self.folds, 2)
        real("split.test_share", self.test_share, 0.0, 0.9, open_low=True)


@dataclass(frozen=True)
class ImageRecipe:
    """How images become what the layer reads: see `nacre.tasks.image_encoder.ImageEncoder`."""

    conv: tuple[tuple[int, int, int], ...]
    activation: str = "relu"
    tokens: str = "frames"
    colours: str = "rgb"
    dropout: float = 0.0
    dropout_after: str = "each"

    def __post_init__(self) -> None:
        """Check, and make lists from a file tuples."""
        object.__setattr__(self, "conv", _convolutions("network.image.conv", self.conv))
        choice("network.image.activation", self.activation, Activation)
        choice("network.image.tokens", self.tokens, ImageTokens)
        choice("network.image.colours", self.colours, Colours)
        real("network.image.dropout", self.dropout, 0.0, 0.95)
        choice("network.image.dropout_after", self.dropout_after, DropoutAfter)


@dataclass(frozen=True)
class NetworkRecipe:
    """What surrounds the layer: see `nacre.tasks.network.TaskNetwork`. time_scale 0: the median duration."""

    d_model: int = 64
    num_heads: int = 4
    conv: tuple[tuple[int, int, int], ...] = ()
    dense: tuple[int, ...] = ()
    dropout: float = 0.0
    time_scale: float = 0.0
    block: bool = True
    depth: int = 1
    relative: bool = True  # whether answers are relative to what is known already, where something is
    linear: bool = True  # whether forecasts have a linear map of the window beside the layer
    image: ImageRecipe | None = None

    def __post_init__(self) -> None:
        """Check, and make lists from a file tuples."""
        whole("network.d_model", self.d_model, 2)
        whole("network.num_heads", self.num_heads, 1)
        whole("network.depth", self.depth, 1)
        for name in ("block", "relative", "linear"):
            flag(f"network.{name}", getattr(self, name))
        real("network.dropout", self.dropout, 0.0, 0.95)
        real("network.time_scale", self.time_scale, 0.0, math.inf)
        for width in _list("network.dense", self.dense):
            whole("network.dense", width, 1)
        object.__setattr__(self, "conv", _convolutions("network.conv", self.conv))
        object.__setattr__(self, "dense", tuple(self.dense))
        if self.image is not None and not isinstance(self.image, (dict, ImageRecipe)):
            raise ValueError(f"network.image must be a table, [network.image], got {self.image!r}")
        if isinstance(self.image, dict):  # from a file
            check_keys(ImageRecipe, self.image, "network.image.")
            object.__setattr__(self, "image", ImageRecipe(**self.image))


@dataclass(frozen=True)
class TrainingRecipe:
    """How a network is trained."""

    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.004
    batch_size: int = 64
    clip: float = 1.0
    schedule: str = "cosine"
    warmup: float = 0.05  # share of the steps
    epochs: int = 50
    patience: int = 10  # rounds without a better validation loss; a round is an epoch in "paper"
    steps: int = 2000  # of the standard profile, at most
    quick_steps: int = 200
    quick_valid: int = 500  # validation sequences that "quick" and "standard" look at, at most
    augment: str = ""  # one of `nacre.tasks.augment.AUGMENTATIONS`, or none
    loss: str = ""  # one of LOSSES, or package.module:function; none: cross entropy, or the squared error
    class_weights: str | tuple[float, ...] = ""  # "balanced", or one for each class or label
    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)  # that the loss "quantile" asks for

    def __post_init__(self) -> None:
        """Check."""
        choice("training.optimizer", self.optimizer, ("adam", "adamw"))
        real("training.lr", self.lr, 0.0, 10.0, open_low=True)
        real("training.weight_decay", self.weight_decay, 0.0, 10.0)
        real("training.clip", self.clip, 0.0, math.inf, open_low=True)
        choice("training.schedule", self.schedule, Schedule)
        real("training.warmup", self.warmup, 0.0, 1.0)
        for name in ("batch_size", "epochs", "patience", "steps", "quick_steps", "quick_valid"):
            whole(f"training.{name}", getattr(self, name), 1)
        choice("training.augment", self.augment, ("", *AUGMENTATIONS))
        if not is_reference(str(self.loss)):
            choice("training.loss", self.loss, ("", *LOSSES, "package.module:function"))
        if isinstance(self.class_weights, str):
            choice("training.class_weights", self.class_weights, ("", "balanced"))
        else:
            weights = _list("training.class_weights", self.class_weights)
            weights = tuple(real("training.class_weights", w, 0.0, math.inf, open_low=True) for w in weights)
            object.__setattr__(self, "class_weights", weights)
        levels = tuple(
            real("training.quantiles", level, 0.0, 1.0, open_low=True)
            for level in _list("training.quantiles", self.quantiles)
        )
        if not levels or levels[-1] == 1 or any(b <= a for a, b in pairwise(levels)):
            raise ValueError(f"training.quantiles must ascend between 0 and 1, got {list(levels)}")
        object.__setattr__(self, "quantiles", levels)

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantiles that a network answers; none where it answers one number for each that is asked."""
        return self.quantiles if self.loss == "quantile" else ()
