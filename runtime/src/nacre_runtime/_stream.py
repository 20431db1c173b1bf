"""`Stream`: answers while steps come in, one after the other."""

import os

import numpy as np

from nacre_runtime._file import Array, File


class Stream(File):
    """An exported step and the state of one or several streams; `Stream.load` reads one."""

    def __init__(self, path: str | os.PathLike[str], streams: int, threads: int) -> None:
        super().__init__(path, "step", "Model", threads)
        if streams < 1:
            raise ValueError(f"streams must be at least 1, got {streams}")
        self.streams = streams
        self._state = {
            name: np.zeros((streams, *shape), dtype) for name, (dtype, shape) in self.facts["state"].items()
        }
        self._last = np.full(streams, -np.inf)
        self._count = np.zeros(streams, np.int64)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, streams: int = 1, threads: int = 1) -> "Stream":
        """The step in a file such as model-step.onnx, for some streams that run side by side.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is damaged, or not nacre's.
        """
        return cls(path, streams, threads)

    def push(self, x: object, time: object) -> Array:
        """The answer after one more step: probabilities, or numbers. A step that is refused changes nothing.

        Args:
            x: [features] of a single stream, or [streams, features].
            time: Its stamp, or [streams], never before the last one.

        Returns:
            [outputs], or [streams, outputs].
        """
        step = self.facts["step"]
        wanted = ", ".join(map(str, step))
        found = self._numbers(x, f"[{wanted}] or [{self.streams}, {wanted}]", len(step))
        single = found.ndim == len(step)
        found = found[None] if single else found
        if len(found) != self.streams:
            raise ValueError(f"x is a step of {len(found)} streams, but this Stream has {self.streams}")
        stamps = self._stamps(time)
        self._refuse_unknown(found, np.zeros(len(found), bool))
        limit = self.facts["max_len"]
        if limit is not None and self._count.max() >= limit:
            raise ValueError(
                f"stream {self._count.argmax()} has {limit} steps, which is all that it remembers; reset it, or "
                "export with a larger max_len"
            )
        outputs = self._run({"x": found, "time": stamps, **self._state})
        self._state = {name: outputs[f"next_{name}"] for name in self._state}
        self._last, self._count = stamps, self._count + 1
        answer = self._answer(outputs)
        return answer[0] if single else answer

    def reset(self, rows: int | slice | Array = slice(None)) -> None:
        """Forget some streams; all if none are named."""
        self._state = {name: state.copy() for name, state in self._state.items()}  # onnxruntime's are read-only
        for state in self._state.values():
            state[rows] = 0
        self._last = self._last.copy()
        self._last[rows], self._count[rows] = -np.inf, 0

    def _stamps(self, time: object) -> Array:
        try:
            found = np.asarray(time, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"time must be a number for each stream, got {type(time).__name__}") from None
        if found.shape not in ((), (self.streams,)):
            raise ValueError(f"time must be one number, or have shape ({self.streams},), got {found.shape}")
        found = np.broadcast_to(found, (self.streams,)).copy()
        if not np.isfinite(found).all():
            raise ValueError(f"time must be finite, got {found.tolist()}")
        if (back := found < self._last).any():
            row = int(back.argmax())
            raise ValueError(
                f"time goes back in stream {row}: {found[row]} after {self._last[row]}; reset it to begin anew"
            )
        return found
