"""The demo, with few steps."""

import pytest
import torch

from nacre import demo, demo_plot
from nacre.data.spirals import HALF, make_spirals


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return demo.run_demo(tmp_path_factory.mktemp("demo") / "sub", steps=40)


def test_it_draws_two_pictures(result):
    assert [p.name for p in result.pictures] == ["spirals.png", "circuit.png"]
    for picture in result.pictures:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 10_000
    assert len(list(result.pictures[0].parent.iterdir())) == 2


def test_it_learns(result):
    assert len(result.losses) == 40
    assert sum(result.losses[-5:]) < 0.3 * sum(result.losses[:5])
    held = result.errors["straight lines, then last point held"]
    assert result.errors["NAC"]["extrapolation"] < held["extrapolation"]


def test_the_errors_are_of_the_right_parts():
    target = torch.zeros(2, 150, 2)
    guess = target.clone()
    guess[:, HALF:, 0] = 3.0
    assert demo._errors(guess, target) == {"interpolation": 0.0, "extrapolation": 3.0}


def test_straight_lines_interpolate_and_then_hold():
    _, test = make_spirals()
    control = demo._straight_lines(test)
    assert control.shape == test.target.shape
    torch.testing.assert_close(control[:, -1], test.x[:, -1].double(), check_dtype=False)
    errors = demo._errors(control, test.target)
    assert errors["interpolation"] < 0.02 < errors["extrapolation"]


def test_the_family_average_knows_the_family_only():
    train, test = make_spirals()
    average = demo._family_average(train, test)
    assert torch.equal(average[test.clockwise][0], train.target[train.clockwise].mean(0))
    assert len(average.unique(dim=0)) == 2


def test_it_is_deterministic_under_its_seed(tmp_path):
    first, again = (demo.run_demo(tmp_path, steps=3, seed=1) for _ in range(2))
    assert first == again
    assert demo.run_demo(tmp_path, steps=3, seed=2).losses != first.losses


def test_bad_steps(tmp_path):
    with pytest.raises(ValueError, match="steps must be at least 1"):
        demo.run_demo(tmp_path, steps=0)


def test_a_failed_picture_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(*_args):
        raise OSError("No space left on device")

    monkeypatch.setattr(demo_plot.os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        demo_plot.save_figure(demo_plot.Figure(), tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_the_report_says_where_the_settings_come_from(capsys, tmp_path):
    demo.run_demo(tmp_path, steps=1)
    assert "chosen on the test spirals of seed 0" in " ".join(capsys.readouterr().out.split())
