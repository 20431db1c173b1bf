"""Augmentation of training images of Udacity's simulator. Never used for scoring."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from nacre.data.dataset import Batch, Dataset, Kind
from nacre.data.sets.udacity_images import BOTTOM, HEIGHT, TOP, WIDTH

SHARE = 0.6  # of the images that are changed
CAMERA_STEERING = (0.0, 0.2, -0.2)  # added to the label of the centre, left, right camera: back to the centre
PIXEL_STEERING = 0.002  # added to the label for each pixel of a shift to the right
SHIFT = (50.0, 5.0)  # pixels to the side, and up or down, at most
SHADOW = (0.2, 0.5)  # range of the brightness factor in a shadow
BRIGHTNESS = (0.8, 1.2)


@dataclass(frozen=True)
class Draws:
    """Random changes of each of B images, in pixels of the 320 x 160 that the simulator records."""

    camera: Tensor  # [B] whose image is taken: 0 centre, 1 left, 2 right
    flip: Tensor  # [B] bool, whether left and right are exchanged
    shift: Tensor  # [B, 2] to the right and down
    shadow: Tensor  # [B, 2] where the edge of the shadow crosses the top and the bottom of the image
    side: Tensor  # [B] bool, whether the shadow is to the right of its edge
    light: Tensor  # [B] brightness factor in the shadow
    brightness: Tensor  # [B] factor of all pixels

    def of(self, which: Tensor) -> Draws:
        """The changes of some of the images."""
        return Draws(*(getattr(self, field.name)[which] for field in fields(self)))


def draw(count: int, cameras: int, generator: Generator) -> Draws:
    """Draw the changes of `count` images, each seen by so many cameras."""

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    return Draws(
        camera=torch.randint(cameras, (count,), generator=generator),
        flip=uniform(0, 1) < 0.5,
        shift=uniform(-1, 1, 2) * torch.tensor(SHIFT),
        shadow=uniform(0, WIDTH, 2),
        side=uniform(0, 1) < 0.5,
        light=uniform(*SHADOW),
        brightness=uniform(*BRIGHTNESS),
    )


def augment_steering(data: Dataset, index: Tensor, generator: Generator) -> Batch:
    """Images [B] of the road, and how to steer there: the augmentations of the paper, on a share of the images.

    The data is as `load_udacity` gives it, images of the side cameras after all others.
    """
    batch, cameras = data.batch(index), len(data.values) // len(data)
    chosen = torch.rand(len(index), generator=generator) < SHARE
    draws = draw(len(index), cameras, generator).of(chosen)
    view = data.values[data.start[index[chosen]] + draws.camera * len(data)]  # [b, height, width, 3]
    images, y = changed(view, batch.y[chosen, 0], draws)
    batch.x[chosen, 0], batch.y[chosen, 0] = images, y  # both are copies of what the data set holds
    return batch


def changed(images: Tensor, y: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
    """Images [b, height, width, 3] uint8 of the drawn cameras and the steering [b] of the centre one, changed."""
    y = y + y.new_tensor(CAMERA_STEERING)[draws.camera]
    pixels = images.permute(0, 3, 1, 2).float()  # [b, 3, height, width]
    pixels = torch.where(draws.flip.view(-1, 1, 1, 1), pixels.flip(-1), pixels)
    y = torch.where(draws.flip, -y, y)
    pixels = shifted(pixels, draws.shift)
    y = y + PIXEL_STEERING * draws.shift[:, 0]
    pixels = pixels * shade(pixels.shape[-2:], draws) * draws.brightness.view(-1, 1, 1, 1)
    return pixels.round().clamp(0, 255).to(images.dtype).permute(0, 2, 3, 1), y.clamp(-1, 1)


def shifted(pixels: Tensor, shift: Tensor) -> Tensor:
    """Pixels [b, 3, height, width] moved by [b, 2] pixels of the recorded image, to the right and down.

    What comes in from outside repeats the edge. A black bar, as in the authors' code, would tell a network how far
    an image was moved, and with that a part of the answer.
    """
    # From the corner of the image at -1 to the one at 1, a grid says where each new pixel is taken from.
    extent = shift.new_tensor([WIDTH, BOTTOM - TOP])
    move = torch.eye(2, 3).repeat(len(shift), 1, 1)
    move[:, :, 2] = -2 * shift / extent
    grid = F.affine_grid(move, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


def shade(size: torch.Size, draws: Draws) -> Tensor:
    """[b, 1, height, width] brightness factor: lower on one side of a line from top to bottom."""
    high, wide = size
    rows = TOP + (torch.arange(high) + 0.5) * (BOTTOM - TOP) / high  # [height] recorded pixels from the top
    down = rows / HEIGHT  # from 0, top, to 1, bottom
    across = (torch.arange(wide) + 0.5) * WIDTH / wide  # [width] recorded pixels from the left
    edge = draws.shadow[:, :1] + (draws.shadow[:, 1:] - draws.shadow[:, :1]) * down  # [b, height]
    dark = (across > edge.unsqueeze(-1)) == draws.side.view(-1, 1, 1)  # [b, height, width]
    return torch.where(dark, draws.light.view(-1, 1, 1), 1.0).unsqueeze(1)


def check_steering(data: Dataset) -> None:
    """Refuse other data than images of a drive in Udacity's simulator."""
    views = len(data.values) / len(data)
    single = data.has_images and int(data.length.max()) == 1 and views in (1, 3)
    if data.kind is not Kind.REGRESSION or data.outputs != 1 or not single:
        raise ValueError(
            "training.augment 'steering' is for single images of one or three cameras, and one number, steering, "
            f"to be told of each, as in the data set udacity; {data.name} is something else"
        )
