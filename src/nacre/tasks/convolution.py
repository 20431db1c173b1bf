"""`TemporalConvolution`: convolutions along time in front of a layer, unaffected by padding."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nacre._util.checks import whole


class TemporalConvolution(nn.Module):
    """Convolutions over steps, each followed by ReLU, with zeros before the first and after the last step.

    With stride 1 steps stay where they are: each keeps its stamp, and padding stays padding. A token, one step of
    the output of a larger stride, is padding if all steps that it covers are. Its time is that of the last valid
    step that it covers, when all of them were known. With an even kernel size, which must have stride 1, a step
    sees one more step before it than after it.

    Args:
        d_input: Width of the input.
        convolutions: Filters, kernel size and stride of each.

    Example:
        >>> front = TemporalConvolution(2, [(64, 5, 1)])
        >>> x, time, padding = front(torch.randn(3, 20, 2), torch.rand(3, 20).cumsum(1), torch.zeros(3, 20).bool())
        >>> x.shape
        torch.Size([3, 20, 64])
    """

    def __init__(self, d_input: int, convolutions: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.d_input = d_input
        widths = [d_input, *(filters for filters, _, _ in convolutions)]
        self.width = widths[-1]
        for filters, kernel, stride in convolutions:
            check_convolution(filters, kernel, stride)
            if kernel % 2 == 0 and stride > 1:
                raise ValueError(f"kernel sizes must be odd where the stride is not 1, got {kernel} and {stride}")
        self.shapes = [(kernel, stride) for _, kernel, stride in convolutions]
        self.layers = nn.ModuleList(
            nn.Conv1d(width, filters, kernel, stride, padding=kernel // 2)
            for width, (filters, kernel, stride) in zip(widths, convolutions, strict=False)
        )

    def forward(self, x: Tensor, time: Tensor, padding: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Steps [B, T, F], stamps and padding [B, T] of the input -> the same of the output."""
        for layer, (kernel, stride) in zip(self.layers, self.shapes, strict=True):
            if stride > 1:
                x, time, padding = _with_room(x, time, padding, kernel, stride)
            steps = x.shape[1]
            x = layer(x.masked_fill(padding.unsqueeze(-1), 0.0).transpose(1, 2)).relu().transpose(1, 2)
            if stride == 1:
                x = x[:, :steps]  # an even kernel gives one more, which would stand for no step
            else:
                time, padding = _tokens(time, padding, kernel, stride)
        return x, time, padding


def check_convolution(filters: int, kernel: int, stride: int) -> None:
    """Refuse what no convolution has."""
    whole("filters of conv", filters, 1)
    whole("kernel size of conv", kernel, 1)
    whole("stride of conv", stride, 1, 2**31 - 1)


def _with_room(
    x: Tensor, time: Tensor, padding: Tensor, kernel: int, stride: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Add padding so that every token that covers a step is made, however long the others of a batch are."""
    last = x.shape[1] - 1  # step
    middle = (last + kernel // 2) // stride * stride  # of the last token that covers it
    room = max(0, middle - last)
    pad = nn.functional.pad
    return pad(x, (0, 0, 0, room)), pad(time, (0, room)), pad(padding, (0, room), value=True)


def _tokens(time: Tensor, padding: Tensor, kernel: int, stride: int) -> tuple[Tensor, Tensor]:
    """Stamps and padding of the tokens of a strided convolution, [B, tokens] each."""
    known = time.masked_fill(padding, -torch.inf)
    edge = known.new_full((len(known), kernel // 2), -torch.inf)
    last = torch.cat([edge, known, edge], 1).unfold(1, kernel, stride).amax(-1)
    empty = last == -torch.inf
    return last.masked_fill(empty, 0.0), empty
