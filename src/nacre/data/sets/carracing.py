"""CarRacing: frames of recorded drives, and what the expert did (`nacre drive collect` records them)."""

from pathlib import Path

import numpy as np
import torch

from nacre._util.checks import whole
from nacre.data.dataset import UNSCORED, Dataset, Kind
from nacre.data.files.store import recorded_in
from nacre.data.sets.episodes import ACTIONS, FRAME, checksums, episode_files, read_episode

FPS = 50
FOLDER = "carracing"
_FEWEST = 3  # drives


def load_carracing(data_dir: Path | None = None, frames: int = 8) -> Dataset:
    """One sequence for each moment of each drive: the frames up to it, and the action that the expert took.

    Drives are groups, so no drive is in two parts of a split.

    Args:
        data_dir: Where episodes are, in it or in its folder `carracing`; None looks for that folder in the working
            directory, in $NACRE_DATA and in the cache.
        frames: Frames of a sequence, fewer at the start of a drive. 1 is the paper's setting.

    Raises:
        FileNotFoundError: If there are no episodes.
        ValueError: If one is damaged, or they are fewer than three.
    """
    whole("frames", frames, 1)
    folders = recorded_in(data_dir, [FOLDER])
    paths = next((found for folder in folders if folder.is_dir() and (found := episode_files(folder))), None)
    if paths is None:
        raise FileNotFoundError(
            f"no recorded drives in {', '.join(map(str, folders))}; record some with `nacre drive collect`"
        )
    if len(paths) < _FEWEST:
        raise ValueError(
            f"{paths[0].parent} holds {len(paths)} drives, wanted {_FEWEST} at least: one each to train, to "
            "validate and to score; record more with `nacre drive collect`"
        )
    episodes = [read_episode(path) for path in paths]
    steps = torch.tensor([len(episode.label) for episode in episodes])
    moment = torch.cat([torch.arange(int(count)) for count in steps])  # [N] steps since the start of the drive
    length = (moment + 1).clamp(max=frames)
    y = torch.from_numpy(np.concatenate([episode.label for episode in episodes])).long()
    values = np.empty((len(y), *FRAME), np.uint8)
    np.concatenate([episode.frames for episode in episodes], out=values)
    return Dataset(
        name="carracing",
        kind=Kind.CLASSIFICATION,
        values=torch.from_numpy(values),
        time=moment.double() / FPS,
        start=torch.arange(len(y)) - length + 1,
        length=length,
        y=y,
        group=torch.arange(len(episodes)).repeat_interleave(steps),
        groups=tuple(path.stem for path in paths),
        features=("red", "green", "blue"),
        classes=ACTIONS,
        before=torch.where(moment > 0, y.roll(1), UNSCORED),
        time_unit="seconds",
        form=f"generated, {len(episodes)} drives",
        files=checksums(paths),
    )
