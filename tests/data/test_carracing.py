"""Recorded drives as sequences: which frames belong to which answer, and what is said about bad files."""

import json
import zipfile

import numpy as np
import pytest
import torch

from nacre.data.dataset import UNSCORED
from nacre.data.sets import episodes
from nacre.data.sets.carracing import load_carracing
from nacre.data.sets.episodes import Drive, read_episode, write_episode
from nacre.tasks.controls import controls_for, create_control
from nacre.tasks.recipe import load_recipe
from nacre.tasks.task import load_task
from support.drive import episode, write_episodes
from support.refused import refused


def test_each_moment_is_a_sequence_of_the_frames_up_to_it(tmp_path):
    write_episodes(tmp_path)
    data = load_carracing(tmp_path, frames=4)
    episodes = [episode(seed, 6 + seed) for seed in range(3)]
    assert len(data) == 6 + 7 + 8
    number = 0
    for group, drive in enumerate(episodes):
        for moment in range(len(drive.label)):
            batch = data.batch(torch.tensor([number]))
            expected = drive.frames[max(0, moment - 3) : moment + 1]
            assert np.array_equal(batch.x[0].numpy(), expected)
            assert batch.x.dtype == torch.uint8
            assert batch.y.item() == drive.label[moment]
            assert batch.group.item() == group
            before = drive.label[moment - 1] if moment else UNSCORED
            assert data.before[number] == before
            assert torch.allclose(batch.time[0].diff(), torch.tensor(0.02, dtype=torch.float64))
            number += 1


def test_batches_of_images_pad_with_darkness(tmp_path):
    write_episodes(tmp_path)
    assert (load_carracing(tmp_path, frames=1).length == 1).all()  # the paper's setting
    data = load_carracing(tmp_path, frames=4)
    batch = data.batch(torch.tensor([0, 5]))
    assert batch.x.shape == (2, 4, 96, 96, 3)
    assert batch.key_padding_mask.tolist() == [[False, True, True, True], [False] * 4]
    assert (batch.x[0, 1:] == 0).all()
    assert torch.equal(data.stamps(torch.tensor([0, 5])), batch.time)


def test_leak_no_drive_is_in_two_parts_of_a_fold(tmp_path):
    write_episodes(tmp_path, count=7, steps=4)
    task = load_task(load_recipe("carracing"), tmp_path)
    assert len(task.splits) == 5
    for split in task.splits:
        parts = [set(task.data.group[part].tolist()) for part in (split.train, split.valid, split.test)]
        assert sum(map(len, parts)) == 7
        rows = [task.data.rows(part) for part in (split.train, split.valid, split.test)]
        assert len(torch.cat(rows).unique()) == sum(map(len, rows)) == len(task.data.values)


def test_three_drives_make_three_folds(tmp_path):
    write_episodes(tmp_path, steps=30)
    task = load_task(load_recipe("carracing"), tmp_path)
    assert len(task.splits) == 3


def test_the_last_action_is_repeated(tmp_path):
    write_episodes(tmp_path)
    data = load_carracing(tmp_path)
    assert controls_for(data) == ["majority", "last-action", "time-only"]
    control = create_control("last-action", data)
    everything = torch.arange(len(data))
    control.fit(data, everything)
    got = control.predict(data, everything).argmax(1)
    first = data.before == UNSCORED
    assert torch.equal(got[~first], data.y[:-1][~first[1:]])
    assert torch.equal(got[first], create_majority(data)[first])


def create_majority(data):
    control = create_control("majority", data)
    control.fit(data, torch.arange(len(data)))
    return control.predict(data, torch.arange(len(data))).argmax(1)


def test_where_drives_are_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NACRE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="no recorded drives in .*record some with `nacre drive collect`"):
        load_carracing()
    write_episodes(tmp_path / "cache" / "carracing", 3)
    assert len(load_carracing().groups) == 3
    monkeypatch.setenv("NACRE_DATA", str(tmp_path / "data"))
    write_episodes(tmp_path / "data" / "carracing", 4)
    assert len(load_carracing().groups) == 4
    write_episodes(tmp_path / "carracing", 5)
    assert len(load_carracing().groups) == 5
    assert len(load_carracing(tmp_path / "data").groups) == 4
    with pytest.raises(FileNotFoundError, match="no recorded drives in"):
        load_carracing(tmp_path / "elsewhere")


def test_names_of_files_tell_drives_apart():
    names = {
        Drive(1).name,
        Drive(2).name,
        Drive(1, True).name,
        Drive(1, noise=0.1).name,
        Drive(1, driver="ppo").name,
    }
    assert len(names) == 5


def damage(path, **changes):
    with np.load(path) as arrays:
        kept = {name: arrays[name] for name in arrays.files}
    np.savez(path, **{**kept, **changes})


def test_an_episode_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = write_episode(tmp_path, episode())
    size = sum(member.file_size for member in zipfile.ZipFile(path).infolist())
    monkeypatch.setattr(episodes, "MOST_BYTES", size)
    read_episode(path)
    monkeypatch.setattr(episodes, "MOST_BYTES", size - 1)
    with refused(f"it unpacks to {size:,} bytes, at most {size - 1:,} are read"):
        read_episode(path)


def test_damaged_episodes_are_named(tmp_path):
    path = write_episode(tmp_path, episode())
    whole = path.read_bytes()
    for changes, message in (
        ({"frames": np.zeros((6, 96, 96), np.uint8)}, "frames must have shape"),
        ({"frames": np.zeros((6, 96, 96, 3), np.float32)}, "frames must be uint8, got float32"),
        ({"label": np.arange(6)}, "label must hold numbers from 0 to 4"),
        ({"action": np.zeros(5, np.int64)}, "action must have shape"),
        ({"label": np.zeros(6)}, "label must hold numbers"),
        ({"about": np.array("{")}, "damaged or no episode"),
        ({"about": np.array(json.dumps({"format": 9, "drive": {"seed": 0}, "outcome": {}}))}, "format 9"),
        ({"about": np.array(json.dumps({"format": 1, "drive": {"speed": 0}, "outcome": {}}))}, "no episode"),
        ({"pose": np.array([{}], object)}, "damaged or no episode"),
    ):
        path.write_bytes(whole)
        damage(path, **changes)
        with refused(f"{path.name}.*{message}", case=f"{list(changes)}"):
            read_episode(path)
    path.write_bytes(whole[:-2000])
    with refused("is damaged or no episode .*; delete it and record it again", case="cut off"):
        read_episode(path)


def test_two_drives_are_too_few(tmp_path):
    write_episodes(tmp_path, 2)
    with pytest.raises(ValueError, match="holds 2 drives, wanted 3 at least"):
        load_carracing(tmp_path)
