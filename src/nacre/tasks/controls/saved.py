"""Fitted controls on disk: JSON and plain arrays, no pickle. Of scikit-learn's models, the arrays they answer by.

A control is kept if what it learned is numbers: `majority`, `mean`, `persistence`, `linear`, `linear-rms`,
`time-only`. Others need more than a new table holds, such as the right answers of the moment before.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nacre._util.files import read_object, write_atomic
from nacre.tasks.controls import CONTROLS
from nacre.tasks.controls.base import Control
from nacre.tasks.controls.least_squares import LinearMap

_NUMBERS, _ABOUT = "control.safetensors", "control.json"
_KEPT = ("majority", "mean", "persistence", "linear", "linear-rms", "time-only")


class _Arrays(Protocol):
    def arrays(self) -> dict[str, NDArray]: ...


@dataclass(frozen=True)
class Logistic:
    """Logistic regression on standardised inputs, as scikit-learn answers by it."""

    mean: NDArray  # [P]
    scale: NDArray  # [P]
    weight: NDArray  # [C or 1, P]
    bias: NDArray  # [C or 1]
    classes_: NDArray  # [C]

    def arrays(self) -> dict[str, NDArray]:
        """All of it."""
        return {name: getattr(self, name) for name in ("mean", "scale", "weight", "bias", "classes_")}

    def predict_proba(self, x: NDArray) -> NDArray:
        """[m, C] probabilities."""
        if len(self.classes_) == 1:
            return np.ones((len(x), 1))
        score = torch.from_numpy((x - self.mean) / self.scale @ self.weight.T + self.bias)
        if len(self.classes_) == 2:
            score = torch.cat([-score, score], 1) / 2  # the sigmoid of one number
        return score.softmax(1).numpy()


@dataclass(frozen=True)
class Tree:
    """A decision tree as arrays of its nodes; a leaf has no left child."""

    left: NDArray  # [nodes] number of the left child, -1 in leaves
    right: NDArray
    feature: NDArray  # [nodes] column that decides
    threshold: NDArray  # [nodes] what is at most that goes left
    value: NDArray  # [nodes, outputs]
    classes_: NDArray  # [C]; empty for numbers

    def arrays(self) -> dict[str, NDArray]:
        """All of it."""
        names = ("left", "right", "feature", "threshold", "value", "classes_")
        return {name: getattr(self, name) for name in names}

    def predict(self, x: NDArray) -> NDArray:
        """[m, outputs] what the leaves answer."""
        x, node = x.astype(np.float32), np.zeros(len(x), np.int64)  # scikit-learn compares in float32
        rows = np.arange(len(x))
        while (inner := self.left[node] >= 0).any():
            here = node[inner]
            smaller = x[rows[inner], self.feature[here]] <= self.threshold[here]
            node[inner] = np.where(smaller, self.left[here], self.right[here])
        return self.value[node]

    def predict_proba(self, x: NDArray) -> NDArray:
        """[m, C] shares of the classes."""
        value = self.predict(x)
        return value / value.sum(1, keepdims=True)


_PLAIN: dict[str, type[Any]] = {"logistic": Logistic, "tree": Tree}


def save_control(control: Control, directory: Path) -> bool:
    """Write a fitted control into a directory, if it is one that can be kept; says whether it is."""
    from safetensors.torch import save

    if control.name not in _KEPT:
        return False
    tensors: dict[str, Tensor] = {}
    parts: dict[str, str] = {}
    for name, value in vars(control).items():
        if name in ("_layout", "parameters"):
            continue
        parts[name], found = _plain(value)
        tensors |= {f"{name}.{key}": torch.as_tensor(array).contiguous() for key, array in found.items()}
    about = {"format": 1, "control": control.name, "parameters": control.parameters, "parts": parts}
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / _NUMBERS, save(tensors))
    write_atomic(directory / _ABOUT, json.dumps(about | {"layout": control._layout}).encode())
    return True


def load_control(directory: Path) -> Control:
    """The control that `save_control` wrote, ready to predict; raises ValueError if it is damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        about = read_object(directory / _ABOUT)
        tensors = load((directory / _NUMBERS).read_bytes())
        kind = CONTROLS[about["control"]]
        known = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
        control = kind()
        for name, what in about["parts"].items():
            if name not in known:
                raise ValueError(f"{about['control']} has no {name!r}")
            mine = {key.removeprefix(f"{name}."): t for key, t in tensors.items() if key.startswith(f"{name}.")}
            setattr(control, name, _restored(what, mine))
        control.parameters = int(about["parameters"])
        control._layout = tuple(tuple(part) if isinstance(part, list) else part for part in about["layout"])
    except (ValueError, KeyError, TypeError, OSError, SafetensorError) as error:
        raise ValueError(f"{directory} holds no control that can be read: {error!r}") from None
    return control


def _plain(value: object) -> tuple[str, dict[str, Any]]:
    """What kind of thing a control learned, and its arrays."""
    if value is None:
        return "none", {}
    if isinstance(value, LinearMap):
        return "line", {"weight": value.weight, "bias": value.bias}
    if isinstance(value, Tensor):
        return "tensor", {"tensor": value}
    if isinstance(value, Logistic | Tree):
        return "logistic" if isinstance(value, Logistic) else "tree", value.arrays()
    return _of_scikit_learn(value)


def _of_scikit_learn(model: Any) -> tuple[str, dict[str, Any]]:  # noqa: ANN401
    if hasattr(model, "tree_"):
        tree, classes = model.tree_, getattr(model, "classes_", np.empty(0, np.int64))
        value = tree.value[:, 0, :] if len(classes) else tree.value[:, :, 0]
        nodes = (tree.children_left, tree.children_right, tree.feature, tree.threshold, value, classes)
        return "tree", Tree(*map(np.asarray, nodes)).arrays()
    if hasattr(model, "steps"):  # scaled logistic regression
        scaler, line = (step for _, step in model.steps)
        numbers = scaler.mean_, scaler.scale_, line.coef_, line.intercept_, line.classes_
        return "logistic", Logistic(*map(np.asarray, numbers)).arrays()
    none = np.zeros((1, 0))  # one class: the answer needs no input
    return "logistic", Logistic(none[0], none[0], none, np.zeros(1), np.asarray(model.classes_)).arrays()


def _restored(what: str, tensors: dict[str, Tensor]) -> object:
    if what == "none":
        return None
    if what == "line":
        return LinearMap(tensors["weight"], tensors["bias"])
    if what == "tensor":
        return tensors["tensor"]
    plain = _PLAIN[what](**{key: tensor.numpy() for key, tensor in tensors.items()})
    if isinstance(plain, Tree):  # children come after their parents, or answering would never end
        node = np.arange(len(plain.left))
        inner = plain.left >= 0
        if not ((plain.left > node) & (plain.right > node))[inner].all():
            raise ValueError("the nodes of the tree are not in order")
    return plain
