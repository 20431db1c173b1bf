"""Comparisons of a file's answers in onnxruntime with PyTorch's, before the file is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nacre.deploy.forms import StepForm, WindowForm
from nacre.deploy.signature import draw, signature

LENGTHS, BATCHES = (1, 7, 33, 130), (1, 2, 5)
_DRAWS = 3  # of random numbers; rounding may part keys that match equally well, so one may go wrong
_CLOSE = 1e-3  # of the spread of the answers
_MOST_APART = 0.01  # share of the answers that may be farther apart


@dataclass(frozen=True)
class Difference:
    """How far answers are from those of PyTorch, over all lengths and batches.

    Attributes:
        largest: The largest difference of two numbers.
        answers: Number of answers compared, each of a step or of a sequence.
        apart: Answers of which a number is farther off than a thousandth of the spread of all.
    """

    largest: float
    answers: int
    apart: int


class GraphSession:
    """A graph in onnxruntime that takes and gives tensors by name."""

    def __init__(self, data: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what it says of errors comes as exceptions, too
        options.intra_op_num_threads = torch.get_num_threads()
        try:
            self.session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ValueError(f"onnxruntime cannot load the graph: {_first_line(error)}") from error
        self.inputs = {port.name for port in self.session.get_inputs()}
        self.outputs = [port.name for port in self.session.get_outputs()]

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Outputs by name."""
        given = {name: x.detach().numpy() for name, x in inputs.items() if name in self.inputs}
        try:
            found = self.session.run(None, given)
        except Exception as error:
            shape = tuple(inputs["x"].shape)
            raise ValueError(f"onnxruntime fails at x of shape {shape}: {_first_line(error)}") from error
        return {name: torch.from_numpy(x) for name, x in zip(self.outputs, found, strict=True)}


def compare_windows(module: nn.Module, session: GraphSession) -> Difference:
    """Differences over whole sequences of several lengths and batch sizes.

    Raises:
        ValueError: If answers differ.
    """

    def answer(inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
        found = session.run(inputs)
        return tuple(found[name] for name in signature(module).outputs)

    return _over_draws(module, answer, LENGTHS, masks=True)


def compare_steps(stream: StepForm, session: GraphSession) -> Difference:
    """Differences of a stream's answers from PyTorch's for whole sequences, likewise."""
    module = stream.module
    expected, states = signature(module), tuple(stream.empty(1))

    def answer(inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
        state, given = stream.empty(len(inputs["x"])), []
        for x, time in zip(inputs["x"].unbind(1), inputs["time"].unbind(1), strict=True):
            found = session.run({"x": x, "time": time, **state})
            state = {name: found[f"next_{name}"] for name in states}
            given.append(tuple(found[name] for name in expected.outputs))
        by_output = zip(*given, strict=True)
        return tuple(torch.stack(part, 1) if expected.each_step else part[-1] for part in by_output)

    fitting = [length for length in LENGTHS if stream.max_len is None or length <= stream.max_len]
    return _over_draws(module, answer, fitting, masks=False)


_Answer = Callable[[dict[str, Tensor]], tuple[Tensor, ...]]


def _over_draws(module: nn.Module, answer: _Answer, lengths: Sequence[int], *, masks: bool) -> Difference:
    found = [_at(module, answer, batch, length, masks) for batch in BATCHES for length in lengths]
    return Difference(
        max(one.largest for one in found), sum(one.answers for one in found), sum(one.apart for one in found)
    )


def _at(module: nn.Module, answer: _Answer, batch: int, length: int, masks: bool) -> Difference:
    """The difference at one size, from the first draw in which few answers are apart."""
    found = []
    for seed in range(_DRAWS):
        inputs = draw(module, batch, length, seed)
        if not masks:  # a stream knows neither padding nor questions
            inputs = {name: torch.zeros_like(x) if x.dtype == torch.bool else x for name, x in inputs.items()}
        got = answer(inputs)
        with torch.no_grad():
            wanted = WindowForm(module)(*inputs.values())
        one = _difference(
            got, wanted if isinstance(wanted, tuple) else (wanted,), padding=inputs["key_padding_mask"]
        )
        if one.apart <= _MOST_APART * one.answers:
            return one
        found.append(one)
    one = min(found, key=lambda one: one.apart)
    raise ValueError(
        f"the graph's answers differ from PyTorch's by up to {one.largest:.2g} at batch {batch} and length "
        f"{length}, in {one.apart} of {one.answers} answers; nothing was written, please report it with the "
        "model's options"
    )


def _difference(got: tuple[Tensor, ...], wanted: tuple[Tensor, ...], padding: Tensor) -> Difference:
    """Of several outputs [B, ...], or [B, T, ...] where each step has an answer."""
    largest, apart, answers = 0.0, 0, 0
    for one, other in zip(got, wanted, strict=True):
        if one.shape != other.shape:
            raise ValueError(f"a graph gives shape {tuple(one.shape)} where PyTorch gives {tuple(other.shape)}")
        here = ~padding if other.dim() == 3 else torch.ones(other.shape[:-1], dtype=torch.bool)
        off = (one - other).abs().nan_to_num(torch.inf)[here].amax(-1)
        spread = other[here].std().nan_to_num(0.0).clamp(min=other[here].abs().mean())
        largest = max(largest, off.max().item())
        apart = max(apart, int((off > _CLOSE * spread).sum()))
        answers = len(off)
    return Difference(largest, answers, apart)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
