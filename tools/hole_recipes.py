"""Write recipes of ETTm1 with single values removed at random: python tools/hole_recipes.py FOLDER.

Each names `ettm1` below, so they are trained with this folder on the path:

    PYTHONPATH=tools nacre train FOLDER/*.toml -m nac-plus

What is forecast is whole: only what a network sees has holes, and the same ones however they are told. The parts
of the split by time are groups here, because windows that were interpolated share no rows that a split by time
could go by.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from nacre._util.files import write_atomic
from nacre.data.dataset import Dataset
from nacre.data.missing import Missing
from nacre.data.sets.ettm1 import load_ettm1
from nacre.data.splits import SplitBy, make_splits
from nacre.tasks.recipe import Profile, load_recipe, to_toml

SHARES = (0.3, 0.5, 0.8)
FOLDS, TEST_SHARE = 5, 0.1  # as in the recipe of ettm1
INTERPOLATION = "interpolation"
WAYS = (Missing.FLAGS.value, Missing.LAST.value, INTERPOLATION)


def ettm1(share: float, way: str) -> Dataset:
    """ETTm1 without this share of its single values, told with flags, carried forward, or interpolated."""
    data = load_ettm1()
    lost = torch.rand(data.values.shape, generator=torch.Generator().manual_seed(0)) < share
    data = in_blocks(replace(data, values=data.values.masked_fill(lost, torch.nan)))
    if way != INTERPOLATION:
        return replace(data, missing=Missing(way))
    rows = data.start.unsqueeze(1) + torch.arange(int(data.length[0]))  # [n, T]: windows no longer share rows
    fold = make_splits(data, SplitBy.OFFICIAL, FOLDS)[0]
    typical = data.known_values(torch.cat([fold.train, fold.valid])).nanmean(0)
    windows = interpolated(data.values[rows], typical)
    start = torch.arange(len(rows)) * rows.shape[1]
    return replace(data, values=windows.flatten(0, 1), time=data.time[rows].flatten(), start=start)


def in_blocks(data: Dataset) -> Dataset:
    """The same windows, in the parts of a split by time, however they share rows."""
    splits = make_splits(data, SplitBy.TIME, FOLDS, TEST_SHARE)
    block = torch.full((len(data),), -1)
    for number, split in enumerate(splits):
        block[split.valid] = number
    block[splits[0].test] = FOLDS
    kept = (block >= 0).nonzero().squeeze(1)  # not those across a border
    return replace(
        data,
        start=data.start[kept],
        length=data.length[kept],
        y=data.y[kept],
        group=block[kept],
        groups=tuple(f"block {number}" for number in range(FOLDS + 1)),
        test=block[kept] == FOLDS,
    )


def interpolated(x: Tensor, typical: Tensor) -> Tensor:
    """Windows [n, T, F] of evenly spaced rows with straight lines in their holes, and the ends held.

    No window knows what follows it. Where nothing was observed, a column has its value of `typical` [F].
    """
    steps = x.shape[1]
    step = torch.arange(steps).view(1, -1, 1)
    seen = ~x.isnan()
    before = torch.where(seen, step, -1).cummax(1).values
    after = torch.where(seen, step, steps).flip(1).cummin(1).values.flip(1)
    before, after = torch.where(before < 0, after, before), torch.where(after == steps, before, after)
    none = before == steps  # in the whole window
    before, after = before.masked_fill(none, 0), after.masked_fill(none, 0)
    left, right = x.gather(1, before), x.gather(1, after)
    filled = left + (right - left) * (step - before) / (after - before).clamp(min=1)
    return torch.where(none, typical, filled)


def main() -> None:
    """Write the files."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe("ettm1").at(Profile.STANDARD)
    for share in SHARES:
        for way in WAYS:
            data = {"python": f"{Path(__file__).stem}:ettm1", "share": share, "way": way}
            split = replace(recipe.split, by=SplitBy.OFFICIAL)
            text = to_toml(replace(recipe, data=data, split=split, column=""))
            write_atomic(folder / f"ettm1-{100 * share:.0f}-{way}.toml", text.encode())


if __name__ == "__main__":
    main()
