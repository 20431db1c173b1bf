"""Lesions on request: one model runs at a time, few requests wait, and the latest answers are cached."""

import threading
from collections import OrderedDict
from typing import Any

from torch import Tensor

from nacre.inspect.analysis.lesion import Lesion
from nacre.inspect.analysis.rerun import Rerun
from nacre.inspect.recording.recording import LayerRecording
from nacre.inspect.viewer.query import BadRequest
from nacre.inspect.viewer.source import ViewerSource

MOST = 64  # lesions of a request
MOST_STEPS = 200_000
_WAITING = 16  # requests
_TIMEOUT = 60.0  # seconds that a request waits
_CACHED = 4  # answers

Answer = tuple["Tensor", "Tensor | None", "Tensor"]
"""Outputs [T, O], answer [O] to the sample, gates [T, H, gates]."""


class TooManyRequests(Exception):
    """The queue is full."""

    def __init__(self) -> None:
        super().__init__("too many lesions are asked for at once; try again in a moment")


class LesionQueue:
    """Answers of lesioned models, one request at a time."""

    def __init__(self) -> None:
        self._waiting = threading.BoundedSemaphore(_WAITING)
        self._working = threading.Lock()
        self._reruns: OrderedDict[tuple[int, int], Rerun] = OrderedDict()
        self._answers: OrderedDict[tuple[Any, ...], Answer] = OrderedDict()

    def ask(self, source: ViewerSource, sample: int, layer: str, lesions: tuple[Lesion, ...]) -> Answer:
        """Answers of the model with these lesions.

        Raises:
            BadRequest: If the recording holds no model, is too long, or the model has no such neurons.
            TooManyRequests: If too many requests wait, or this one has waited too long.
        """
        recording = source.recording
        if not recording.has_model:
            raise BadRequest("this recording holds no model, so nothing can be silenced")
        if recording.length("x", sample) > MOST_STEPS:
            raise BadRequest(f"a sample for lesions has {MOST_STEPS} steps at most")
        if not self._waiting.acquire(blocking=False):
            raise TooManyRequests
        try:
            if not self._working.acquire(timeout=_TIMEOUT):
                raise TooManyRequests
            try:
                return self._answer(source, sample, layer, lesions)
            finally:
                self._working.release()
        finally:
            self._waiting.release()

    def _answer(self, source: ViewerSource, sample: int, layer: str, lesions: tuple[Lesion, ...]) -> Answer:
        key = (id(source), sample, layer, frozenset(lesions))
        if key not in self._answers:
            rerun = _cached(self._reruns, (id(source), sample), lambda: Rerun(source.recording, sample), 1)
            try:
                outputs = rerun.outputs(lesions)
                gates = rerun.gates(lesions, layer)
            except ValueError as error:
                raise BadRequest(str(error)) from None
            answer = None if outputs.answer is None else outputs.answer[0]
            _cached(self._answers, key, lambda: (outputs.curve[0], answer, gates), _CACHED)
        return self._answers[key]


def _cached(cache: OrderedDict, key: Any, make: Any, most: int) -> Any:  # noqa: ANN401
    """A value from a cache that holds the latest few."""
    if key not in cache:
        while len(cache) >= most:
            cache.popitem(last=False)
        cache[key] = make()
    cache.move_to_end(key)
    return cache[key]


def read_lesions(data: object, layer: LayerRecording) -> tuple[Lesion, ...]:
    """Lesions of a request: [{"group": "command", "index": 3, "head": 0}, ...].

    `index` may be missing for a whole group, `head` for all heads; `target` {"group", "index"} makes it a synapse.
    """
    if not isinstance(data, list) or not 1 <= len(data) <= MOST:
        raise BadRequest(f"lesions must be a list of 1 to {MOST}")
    return tuple(_lesion(one, layer) for one in data)


def _lesion(data: object, layer: LayerRecording) -> Lesion:
    if not isinstance(data, dict) or not set(data) <= {"group", "index", "head", "target"}:
        raise BadRequest("a lesion has group and perhaps index, head and target")
    group, index = _neuron(data, layer)
    head = data.get("head")
    if head is not None and (type(head) is not int or not 0 <= head < layer.heads):
        raise BadRequest(f"head must be from 0 to {layer.heads - 1}")
    target, end = data.get("target"), None
    if target is not None:
        if not isinstance(target, dict) or set(target) != {"group", "index"}:
            raise BadRequest("target has group and index")
        to, place = _neuron(target, layer)
        if index is None or place is None:
            raise BadRequest("a synapse leads from one neuron to one neuron; give both indices")
        end = (to, place)
    return Lesion(group, index, head, end, layer=layer.name.partition("#")[0])


def _neuron(data: dict[Any, Any], layer: LayerRecording) -> tuple[str, int | None]:
    group, index = data.get("group"), data.get("index")
    groups = [name for name, size in layer.sizes.items() if size]
    if not isinstance(group, str) or group not in groups:
        raise BadRequest(f"group must be one of {', '.join(groups)}")
    if index is not None and (type(index) is not int or not 0 <= index < layer.sizes[group]):
        raise BadRequest(f"index must be from 0 to {layer.sizes[group] - 1} among the {group} neurons")
    return group, index
