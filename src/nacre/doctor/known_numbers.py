"""A tiny forward pass and training step, compared with numbers that are known."""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from nacre.doctor.finding import Finding, ok, problem
from nacre.layer.attention import NAC
from nacre.models._registry import create
from nacre.native import library

# Mean square of the outputs before and after one step of gradient descent, in float64.
KNOWN = {"nac": (0.2557411802200394, 0.1623505766978524), "nac-plus": (0.6287383516552354, 0.3375656031319066)}
TOLERANCE = 1e-9


def check_numbers() -> Iterator[Finding]:
    """Compare, with kernels where there are any and without."""
    wrong = []
    for name, wanted in KNOWN.items():
        for path, context in (("kernels", nullcontext()), ("PyTorch", library.switched_off())):
            with context:
                got = forward_and_train(name)
            if any(abs(a - b) > TOLERANCE * max(1.0, abs(b)) for a, b in zip(got, wanted, strict=True)):
                wrong.append(f"{name} by {path} gives {got[0]:.12g}, {got[1]:.12g} instead of {wanted}")
    if wrong:
        fix = "please report it with this text; NACRE_NATIVE=0 does without the kernels"
        yield problem("numbers", "; ".join(wrong), fix)
    else:
        how = "with kernels and without" if library.library() is not None else "without kernels"
        yield ok("numbers", f"a forward pass and a training step give what they should, {how}")


def forward_and_train(name: str) -> tuple[float, float]:
    """Mean square of the outputs of a small layer, before and after one step of gradient descent."""
    layer, x, stamps = small_layer(name, steps=12, dtype=torch.float64)
    before = layer(x, time=stamps).square().mean()
    before.backward()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter -= 0.1 * parameter.grad  # pyright: ignore[reportOperatorIssue]
    return before.item(), layer(x, time=stamps).square().mean().item()


def small_layer(name: str, steps: int, dtype: torch.dtype) -> tuple[NAC, Tensor, Tensor]:
    """A layer with weights that no generator draws, an input and time stamps."""
    layer = create(name, d_input=3, d_model=8, num_heads=2).to(dtype)
    with torch.no_grad():
        for number, parameter in enumerate(layer.parameters()):
            parameter.copy_(_waves(parameter.numel(), number).view_as(parameter))
    x = _waves(2 * steps * 3, 100).view(2, steps, 3).to(dtype)
    return layer, x, (torch.arange(steps, dtype=torch.float64) ** 1.5).expand(2, -1)  # pyright: ignore[reportReturnType]


def _waves(count: int, number: int) -> Tensor:
    """Numbers from -0.5 to 0.5 that look irregular and are the same on every machine."""
    return 0.5 * torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + number)
