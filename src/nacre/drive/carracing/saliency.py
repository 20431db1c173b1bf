"""What a driving network looks at: Grad-CAM of its last convolution. Needs captum and matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nacre._util.checks import whole
from nacre._util.files import write_atomic
from nacre.data.sets.episodes import ACTIONS, FRAME, Episode
from nacre.drive.carracing.policy import NetworkDriver
from nacre.drive.carracing.world import FPS
from nacre.tasks.image_encoder import ImageEncoder
from nacre.tasks.network import TaskNetwork

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEAT = "inferno"  # brightness grows with heat, so that it can be read without telling hues apart
_OPAQUE = 0.75  # of the colour over a pixel with full heat: road and car stay visible below


def heat(network: TaskNetwork, frames: NDArray[np.uint8], action: int) -> NDArray[np.float32]:
    """Grad-CAM of an action's logit for the last frame of a window.

    It is taken after the activation of the last convolution: that is what the layer reads, and a feature that is
    zero somewhere adds nothing there. A filter is weighted by its mean gradient over a frame, so heat shows where
    the features are that support the action; it cannot tell two places apart that look alike.

    Args:
        network: A network for frames. Weights, gradients, flags and modes stay as they are.
        frames: [T, 96, 96, 3] uint8, a window as the driver sees it.
        action: Number of the action.

    Returns:
        [T, 96, 96] from 0 to 1, the largest value of the window; all 0 if nothing supports the action.
    """
    from captum.attr import LayerGradCam

    eye = network.eye
    if eye is None or not network.frames:
        raise ValueError("network must be one for frames, as `nacre train carracing` makes it")
    x, time, padding = window(frames)
    if not 0 <= action < len(ACTIONS):
        raise ValueError(f"action must be 0 to {len(ACTIONS) - 1}, got {action}")
    with _evaluating(network):
        last = max(i for i, part in enumerate(eye.layers) if isinstance(part, nn.Conv2d))
        cam = LayerGradCam(network, eye.layers[last + 1])
        found = cam.attribute(x, action, (time, padding), relu_attributions=True)
    assert isinstance(found, torch.Tensor)
    maps = found.detach()[:, 0].double().numpy()  # [T, h, w]: the encoder has folded time into the batch
    rows, columns = (_upsampling(eye, cells, FRAME[0]) for cells in maps.shape[1:])
    maps = rows @ maps @ columns.T
    return (maps / (maps.max() or 1.0)).astype(np.float32)


def heat_now(network: TaskNetwork, frames: NDArray[np.uint8], action: int) -> NDArray[np.float32]:
    """Heat [96, 96] of the last frame of a window [T, 96, 96, 3], from 0 to 1, the largest value of that frame.

    The window's maximum may be in an earlier frame; here the last frame has the full range of its own.
    """
    last = heat(network, frames, action)[-1]
    return last / (last.max() or 1.0)


def window(frames: NDArray[np.uint8]) -> tuple[Tensor, Tensor, Tensor]:
    """A network's inputs for a window [T, 96, 96, 3]: pixels, stamps and padding mask of a batch of one."""
    if frames.dtype != np.uint8 or frames.shape[1:] != FRAME or not len(frames):
        raise ValueError(f"frames must be [T, 96, 96, 3] of uint8, got {list(frames.shape)} of {frames.dtype}")
    x = torch.from_numpy(frames.astype(np.float32)).unsqueeze(0)
    time = torch.arange(len(frames), dtype=torch.float64).unsqueeze(0) / FPS
    return x, time, torch.zeros(time.shape, dtype=torch.bool)


def overlay(frame: NDArray[np.uint8], heat: NDArray[np.float32]) -> NDArray[np.uint8]:
    """A frame [96, 96, 3] under its heat [96, 96]: more heat is brighter and less transparent.

    Example:
        >>> road = np.full((96, 96, 3), 102, np.uint8)
        >>> bool((overlay(road, np.zeros((96, 96), np.float32)) == road).all())
        True
    """
    if frame.shape[:2] != heat.shape:
        raise ValueError(f"heat must have the height and width of its frame, got {heat.shape} and {frame.shape}")
    colour = _colours()[np.rint(heat * 255).astype(np.intp)]  # [96, 96, 3]
    share = _OPAQUE * heat[..., None]
    return np.rint(frame * (1 - share) + colour * share).astype(np.uint8)


def strip(driver: NetworkDriver, episode: Episode, path: Path, moments: int = 8) -> Path:
    """Draw what a network sees, and where it looks, at some moments of a drive, its own or another driver's."""
    from matplotlib.figure import Figure

    from nacre._util.plotting import png

    chosen = spread_moments(episode.label, whole("moments", moments, 1))
    figure = Figure(figsize=(1.75 * len(chosen) + 0.5, 4.6), layout="constrained")
    axes = figure.subplots(2, len(chosen), squeeze=False)
    for column, moment in zip(axes.T, chosen, strict=True):
        _draw_moment(column, driver, episode.frames[max(0, moment - driver.frames + 1) : moment + 1])
        column[0].set_title(f"{moment / FPS:.1f} s\n{column[0].get_title()}", fontsize=12)
    for ax, text in zip(axes[:, 0], ("sees", "looks at"), strict=True):
        ax.set_ylabel(text, fontsize=12)
    figure.suptitle(f"{driver.name} on track {episode.drive.seed}: Grad-CAM of the likeliest action", fontsize=13)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_atomic(path, png(figure))


def spread_moments(actions: NDArray[np.int64], count: int) -> list[int]:
    """One moment of each of `count` equal stretches of a drive, with different actions where possible.

    From each stretch comes the action shown least so far, then the rarest in the drive, at the moment nearest to
    the middle of the stretch.

    Example:
        >>> spread_moments(np.array([3, 3, 3, 3, 3, 1, 3, 3, 3]), 3)
        [1, 5, 7]
    """
    shown, total = np.zeros(len(ACTIONS), int), np.bincount(actions, minlength=len(ACTIONS))
    moments = []
    for stretch in np.array_split(np.arange(len(actions)), min(count, len(actions))):
        action = min(actions[stretch], key=lambda action: (shown[action], total[action], action))
        there = stretch[actions[stretch] == action]
        moments.append(int(there[np.abs(there - stretch.mean()).argmin()]))
        shown[action] += 1
    return moments


@torch.no_grad()
def decide(network: TaskNetwork, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[5] probabilities of the actions for the last frame of a window [T, 96, 96, 3]."""
    with _evaluating(network):
        return network(*window(frames))[0].softmax(0).numpy()


def _draw_moment(column: NDArray[np.object_], driver: NetworkDriver, frames: NDArray[np.uint8]) -> None:
    """The last frame of a window, and below it the same with the heat of the likeliest action."""
    probability = decide(driver.network, frames)
    action = int(probability.argmax())
    hot = overlay(frames[-1], heat_now(driver.network, frames, action))
    ax: Axes
    for ax, image in zip(column, (frames[-1], hot), strict=True):
        ax.imshow(image, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    column[0].set_title(f"{ACTIONS[action]} {probability[action]:.0%}")


@cache
def _colours() -> NDArray[np.float64]:
    """[256, 3] colours of heat, from 0 to 255."""
    from matplotlib import colormaps

    return colormaps[HEAT](np.arange(256))[:, :3] * 255


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards every part has its own mode back."""
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _upsampling(eye: ImageEncoder, cells: int, pixels: int) -> NDArray[np.float64]:
    """[pixels, cells] matrix of linear interpolation between the centres of the cells' receptive fields.

    Without padding, the outer centres lie inside the image: 13 pixels from its edge for the encoder of the
    `carracing` recipe. Stretching the map over the image would move heat outwards by up to 13 pixels.
    """
    first, step = 0.0, 1
    for conv in eye.layers:
        if isinstance(conv, nn.Conv2d):
            first += step * (conv.kernel_size[0] - 1) / 2
            step *= conv.stride[0]
    centres = first + step * np.arange(cells)
    return np.stack([np.interp(np.arange(pixels), centres, cell) for cell in np.eye(cells)], 1)
