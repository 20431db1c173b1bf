"""Augmentation of training windows of CarRacing: mirrored roads, other colours. Never used for scoring."""

import torch
from torch import Generator, Tensor

from nacre.data.dataset import Batch, Dataset, Kind
from nacre.data.sets.episodes import ACTIONS, FRAME

MIRRORED = 0.5  # share of the windows
RECOLOURED = 0.5  # share of the windows
BRIGHTEST = 210  # of the colours that the environment draws at random
DASHBOARD = 84  # first row of the instruments, which are below the view
# Columns of the instruments that point to the left or to the right, symmetric about their zeros: the angle of the
# wheels, and how fast the car turns. Speed, further to the left, has no side.
INSTRUMENTS = ((36, 60), (60, 84))
_OTHER_SIDE = {"left": "right", "right": "left"}


def augment_frames(data: Dataset, index: Tensor, generator: Generator) -> Batch:
    """Windows [B] of frames as `load_carracing` gives them, and their actions; a window is changed as a whole.

    Half of the windows are mirrored: tracks of CarRacing turn left more than right, and a driver must know both.
    Half get other colours by exchanging and inverting red, green and blue. Colours that are uniform from 0 to 210,
    as the environment draws them, stay so.
    """
    batch, count = data.batch(index), len(index)
    mirror = torch.rand(count, generator=generator) < MIRRORED
    recolour = torch.rand(count, generator=generator) < RECOLOURED
    order = torch.rand(count, 3, generator=generator).argsort(1)  # [B, 3]
    inverse = torch.rand(count, 3, generator=generator) < 0.5
    batch.x[mirror] = mirrored(batch.x[mirror])  # a copy of what the data set holds
    batch.x[recolour] = recoloured(batch.x[recolour], order[recolour], inverse[recolour])
    batch.x.masked_fill_(batch.key_padding_mask.view(*batch.x.shape[:2], 1, 1, 1), 0)  # padding stays dark
    return batch._replace(y=torch.where(mirror, other_side(batch.y), batch.y))


def mirrored(x: Tensor) -> Tensor:
    """Frames [..., 96, 96, 3] as a car on the mirrored road sees them, its instruments in their places."""
    out = x.clone()
    out[..., :DASHBOARD, :, :] = x[..., :DASHBOARD, :, :].flip(-2)
    for left, right in INSTRUMENTS:
        out[..., DASHBOARD:, left:right, :] = x[..., DASHBOARD:, left:right, :].flip(-2)
    return out


def other_side(action: Tensor) -> Tensor:
    """Actions with left and right exchanged."""
    table = [ACTIONS.index(_OTHER_SIDE.get(name, name)) for name in ACTIONS]
    return action.new_tensor(table)[action]


def recoloured(x: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
    """Frames [b, T, 96, 96, 3] uint8 with other colours in the view; instruments keep theirs.

    `order` [b, 3] says which colour each of red, green and blue becomes, `inverse` [b, 3] whether it is then taken
    from 210; what would be below 0 is 0.
    """
    view = x[..., :DASHBOARD, :, :]
    view = view.gather(-1, order.view(-1, 1, 1, 1, 3).expand_as(view)).short()  # signed
    view = torch.where(inverse.view(-1, 1, 1, 1, 3), (BRIGHTEST - view).clamp(min=0), view).to(x.dtype)
    return torch.cat([view, x[..., DASHBOARD:, :, :]], -3)


def check_frames(data: Dataset) -> None:
    """Refuse other data than frames of CarRacing."""
    if data.kind is not Kind.CLASSIFICATION or data.classes != ACTIONS or data.values.shape[1:] != FRAME:
        raise ValueError(
            "training.augment 'frames' is for frames of CarRacing and one of its five actions for each, as in the "
            f"data set carracing; {data.name} is something else"
        )
