"""`Model`: answers to whole sequences."""

import os
from collections.abc import Sequence

import numpy as np

from nacre_runtime._file import Array, File


class Model(File):
    """An exported network or layer for whole sequences; `Model.load` reads one."""

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, threads: int = 1) -> "Model":
        """The model in a file such as model.onnx.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is damaged, or not nacre's.
        """
        return cls(path, "window", "Stream", threads)

    def predict(
        self, x: object, time: object, *, key_padding_mask: object = None, query_only: object = None
    ) -> Array | list[Array]:
        """Probabilities of classes or labels, or numbers.

        Args:
            x: [steps, features] of one sequence, [batch, steps, features], or a list of sequences.
            time: [steps] stamps that never go back, in the unit of the training data; [batch, steps], or a list.
            key_padding_mask: [batch, steps] bool, True = padding.
            query_only: [batch, steps] bool, steps that ask and tell nothing, where the network answers each step.

        Returns:
            [outputs] or, where each step is answered, [steps, outputs]; with a dimension for the batch in front if
            there is one; of a list, a list.
        """
        if isinstance(x, list | tuple) and len(x) and np.ndim(x[0]) == 1 + len(self.facts["step"]):
            return self._predict_list(x, time, query_only)
        dims = 1 + len(self.facts["step"])
        wanted = ", ".join(map(str, self.facts["step"]))
        found = self._numbers(x, f"[steps, {wanted}] or [batch, steps, {wanted}]", dims)
        single = found.ndim == dims
        found = found[None] if single else found
        shape = found.shape[:2]
        padding = _mask("key_padding_mask", key_padding_mask, shape)
        asks = _mask("query_only", query_only, shape)
        if asks.any() and "query_only" not in self.facts["inputs"]:
            raise ValueError("query_only is for networks that answer each step, which this one does not")
        stamps = _stamps(time, shape, padding)
        self._refuse_unknown(found, padding)
        found = np.where(padding.reshape(*shape, *[1] * (found.ndim - 2)), 0, found).astype(found.dtype)
        outputs = self._run({"x": found, "time": stamps, "key_padding_mask": padding, "query_only": asks})
        answer = self._answer(outputs)
        return answer[0] if single else answer

    def _predict_list(self, x: Sequence[object], time: object, query_only: object) -> list[Array]:
        if not isinstance(time, list | tuple) or len(time) != len(x):
            raise ValueError(f"time must be a list of {len(x)} arrays of stamps, one for each sequence of x")
        asks = query_only if isinstance(query_only, list | tuple) else [query_only] * len(x)
        answers = [self.predict(*one, query_only=q) for *one, q in zip(x, time, asks, strict=True)]
        return [np.asarray(answer) for answer in answers]


def _mask(name: str, value: object, shape: tuple[int, ...]) -> Array:
    """A mask [batch, steps], of one sequence [steps]; all False if there is none."""
    if value is None:
        return np.zeros(shape, bool)
    found = np.asarray(value)
    if found.dtype != bool or found.shape not in (shape, shape[1:]):
        raise ValueError(f"{name} must be bool of shape {shape}, got {found.dtype} of shape {found.shape}")
    return np.broadcast_to(found, shape)


def _stamps(value: object, shape: tuple[int, ...], padding: Array) -> Array:
    """Stamps [batch, steps] in float64 that never go back, zeros at padding."""
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"time must be numbers of shape {shape}, got {type(value).__name__}") from None
    if found.shape not in (shape, shape[1:]):
        raise ValueError(f"time must have shape {shape}, one stamp for each step, got {found.shape}")
    found = np.where(padding, 0.0, np.broadcast_to(found, shape))
    if not np.isfinite(found).all():
        row, step = np.argwhere(~np.isfinite(found))[0]
        raise ValueError(f"time must be finite, got {found[row, step]} at row {row}, step {step}")
    latest = np.maximum.accumulate(np.where(padding, -np.inf, found), 1)
    if (back := (found < latest) & ~padding).any():
        row, step = np.argwhere(back)[0]
        raise ValueError(
            f"time must not go back, got {found[row, step]} after {latest[row, step]} at row {row}, step {step}; "
            "sort the steps by time"
        )
    return found
