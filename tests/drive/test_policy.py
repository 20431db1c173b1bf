"""A network at the wheel: what it decides frame by frame is what it was trained to give for windows."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from nacre.data.dataset import Kind
from nacre.data.sets.episodes import ACTIONS
from nacre.drive.carracing.policy import Decision, NetworkDriver, load_driver
from nacre.drive.carracing.world import FPS
from nacre.tasks.network import TaskNetwork
from support.drive import CAUSAL, IMAGE, network, write_run


def frames_of(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 96, 96, 3), np.uint8)


def windows(net, frames, length):
    """The slow, obvious way: each window through the whole network."""
    out = []
    for end in range(1, len(frames) + 1):
        x = torch.from_numpy(frames[max(0, end - length) : end]).unsqueeze(0)
        time = torch.arange(x.shape[1], dtype=torch.float64).unsqueeze(0) / FPS
        out.append(net(x, time, torch.zeros(1, x.shape[1], dtype=torch.bool))[0])
    return torch.stack(out).detach()


@pytest.mark.parametrize(
    ("model", "options", "streams"),
    [
        ("nac", CAUSAL, True),
        pytest.param("nac-2k", CAUSAL, True, marks=pytest.mark.deep),
        pytest.param("nac-steady", CAUSAL, True, marks=pytest.mark.deep),
        ("nac", {}, False),
        ("nac-plus", CAUSAL, False),
        ("sdpa", {}, False),
        ("cfc-ncp", {}, False),
        pytest.param("contiformer", {}, False, marks=pytest.mark.deep),
    ],
)
def test_drive_frame_by_frame_equals_the_network_on_windows(model, options, streams):
    net, frames = network(model, **options), frames_of(8)
    driver = NetworkDriver(net, 4, model)
    assert driver.streams is streams
    driver.begin()
    got = torch.stack([driver.logits(frame) for frame in frames])
    wanted = windows(net, frames, 4)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(wanted, windows(net, frames, 3), atol=1e-4), "the length of the window must matter"


def test_drive_begin_forgets_the_episode_before():
    driver = NetworkDriver(network(**CAUSAL), 4, "nac")
    first = [driver.logits(frame) for frame in frames_of(6)]
    driver.begin()
    assert all(map(torch.equal, first, [driver.logits(frame) for frame in frames_of(6)]))


def decisions(probabilities, decision=Decision.TURNS):
    driver = NetworkDriver(network("sdpa"), 4, "sdpa", decision)
    driver.begin()
    return [driver.decide(np.asarray(each, np.float32)) for each in probabilities]


def test_drive_actions_take_turns_by_their_probability():
    done = decisions([[0.0, 0.0, 0.6, 0.4, 0.0]] * 500)
    assert np.bincount(done, minlength=5) / 500 == pytest.approx([0, 0, 0.6, 0.4, 0], abs=0.01)
    runs = np.diff(np.flatnonzero(np.diff(done)))
    assert runs.max() <= 2  # in turns, not one after the other
    assert decisions([[0.0, 0.0, 0.6, 0.4, 0.0]] * 9, Decision.LIKELIEST) == [2] * 9


def test_drive_a_certain_network_is_obeyed_at_once():
    certain = np.eye(5)[[3, 3, 1, 1, 2, 4, 3]]
    assert decisions(certain) == [3, 3, 1, 1, 2, 4, 3]


def test_drive_what_is_never_likely_is_never_done():
    assert set(decisions([[0.01, 0.0, 0.55, 0.43, 0.01]] * 500)) == {2, 3}


def test_drive_what_is_due_ends_with_the_episode():
    driver = NetworkDriver(network("sdpa"), 4, "sdpa")
    say = [np.array([0.3, 0.0, 0.4, 0.3, 0.0], np.float32)] * 7
    first = [driver.decide(each) for each in say]
    driver.begin()
    assert [driver.decide(each) for each in say] == first


def test_drive_the_decision_comes_from_the_probabilities():
    for decision in Decision:
        driver, twin = (NetworkDriver(network("sdpa"), 4, "sdpa", decision) for _ in range(2))
        for frame in frames_of(5):
            action = driver.act(SimpleNamespace(frame=frame))
            assert driver.probabilities == pytest.approx(twin.logits(frame).softmax(0).numpy()), decision
            assert action == twin.decide(driver.probabilities), decision
            assert 0 <= action < len(ACTIONS)
        assert len(driver.latency) == 5


def test_drive_an_unknown_decision_is_refused():
    with pytest.raises(ValueError, match="decision must be one of 'turns', 'likeliest', got 'dice'"):
        NetworkDriver(network("sdpa"), 4, "sdpa", "dice")


def test_drive_networks_of_other_tasks_cannot_drive():
    with pytest.raises(ValueError, match="mine was not trained on frames"):
        NetworkDriver(TaskNetwork("sdpa", Kind.CLASSIFICATION, 3, 5, d_model=8), 4, "mine")
    with pytest.raises(ValueError, match="not trained on frames"):
        NetworkDriver(network(kind=Kind.REGRESSION), 4, "mine")
    with pytest.raises(ValueError, match="knows 3 actions, wanted 5"):
        NetworkDriver(network(outputs=3), 4, "mine")
    with pytest.raises(ValueError, match="not trained on frames"):
        NetworkDriver(network(image={**IMAGE, "tokens": "columns"}), 4, "mine")


def test_drive_a_run_directory_drives(tmp_path):
    run = write_run(tmp_path / "run")
    driver = load_driver(run)
    assert (driver.name, driver.frames, driver.streams) == ("nac", 4, True)
    assert not driver.network.training


def test_drive_directories_that_cannot_drive_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone is no finished run; give a directory that"):
        load_driver(tmp_path / "gone")
    run = write_run(tmp_path / "run")
    (run / "result.json").write_text("{}")
    with pytest.raises(ValueError, match="result.json is damaged"):
        load_driver(run)
    run = write_run(tmp_path / "control")
    (run / "model").rename(run / "gone")
    with pytest.raises(ValueError, match="holds no network; controls have none"):
        load_driver(run)
    run = write_run(tmp_path / "other")
    (run / "recipe.toml").write_text((run / "recipe.toml").read_text().replace('"carracing"', '"jena"'))
    with pytest.raises(ValueError, match="was trained on jena, wanted carracing"):
        load_driver(run)
