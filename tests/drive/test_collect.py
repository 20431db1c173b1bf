"""`nacre drive collect`, and a PPO policy at the wheel."""

import pickle
import zipfile

import numpy as np
import pytest
import torch

from nacre.data.sets.episodes import read_episode
from nacre.drive.carracing.collect import Collect, collect
from nacre.drive.carracing.ppo import load_ppo

SHORT = {"limit": 4, "jobs": 1}


def test_drive_collect_records_each_track_once(tmp_path, capsys):
    first = collect(Collect(2, seed=30, out=tmp_path, **SHORT))
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["000030-expert.npz", "000031-expert.npz"]
    assert "expert: 0 of 2 laps finished" in capsys.readouterr().out
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = collect(Collect(3, seed=30, out=tmp_path, **SHORT))
    assert again[:2] == first
    assert "1 recorded, 2 were there" in capsys.readouterr().out
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    with pytest.raises(ValueError, match="was driven in another way .*give another --out"):
        collect(Collect(1, seed=30, out=tmp_path, limit=5, jobs=1))


@pytest.mark.slow
def test_drive_collect_in_several_processes_records_the_same(tmp_path):
    collect(Collect(2, seed=30, out=tmp_path / "one", noise=0.3, randomize=True, **SHORT))
    collect(Collect(2, seed=30, out=tmp_path / "two", noise=0.3, randomize=True, limit=4, jobs=2))
    for path in (tmp_path / "one").iterdir():
        one, two = read_episode(path), read_episode(tmp_path / "two" / path.name)
        assert one.drive == two.drive
        assert np.array_equal(one.frames, two.frames)
        assert np.array_equal(one.action, two.action)


def test_drive_collect_can_only_look(tmp_path, capsys):
    collect(Collect(1, out=tmp_path / "none", keep=False, **SHORT))
    assert not (tmp_path / "none").exists()
    assert "recorded" not in capsys.readouterr().out


def test_drive_collect_refuses_numbers_out_of_range():
    for options, message in (
        ({"episodes": 0}, "episodes must be"),
        ({"noise": 0.95}, "noise must lie in"),
        ({"seed": -1}, "seed must be"),
    ):
        with pytest.raises(ValueError, match=message):
            Collect(**{"episodes": 1, **options})


@pytest.fixture(scope="module")
def sb3(tmp_path_factory):
    """A policy of Stable-Baselines3, saved by it, and its logits for one observation."""
    import gymnasium
    from gymnasium import spaces
    from stable_baselines3 import PPO

    class Frames(gymnasium.Env):  # what it sees, without the track
        observation_space = spaces.Box(0, 255, (96, 96, 6), np.uint8)
        action_space = spaces.Discrete(5)

    model = PPO("CnnPolicy", Frames(), n_steps=8, batch_size=8, policy_kwargs={"net_arch": [16]}, device="cpu")
    path = tmp_path_factory.mktemp("ppo") / "policy.zip"
    model.save(path)
    frames = np.random.default_rng(0).integers(0, 256, (2, 96, 96, 3), np.uint8)
    seen = np.concatenate(frames, -1).transpose(2, 0, 1)[None]
    with torch.no_grad():
        logits = model.policy.get_distribution(torch.from_numpy(seen)).distribution.logits
    return path, frames, logits


class Seen:
    """A world that only shows a frame."""

    def __init__(self, frame):
        self.frame = frame


def test_parity_a_policy_decides_as_in_stable_baselines3(sb3):
    path, frames, logits = sb3
    driver = load_ppo(path)
    pixels = torch.from_numpy(np.concatenate(frames, -1)).permute(2, 0, 1).unsqueeze(0) / 255
    with torch.no_grad():
        got = driver.network(pixels).log_softmax(1)
    torch.testing.assert_close(got, logits, rtol=1e-5, atol=1e-6)
    driver.begin()
    driver.act(Seen(frames[0]))
    assert driver.act(Seen(frames[1])) == int(logits.argmax())


def test_drive_collect_with_a_policy(sb3, tmp_path):
    rows = collect(Collect(1, out=tmp_path, policy=sb3[0], limit=3, jobs=1))
    assert rows[0]["steps"] == 3
    assert read_episode(tmp_path / "000000-ppo.npz").drive.driver == "ppo"


class Trap:
    """Unpickled, it would leave a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_policies_are_read_without_pickle(tmp_path):
    path, mark = tmp_path / "policy.zip", tmp_path / "mark"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy.pth", pickle.dumps(Trap(mark)))
    with pytest.raises(ValueError, match="is no policy of Stable-Baselines3"):
        load_ppo(path)
    assert not mark.exists()


def test_files_that_are_no_policy_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no policy .*gone.zip"):
        load_ppo(tmp_path / "gone.zip")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(ValueError, match="text.zip is no policy"):
        load_ppo(tmp_path / "text.zip")
    with zipfile.ZipFile(tmp_path / "mlp.zip", "w") as archive, archive.open("policy.pth", "w") as file:
        torch.save({"action_net.weight": torch.zeros(5, 4)}, file)
    with pytest.raises(ValueError, match="is no CnnPolicy"):
        load_ppo(tmp_path / "mlp.zip")
