"""`TaskNetwork`: scaling, convolutions, blocks around a model, a read-out. Models differ in the layer."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from nacre._util.checks import choice, flag, real, whole
from nacre.data.dataset import UNSCORED, Dataset, Kind
from nacre.data.missing import Missing
from nacre.io import saveable
from nacre.layer.foreign import RENAMED, explain
from nacre.layer.inputs import padding_mask, questions, sequence, time_stamps
from nacre.models._base import take
from nacre.models._registry import create, model_info, model_options
from nacre.models.nac import saved_plus
from nacre.tasks.convolution import TemporalConvolution
from nacre.tasks.image_encoder import ImageEncoder, ImageTokens
from nacre.tasks.observed import ObservedEvents, ObservedRows, told_first
from nacre.tasks.scaling import (
    UNKNOWN,
    answer_scale,
    events_mean_and_spread,
    last_valid,
    mean_and_spread,
    observed_mean_and_spread,
    relative_rows,
)
from nacre.tasks.stack import ModelStack
from nacre.tasks.window_map import WindowMap
from nacre.wiring.builders import DEFAULT_SEED


class LayerInput(NamedTuple):
    """What a network gives its layer, and what its answers are added to."""

    x: Tensor  # [B, tokens, width]
    time: Tensor  # [B, tokens]
    padding: Tensor  # [B, tokens]
    base: Tensor | None  # [B, 1 or outputs] or, each step, [B, tokens, 1 or outputs], in the data's units
    query_only: Tensor | None = None  # [B, tokens]


@saveable("network")
class TaskNetwork(nn.Module):
    """A network for one kind of task around any model of the zoo.

    Features are scaled by buffers that `fit_scale` takes from training rows, and the time since the first step, in
    units of `time_scale`, is one more feature, for models without a sense of time. The read-out of a sequence is
    the mean over its valid steps, that of forecasts and frames the last one.

    Forecasts are answered relative to the last known value of what is forecast, from features relative to their
    own last values, and with a linear map of the window beside the layer: what changes is what must be learned.

    Args:
        model: Name of the model, see `nacre.list_models`.
        kind: What is asked.
        d_input: Number of features.
        outputs: Number of classes, or of numbers that are asked for.
        d_model: Width of the layer.
        num_heads: Heads of the layer, where it has any.
        conv: Filters, kernel size and stride of the convolutions in front of the layer.
        dense: Widths of hidden dense layers between layer and output.
        dropout: Share of what is dropped before each dense layer in training.
        time_scale: Unit of time for the layer: about how long a sequence lasts.
        options: Further options of the model.
        block: Whether the layer stands in residual blocks (`ModelStack`), or alone between input and read-out.
        depth: Number of blocks.
        relative_to: Columns that answers are relative to: one, or one for each number. In forecasts, at the last
            step; there all features are taken relative to their last values, too.
        window: Points and time step of the grid on which a linear map of the window is added to a forecast.
        image: If rows are images: `size`, height and width, and further options of `ImageEncoder`. Frames get
            no time feature, so that each is encoded once while they stream in.
        one_hot: Columns that are 1 for one name of a category and 0 for all others; they stay as they are, but
            names that training rows lack act like no name.
        static: Columns that never change within a sequence: no value of theirs is relative to another.
        missing: What is done about values that are NaN, one of `nacre.data.Missing`. By "events", x is [B, T, 2]:
            which of the features, and its value.
        quantiles: Levels, ascending, that are answered of each number in the place of one value.

    Example:
        >>> network = TaskNetwork("nac", Kind.CLASSIFICATION, 3, 5, d_model=16, num_heads=2, dense=[8])
        >>> padding = torch.zeros(4, 30).bool()
        >>> network(torch.randn(4, 30, 3), torch.rand(4, 30).cumsum(1), padding).shape
        torch.Size([4, 5])
    """

    def __init__(
        self,
        model: str,
        kind: Kind,
        d_input: int,
        outputs: int,
        *,
        d_model: int = 64,
        num_heads: int = 4,
        conv: Sequence[Sequence[int]] = (),
        dense: Sequence[int] = (),
        dropout: float = 0.0,
        time_scale: float = 1.0,
        options: dict[str, Any] | None = None,
        block: bool = True,
        depth: int = 1,
        relative_to: Sequence[int] = (),
        window: tuple[int, float] | None = None,
        image: dict[str, Any] | None = None,
        one_hot: Sequence[int] = (),
        static: Sequence[int] = (),
        missing: str = "error",
        quantiles: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.config = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        options = self.config["options"] = dict(options or {})
        self.relative_to = [whole("relative_to", column, 0, d_input - 1) for column in relative_to]
        self.one_hot = [whole("one_hot", column, 0, d_input - 1) for column in one_hot]
        if window is not None:
            points, step = window
            step = real("time step of window", step, 0.0, math.inf, open_low=True)
            window = whole("points of window", points, 1), step
        whole("depth", depth, 1)
        flag("block", block)
        self.config |= {"relative_to": self.relative_to, "window": None if window is None else list(window)}
        self.static = [whole("static", column, 0, d_input - 1) for column in static]
        choice("missing", missing, Missing)
        self.missing = Missing(missing)
        self.config |= {"one_hot": self.one_hot, "static": self.static, "missing": str(self.missing)}
        self.quantiles = self.config["quantiles"] = [float(level) for level in quantiles]
        self.kind = Kind(kind)
        if self.kind.each_step and any(stride > 1 for _, _, stride in conv):
            raise ValueError(
                f"conv must have stride 1 in {self.kind}, which asks about every step, got {list(conv)}"
            )
        real("dropout", dropout, 0.0, 1.0)
        self.time_scale = real("time_scale", time_scale, 0.0, math.inf, open_low=True)
        self.register_buffer("shift", torch.zeros(d_input))
        self.register_buffer("scale", torch.ones(d_input))
        numbers = outputs if self.kind.has_numbers else 1
        self.register_buffer("y_shift", torch.zeros(numbers))
        self.register_buffer("y_scale", torch.ones(numbers))
        self.eye = ImageEncoder(channels=d_input, **image) if image else None
        if self.eye is not None and conv:
            raise ValueError(f"conv is for features along time; images have image.conv, got conv {list(conv)}")
        self.frames = self.eye is not None and self.eye.tokens is ImageTokens.FRAMES
        self.observed = self._observed(d_input, d_model)
        first = self.eye or self.observed
        width = d_input if first is None else first.width
        self.front = TemporalConvolution(width if self.frames else width + 1, conv)
        sizes = {"d_model": d_model, "num_heads": num_heads}
        each = [_options(model, options, time_scale, number) for number in range(depth)]
        if block:
            models = [create(model, d_input=d_model, **sizes, **one) for one in each]
            self.layer = ModelStack(models, self.front.width, d_model, dropout)
        elif depth == 1:
            self.layer = create(model, d_input=self.front.width, **sizes, **each[0])
        else:
            raise ValueError(f"depth must be 1 without blocks, got {depth}")
        self.window = WindowMap(*window, d_input=d_input, outputs=outputs) if window else None
        widths = [d_model, *dense]
        hidden = [
            part
            for width, after in zip(widths, dense, strict=False)
            for part in (nn.Dropout(dropout), nn.Linear(width, after), nn.ReLU())
        ]
        self.head = nn.Sequential(
            *hidden, nn.Dropout(dropout), nn.Linear(widths[-1], outputs * (len(self.quantiles) or 1))
        )

    def _observed(self, d_input: int, d_model: int) -> ObservedRows | ObservedEvents | None:
        """What reads values that may be missing."""
        if self.missing is Missing.ERROR:
            return None
        if self.eye is not None:
            raise ValueError(f"missing is for features, not for images, got {str(self.missing)!r}")
        if self.missing is Missing.EVENTS:
            return ObservedEvents(d_input, d_model)
        return ObservedRows(self.missing, d_input, self.one_hot, self.time_scale)

    shift: Tensor
    scale: Tensor
    y_shift: Tensor
    y_scale: Tensor

    def fit_scale(self, data: Dataset, train: Tensor) -> None:
        """Take means and standard deviations of features and answers from these sequences, and no others.

        Pixels go from -1 to 1, whatever the training images are like.
        """
        if data.has_images:
            self.shift, self.scale = (torch.full_like(self.shift, 127.5) for _ in range(2))
        elif data.has_events:
            self.shift, self.scale = (part.to(self.shift) for part in events_mean_and_spread(data, train))
            for column in self.one_hot:
                self.shift[column] = 0.0  # its scale is 1, or UNKNOWN
        else:
            self._fit_columns(data, train)
        if self.kind.has_numbers:
            mean, spread = answer_scale(data, train, self.relative_to)
            self.y_shift, self.y_scale = mean.to(self.shift), spread.to(self.shift)

    def _fit_columns(self, data: Dataset, train: Tensor) -> None:
        known = data.known_values(train)
        rows = relative_rows(data, train) if self._from_last else known.double()
        of = mean_and_spread if self.observed is None else observed_mean_and_spread
        self.shift, self.scale = (part.to(self.shift) for part in of(rows))
        if isinstance(self.observed, ObservedRows):
            self.observed.typical = observed_mean_and_spread(known)[0].to(self.shift)
        if self._from_last and self.static:
            static = (part.to(self.shift)[self.static] for part in of(known[:, self.static].double()))
            self.shift[self.static], self.scale[self.static] = static
        for column in self.one_hot:
            self.shift[column] = 0.0
            self.scale[column] = 1.0 if known[:, column].any() else UNKNOWN

    @property
    def _from_last(self) -> bool:
        """Whether features are relative to their last values."""
        return bool(self.relative_to) and self.kind is Kind.FORECASTING

    @explain(RENAMED)
    def forward(
        self,
        x: Tensor,
        time: Tensor,
        key_padding_mask: Tensor | None = None,
        *,
        query_only: Tensor | None = None,
    ) -> Tensor:
        """Answers [B, outputs] or, each step, [B, T, outputs]: logits of classes, or numbers in the data's units.

        With Q quantiles they are outputs * Q, those of the first number first.

        Args:
            x: [B, T, d_input] features as they are in the data, or [B, T, height, width, d_input] images, or
                [B, T, 2] events.
            time: [B, T] stamps that never go back, in the data's unit, or [T] for all rows.
            key_padding_mask: [B, T] bool, True = padding, at the end of rows; None where there is none.
            query_only: [B, T] bool, steps that ask and tell nothing, where each step is answered; None for none.
        """
        return self.from_tokens(*self.tokens(x, time, key_padding_mask, query_only=query_only))

    def from_tokens(
        self,
        x: Tensor,
        time: Tensor,
        padding: Tensor,
        base: Tensor | None = None,
        query_only: Tensor | None = None,
    ) -> Tensor:
        """Answers to what `tokens` gave: the second half of `forward`."""
        more = {} if query_only is None else {"query_only": query_only}  # layers of others need not know them
        # In training only: whoever looks at a trained network finds all states, and answers of the same bits.
        if self.training and self._reads_last and isinstance(self.layer, ModelStack):
            states = self.layer(x, time, padding, read=last_valid(padding).squeeze(-1), **more)  # [B, 1, d_model]
            return self.answer(states.squeeze(1), base)
        states = self.layer(x, time=time, key_padding_mask=padding, **more)  # [B, tokens, d_model]
        return self.answer(states if self.kind.each_step else self._read_out(states, padding), base)

    def tokens(
        self,
        x: Tensor,
        time: Tensor,
        key_padding_mask: Tensor | None = None,
        *,
        query_only: Tensor | None = None,
    ) -> LayerInput:
        """What the layer reads."""
        if self.eye is None:  # in any precision: scaling comes first
            sequence("x", x, 2 if self.missing is Missing.EVENTS else len(self.shift), x)
        shape = (x.shape[0], x.shape[1])
        time = time_stamps("time", time, shape)
        padding = key_padding_mask
        if padding is None:
            padding = torch.zeros(shape, dtype=torch.bool, device=x.device)
        padding_mask("key_padding_mask", padding, shape)
        origin = time[:, :1]
        if query_only is not None:
            origin = self._check_questions(query_only, time, padding)
        if self.eye is None:
            x = x.masked_fill(padding.unsqueeze(-1), 0)  # it may hold anything
        if isinstance(self.observed, ObservedEvents):
            return self._event_tokens(self.observed, x, time, padding)
        time = time - origin  # some layers use absolute stamps; those of test data were never seen
        filled = None
        if isinstance(self.observed, ObservedRows):
            blank = padding if query_only is None else padding | query_only
            filled = self.observed.fill(x, time, padding, ~blank, self.scale < UNKNOWN)
            x = filled.x
        base = x[..., self.relative_to] if self.relative_to else None
        if self._from_last:
            last = take(x, last_valid(padding).squeeze(-1))  # [B, 1, F]
            base = last[:, 0, self.relative_to]
            if absolute := [*self.one_hot, *self.static]:
                last = last.index_fill(2, torch.tensor(absolute, device=x.device), 0.0)
            x = x - last
        x = (x - self.shift) / self.scale
        if self.window is not None:
            base = self.y_scale * self.window(x, time, padding) + (0 if base is None else base)
        if self.eye is not None:
            x, time, padding = self.eye(x, time, padding)
        if isinstance(self.observed, ObservedRows) and filled is not None:
            x = self.observed(x, filled)
        return LayerInput(*self._timed(x, time, padding), base, query_only)

    def _event_tokens(self, observed: ObservedEvents, x: Tensor, time: Tensor, padding: Tensor) -> LayerInput:
        """What the layer reads of events; those of variables that training lacks are as good as not there."""
        variable, value = x[..., 0].long(), x[..., 1]
        gone = padding | value.isnan() | (self.scale >= UNKNOWN)[variable]
        value = ((value - self.shift[variable]) / self.scale[variable]).masked_fill(gone, 0.0)
        x, time, padding = told_first(observed(variable, value), time, gone)
        return LayerInput(*self._timed(x, time - time[:, :1], padding), None)

    def _timed(self, x: Tensor, time: Tensor, padding: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Steps, stamps and padding after the convolutions, with the time as one more feature, but for frames."""
        if not self.frames:
            x = torch.cat([x, (time / self.time_scale).to(x.dtype).unsqueeze(-1)], -1)
        return self.front(x.masked_fill(padding.unsqueeze(-1), 0.0), time, padding)

    def _check_questions(self, query_only: Tensor, time: Tensor, padding: Tensor) -> Tensor:
        """The time [B, 1] of the first step that tells something; refuses questions where they make no sense."""
        questions(query_only, (time.shape[0], time.shape[1]), time)
        if not self.kind.each_step:
            raise ValueError(f"query_only is for kinds with an answer for each step, not for {self.kind}")
        if self.config["conv"]:
            raise ValueError(
                "query_only needs a network without conv: a convolution would mix questions into steps"
            )
        told = ~(query_only | padding)
        return time.gather(1, told.int().argmax(1, keepdim=True))

    def answer(self, states: Tensor, base: Tensor | None = None) -> Tensor:
        """Answers [..., outputs] to states [..., d_model] of the layer, on top of the base."""
        out = self.head(states)
        if not self.kind.has_numbers:
            return out
        if self.quantiles:
            return self._quantile_answers(out, base)
        out = self.y_shift + self.y_scale * out
        return out if base is None else out + base

    def _quantile_answers(self, out: Tensor, base: Tensor | None) -> Tensor:
        """Ascending quantiles [..., outputs * Q] of each number, on top of the base."""
        out = out.unflatten(-1, (-1, len(self.quantiles))).sort(-1).values  # [..., outputs, Q]
        out = self.y_shift.unsqueeze(-1) + self.y_scale.unsqueeze(-1) * out
        return (out if base is None else out + base.unsqueeze(-1)).flatten(-2)

    @property
    def _reads_last(self) -> bool:
        """Whether answers are read from the last step alone."""
        return self.kind is Kind.FORECASTING or (self.frames and not self.kind.each_step)

    def _read_out(self, states: Tensor, padding: Tensor) -> Tensor:
        valid = ~padding
        if self._reads_last:
            return take(states, last_valid(padding).squeeze(-1)).squeeze(1)
        return states.sum(1) / valid.sum(1, keepdim=True).clamp(min=1)  # states of padding are zeros

    def loss(self, out: Tensor, y: Tensor) -> Tensor:
        """Mean loss of the scored answers: cross entropy, or squared error in units of the answers' spread.

        What a recipe may ask for instead is in `nacre.tasks.losses`.
        A batch of which nothing is scored has loss 0.
        """
        if self.kind.has_classes:
            total = nn.functional.cross_entropy(
                out.flatten(0, -2), y.flatten(), ignore_index=UNSCORED, reduction="sum"
            )
            return total / (y != UNSCORED).sum().clamp(min=1)  # torch's mean of no answers would be NaN
        scored = ~y.isnan()
        if self.kind is Kind.MULTI_LABEL:
            each = nn.functional.binary_cross_entropy_with_logits(out, y.nan_to_num(), reduction="none")
            return torch.where(scored, each, 0.0).sum() / scored.sum().clamp(min=1)
        error = torch.where(scored, out - y.nan_to_num(), 0.0) / self.y_scale
        return error.square().sum() / scored.sum().clamp(min=1)

    def to_config(self) -> dict[str, Any]:
        """Plain data from which `from_config` makes the same network, without its weights."""
        return {**self.config, "kind": str(self.kind), "version": model_info(self.config["model"]).version}

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_config`. Networks of before there were blocks have none."""
        data = {"block": False, **data}
        version = whole("version", data.pop("version", 2), 1)
        if data.get("model") == "nac-plus":
            data["model"], data["options"] = saved_plus(version, data.get("options") or {})
        return cls(**data)


def _options(model: str, options: dict[str, Any], time_scale: float, number: int) -> dict[str, Any]:
    """Options of the model in one of the blocks."""
    known = model_options(model)  # None: those of NAC
    options = dict(options)
    if known is None or "time_scale" in known:
        options.setdefault("time_scale", time_scale)
    if known is None and number:  # each block has its own wiring
        options["seed"] = options.get("seed", DEFAULT_SEED) + number
    return options
