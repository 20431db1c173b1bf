"""C-MAPSS, on small files in its format: windows, answers, folds, and what is refused."""

import numpy as np
import pytest
import torch

from nacre.data.sets.cmapss import CmapssScore, load_cmapss
from nacre.data.splits import SplitBy, make_splits
from nacre.tasks.sources import load_data
from support.refused import refused

LIVES, SEEN, LEFT = (40, 12, 35, 33, 31), (33, 5), (150, 7)


def engines(lives):
    """Rows of engines; sensor 1 holds engine and cycle."""
    rows = [
        [engine + 1, cycle + 1, *[0.5] * 3, 100 * engine + cycle + 1, *[1.0] * 20]
        for engine, life in enumerate(lives)
        for cycle in range(life)
    ]
    return "\n".join(" ".join(map(str, row)) + "  " for row in rows) + "\n"  # as the files have it


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train_FD001.txt").write_text(engines(LIVES))
    (tmp_path / "test_FD001.txt").write_text(engines(SEEN))
    (tmp_path / "RUL_FD001.txt").write_text("".join(f"{left} \n" for left in LEFT))
    return tmp_path


def test_windows_end_at_each_cycle_and_ask_for_what_is_left(folder):
    data = load_cmapss(folder)
    windows = [max(life - 29, 1) for life in LIVES]
    assert len(data) == sum(windows) + 2
    assert data.test.sum() == 2
    assert data.y[: windows[0], 0].tolist() == [10.0 - i for i in range(windows[0])]
    assert data.y[data.test, 0].tolist() == [125.0, 7.0]
    for number in range(len(data)):
        batch = data.batch(torch.tensor([number]))
        cycles = batch.time[0].tolist()
        engine = data.group[number].item()
        assert cycles == list(range(int(cycles[0]), int(cycles[-1]) + 1))
        first = 100 * (engine if engine < len(LIVES) else engine - len(LIVES))
        assert (batch.x[0, :, 3] - first).tolist() == cycles
        if engine < len(LIVES):
            assert LIVES[engine] - cycles[-1] == data.y[number, 0]
        else:
            assert cycles[-1] == SEEN[engine - len(LIVES)]
    assert load_cmapss(folder, window=5, most=3).y.max() == 3


def test_no_engine_is_in_two_parts_of_a_fold(folder):
    data = load_cmapss(folder)
    splits = make_splits(data, SplitBy.OFFICIAL, 5)
    validated = set()
    for split in splits:
        parts = [set(data.group[part].tolist()) for part in (split.train, split.valid, split.test)]
        assert len(set.union(*parts)) == sum(map(len, parts))
        assert parts[2] == {5, 6}
        assert len(split.train) + len(split.valid) + len(split.test) == len(data)
        validated |= parts[1]
    assert validated == set(range(5))


def test_the_score_is_nasas():
    found = CmapssScore().of(torch.arange(2), torch.tensor([[20.0], [87.0]]), torch.tensor([[10.0], [100.0]]))
    assert found["cmapss score"] == pytest.approx(2 * (np.e - 1))


def test_what_is_missing_or_damaged_is_named(folder):
    recipe = {"name": "cmapss", "subset": "FD002"}
    with pytest.raises(FileNotFoundError, match="train_FD002.txt, test_FD002.txt, RUL_FD002.txt are missing; get"):
        load_data(recipe, folder)
    with refused("subset must be one of 'FD001'"):
        load_cmapss(folder, "FD005")
    good = (folder / "train_FD001.txt").read_text()
    for name, text, message in (
        ("RUL", "1\n", "RUL_FD001.txt must hold one number from 0 on for each of 2 engines, got 1"),
        ("train", good.replace(" 0.5", "", 1), "train_FD001.txt is no table of numbers"),
        ("train", good.partition("\n")[2], "cycles of each 1, 2, ..., without a gap"),
        ("test", "1 1 2\n", "test_FD001.txt must hold rows of 26 finite numbers, got 1 x 3"),
    ):
        path = folder / f"{name}_FD001.txt"
        before = path.read_text()
        path.write_text(text)
        with refused(message):
            load_cmapss(folder)
        path.write_text(before)
