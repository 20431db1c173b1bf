"""`check_model`: what every model promises, asked of one in one call."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nacre.models._registry import create, model_info

_B, _T, _D_INPUT, _D_MODEL, _HEADS = 3, 7, 5, 8, 2


def check_model(model: str | Callable[..., nn.Module], **options: Any) -> list[str]:  # noqa: ANN401
    """Check that a model of yours can stand where those of nacre do: in networks, tables and saved files.

    Args:
        model: A class or function that takes `d_input`, `d_model`, and `num_heads` if it has heads; or its name.
        **options: Further options of it.

    Returns:
        What was checked.

    Raises:
        ValueError: Naming everything that it does not keep.

    Example:
        >>> check_model("sdpa")[0]
        'Outputs are [B, T, d_model], finite, of the type of the weights'
        >>> check_model(lambda d_input, d_model: torch.nn.Linear(d_input, d_model))
        Traceback (most recent call last):
        ValueError: the model does not keep what networks need:
        - It takes x, time and key_padding_mask: Linear.forward() got an unexpected keyword argument 'time'
    """
    made = _Maker(model, options)
    try:
        made.build()(made.x, time=made.time, key_padding_mask=made.padding)
    except Exception as error:
        raise ValueError(f"{_FAILED}\n- It takes x, time and key_padding_mask: {error}") from error
    broken, kept = [], []
    for check in _CHECKS:
        if not made.concerns(check):
            continue
        words = (inspect.getdoc(check) or "").rstrip(".")
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                check(made)
            kept.append(words)
        except Exception as error:
            broken.append(f"- {words}: {str(error).strip() or type(error).__name__}")
    if broken:
        raise ValueError("\n".join([_FAILED, *broken]))
    return kept


_FAILED = "the model does not keep what networks need:"


class _Maker:
    """Makes the model, always with the same weights, and holds what it is shown."""

    def __init__(self, model: str | Callable[..., nn.Module], options: dict[str, Any]) -> None:
        self._model, self._options = model, options
        random = torch.Generator().manual_seed(0)
        self.x = torch.randn(_B, _T, _D_INPUT, generator=random)
        self.time = torch.rand(_B, _T, generator=random, dtype=torch.float64).cumsum(1)
        self.padding = torch.arange(_T) >= torch.tensor([_T, _T - 2, _T - 3]).unsqueeze(1)  # [B, T]
        info = model_info(model) if isinstance(model, str) else getattr(model, "model_info", None)
        self.causal, self.uses_time = getattr(info, "causal", None), getattr(info, "uses_time", None)

    def build(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            sizes = {"d_input": _D_INPUT, "d_model": _D_MODEL}
            if isinstance(self._model, str):
                return create(self._model, **sizes, num_heads=_HEADS, **self._options).eval()
            heads = {"num_heads": _HEADS} if "num_heads" in inspect.signature(self._model).parameters else {}
            return self._model(**sizes, **heads, **self._options).eval()

    def concerns(self, check: Callable[["_Maker"], None]) -> bool:
        if check is _causality:
            return bool(self.causal)
        if check is _questions:
            return "query_only" in inspect.signature(self.build().forward).parameters
        return check is not _time or self.uses_time is not None

    def answers(self, **changes: Tensor | None) -> Tensor:
        """Outputs of a fresh model, of the usual input but for what is given otherwise."""
        given = {"x": self.x, "time": self.time, "key_padding_mask": self.padding, **changes}
        with torch.no_grad():
            return self.build()(given.pop("x"), **given)


def _shapes(made: _Maker) -> None:
    """Outputs are [B, T, d_model], finite, of the type of the weights."""
    for rows, steps in ((_B, _T), (1, 1), (2, 2)):
        x, time = made.x[:rows, :steps], made.time[:rows, :steps]
        for y in (made.answers(x=x, time=time, key_padding_mask=None), made.build()(x)):
            _ask(tuple(y.shape) == (rows, steps, _D_MODEL), f"got {tuple(y.shape)} of {rows} rows, {steps} steps")
            _ask(bool(y.isfinite().all()), "some are not finite")
    double = made.build().double()(made.x.double(), time=made.time)
    _ask(double.dtype == torch.float64, f"in float64 they are {double.dtype}")


def _padding(made: _Maker) -> None:
    """What stands at padded steps changes nothing, and their outputs are 0."""
    y = made.answers()
    _ask(not y[made.padding].any(), "outputs at padded steps are not 0")
    junk = torch.where(made.padding.unsqueeze(-1), 1e3, made.x)
    _ask(_same(made.answers(x=junk), y), "other numbers at padded steps change outputs")


def _rows(made: _Maker) -> None:
    """A batch gives what its rows give, one by one and without padding."""
    y = made.answers()
    for i, length in enumerate((~made.padding).sum(1).tolist()):
        cut = {"x": made.x[i : i + 1, :length], "time": made.time[i : i + 1, :length], "key_padding_mask": None}
        one = made.answers(**cut)[0]
        _ask(_same(one, y[i, :length]), f"row {i} alone differs")


def _learning(made: _Maker) -> None:
    """Every parameter gets a gradient, and none that is not finite."""
    model = made.build().train()
    (model(made.x, time=made.time, key_padding_mask=made.padding) * torch.randn(_B, _T, _D_MODEL)).sum().backward()
    for name, parameter in model.named_parameters():
        _ask(parameter.grad is not None and bool(parameter.grad.any()), f"{name} gets none")
        _ask(bool(parameter.grad is None or parameter.grad.isfinite().all()), f"that of {name} is not finite")


def _evaluation(made: _Maker) -> None:
    """In evaluation mode, equal inputs give equal outputs."""
    model = made.build()
    with torch.no_grad():
        first, second = (model(made.x, time=made.time) for _ in range(2))
    _ask(torch.equal(first, second), "the second call gives others")


def _saving(made: _Maker) -> None:
    """All that it learns is in its state dict: a new one with the same state dict is the same model."""
    model = made.build()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    other = made.build()
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    with torch.no_grad():
        same = torch.equal(model(made.x, time=made.time), other.eval()(made.x, time=made.time))
    _ask(same, "it gives other outputs")


def _time(made: _Maker) -> None:
    """Time stamps change outputs if, and only if, `model_info.uses_time` says so."""
    later = made.time * 1.7
    same = _same(made.answers(time=later), made.answers())
    _ask(same != made.uses_time, f"uses_time is {made.uses_time}, and other stamps change {'nothing' * same}")


def _causality(made: _Maker) -> None:
    """Later steps change no earlier output, as `model_info.causal` says."""
    changed = made.x.clone()
    changed[:, 4:] += 1.0
    y, other = (made.answers(x=x, key_padding_mask=None)[:, :4] for x in (made.x, changed))
    _ask(_same(y, other), "steps 4 and later change outputs before them")


def _questions(made: _Maker) -> None:
    """Steps that only ask (`query_only`) change no output of others."""
    asks = torch.zeros(_B, _T, dtype=torch.bool)
    asks[:, 3] = True
    changed = made.x.clone()
    changed[:, 3] += 1.0
    y, other = (made.answers(x=x, key_padding_mask=None, query_only=asks)[~asks] for x in (made.x, changed))
    _ask(_same(y, other), "they do")


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether outputs are equal but for rounding: batches of other shapes are summed in another order."""
    return torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def _ask(kept: bool, why: str) -> None:
    if not kept:
        raise ValueError(why)


_CHECKS = (_shapes, _padding, _rows, _learning, _evaluation, _saving, _time, _causality, _questions)
