"""`ImageEncoder`: convolutions over single images, whose features become the tokens of a layer."""

from collections.abc import Sequence
from enum import StrEnum

import torch
from torch import Tensor, nn

from nacre._util.checks import choice, real, whole
from nacre.tasks.convolution import check_convolution


class Activation(StrEnum):
    """What follows each convolution."""

    RELU = "relu"
    ELU = "elu"


class ImageTokens(StrEnum):
    """What the layer reads as one step."""

    FRAMES = "frames"  # an image, all of its features side by side
    COLUMNS = "columns"  # a column of the only image of a sequence, from left to right


class Colours(StrEnum):
    """What the convolutions see of the red, green and blue of a pixel."""

    RGB = "rgb"
    YUV = "yuv"  # brightness, and two differences of colour


class DropoutAfter(StrEnum):
    """Which convolutions dropout follows."""

    EACH = "each"
    LAST = "last"


_YUV = ((0.299, 0.587, 0.114), (-0.14713, -0.28886, 0.436), (0.615, -0.51499, -0.10001))  # rows Y, U, V (BT.601)


class ImageEncoder(nn.Module):
    """Convolutions without padding at the edges of the image, and dropout.

    The features of a token are normalised to mean 0 and variance 1: the neurons of a NAC layer are bounded, and
    features that grow in training would saturate them.

    Args:
        size: Height and width of the images.
        channels: Colours of the images.
        conv: Filters, kernel size and stride of each convolution.
        activation: One of `Activation`.
        tokens: One of `ImageTokens`.
        colours: One of `Colours`.
        dropout: Share of the features that are dropped after a convolution in training.
        dropout_after: One of `DropoutAfter`.

    Example:
        >>> eye = ImageEncoder((96, 96), 3, [(10, 3, 2), (20, 5, 2), (30, 5, 2)])
        >>> frames, time = torch.rand(2, 8, 96, 96, 3), torch.arange(8.0).expand(2, 8)
        >>> eye(frames, time, torch.zeros(2, 8).bool())[0].shape
        torch.Size([2, 8, 2430])
    """

    def __init__(
        self,
        size: Sequence[int],
        channels: int,
        conv: Sequence[Sequence[int]],
        activation: str = "relu",
        tokens: str = "frames",
        colours: str = "rgb",
        dropout: float = 0.0,
        dropout_after: str = "each",
    ) -> None:
        super().__init__()
        choice("activation", activation, Activation)
        choice("tokens", tokens, ImageTokens)
        choice("colours", colours, Colours)
        choice("dropout_after", dropout_after, DropoutAfter)
        real("dropout", dropout, 0.0, 1.0)
        if colours == Colours.YUV and channels != 3:
            raise ValueError(f"colours 'yuv' is made of red, green and blue, got images with {channels} colours")
        self.tokens, self.colours = ImageTokens(tokens), Colours(colours)
        if not conv:
            raise ValueError("conv must hold a convolution at least")
        layers: list[nn.Module] = []
        if len(size) != 2:
            raise ValueError(f"size must be height and width of the images, got {size!r}")
        height, wide = (whole("size", length, 1) for length in size)
        filters = channels
        for place, (after, kernel, stride) in enumerate(conv, 1):
            check_convolution(after, kernel, stride)
            drops = dropout_after == DropoutAfter.EACH or place == len(conv)
            layers += [
                nn.Conv2d(filters, after, kernel, stride),
                nn.ELU() if activation == Activation.ELU else nn.ReLU(),
                nn.Dropout(dropout if drops else 0.0),
            ]
            height, wide, filters = (height - kernel) // stride + 1, (wide - kernel) // stride + 1, after
            if height < 1 or wide < 1:
                raise ValueError(
                    f"conv leaves nothing of images of {size[0]} x {size[1]} pixels, got {list(conv)}"
                )
        for layer in layers:
            if isinstance(layer, nn.Conv2d):
                # As He et al.: with torch's default, features shrink to a hundredth after three layers.
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # pyright: ignore[reportArgumentType]
        self.layers = nn.Sequential(*layers)
        self.width = filters * height * (wide if self.tokens is ImageTokens.FRAMES else 1)  # features of a token

    def forward(self, x: Tensor, time: Tensor, padding: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens of sequences of images.

        Args:
            x: [B, T, height, width, channels] from -1 to 1.
            time: [B, T] stamps.
            padding: [B, T] bool.

        Returns:
            Tokens [B, tokens, width], their stamps and their padding. The stamps of columns are their places, 0,
            1, 2, ... from the left.
        """
        batch, steps = x.shape[:2]
        if self.colours is Colours.YUV:
            x = x @ x.new_tensor(_YUV).T
        seen = self.layers(x.flatten(0, 1).permute(0, 3, 1, 2))  # [B T, filters, height, width]
        if self.tokens is ImageTokens.FRAMES:
            tokens = seen.reshape(batch, steps, self.width)
        elif steps != 1:
            raise ValueError(f"columns as tokens need sequences of one image, got {steps} steps")
        else:
            tokens = seen.permute(0, 3, 1, 2).flatten(2)  # [B, columns, filters height]
            count = tokens.shape[1]
            time, padding = torch.arange(count).to(time).expand(batch, count), padding.expand(batch, count)
        return nn.functional.layer_norm(tokens, (self.width,)), time, padding
