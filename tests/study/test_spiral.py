"""`nacre study spiral`: what is run, and what a run gives."""

import csv
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from nacre import NAC
from nacre.cli.app import app
from nacre.data.sets.spirals import END
from nacre.study.profile import StudyProfile
from nacre.study.runs import run_once
from nacre.study.spiral import data as spiral_data
from nacre.study.spiral import run as spiral_run
from nacre.study.spiral.command import SpiralStudy, run_spiral
from nacre.study.spiral.data import SPREAD, draw_spirals, errors
from nacre.study.spiral.grid import DEFAULT, GRIDS, Section, SpiralSetting, sections_of
from nacre.study.spiral.run import SpiralRegressor, SpiralRun, build, predict, train

SMALL = SpiralSetting(heads=2)


def quiet(step, loss):
    pass


@pytest.fixture
def _few(monkeypatch):
    """Fewer spirals than the 300 of the study."""
    monkeypatch.setattr(spiral_data, "TRAIN", 20)
    monkeypatch.setattr(spiral_data, "TEST", 10)


# Runs


@pytest.mark.usefixtures("_few")
def test_a_run_is_repeatable_and_its_seed_acts():
    a, b = (SpiralRun(SMALL, 3, 0).do(quiet) for _ in range(2))
    for name in ("mse", "mae", "controls"):
        assert a[name] == b[name]
    other = SpiralRun(SMALL, 3, 1).do(quiet)
    assert other["mse"] != a["mse"]
    assert other["controls"] != a["controls"]


@pytest.mark.usefixtures("_few")
def test_a_result_is_of_a_network_trained_on_training_spirals_and_scored_on_test_spirals(monkeypatch):
    made = []

    def keep(*arguments):
        made.append(build(*arguments))
        return made[-1]

    monkeypatch.setattr(spiral_run, "build", keep)
    steps = []
    found = SpiralRun(DEFAULT, 4, 2).do(lambda step, loss: steps.append(step))
    assert steps == [1, 2, 3, 4]
    train_set, test_set = draw_spirals(150, 2)
    (net,) = made
    assert not net.training
    other = build(DEFAULT, 2)
    assert all((p != q).any() for p, q in zip(net.parameters(), other.parameters(), strict=True))
    train(other, train_set, SpiralRun(DEFAULT, 4, 2), quiet)
    with torch.no_grad():
        guess = other(test_set.x, test_set.time, test_set.target_time)
    for metric, parts in errors(guess, test_set.target).items():
        assert found[metric] == pytest.approx(parts, rel=1e-5)
    assert found["parameters"] == sum(p.numel() for p in net.parameters())
    assert found["budget"]["spread"] == SPREAD
    assert json.loads(json.dumps(found)) == found
    for i, shown in enumerate(found["trajectories"]):
        torch.testing.assert_close(torch.tensor(shown["guess"]), guess[i], rtol=0, atol=1e-4)
        torch.testing.assert_close(torch.tensor(shown["truth"]), test_set.target[i], rtol=0, atol=1e-4)
        torch.testing.assert_close(torch.tensor(shown["seen"]), test_set.x[i], rtol=0, atol=1e-4)
    assert [shown["clockwise"] for shown in found["trajectories"]] == [True, False, True, False]


@pytest.mark.usefixtures("_few")
def test_only_the_default_keeps_trajectories():
    assert "trajectories" not in SpiralRun(SMALL, 2, 0).do(quiet)


@pytest.mark.usefixtures("_few")
def test_leak_training_sees_training_spirals_only_and_never_their_second_half_as_input():
    train_set, _ = draw_spirals(150, 0)
    seen = []

    class Listening(SpiralRegressor):
        def forward(self, x, time, asked):
            seen.append((x, time, asked))
            return super().forward(x, time, asked)

    train(Listening(NAC(64, 1)), train_set, SpiralRun(SMALL, 3, 0), quiet)
    assert len(seen) == 3
    for x, time, asked in seen:
        assert x.shape == (16, 50, 2)
        assert asked.shape == (16, 25)
        assert all(any(torch.equal(row, other) for other in train_set.x) for row in x)
        assert time.max() < END / 2
        assert all(len(set(row)) == 25 for row in asked.tolist())  # no point twice
    assert not torch.equal(seen[0][0], seen[1][0])


def test_parity_predictions_some_spirals_at_a_time_are_those_of_all_at_once():
    net = build(SMALL, 0)
    _, test_set = draw_spirals(60, 0)
    with torch.no_grad():
        whole = net(test_set.x, test_set.time, test_set.target_time)
    torch.testing.assert_close(predict(net, test_set), whole)


@given(
    st.lists(
        st.builds(
            SpiralSetting,
            st.sampled_from([1, 4]),
            st.sampled_from([0.1, 0.5]),
            st.sampled_from([2, 8]),
            st.integers(6, 160),
        ),
        unique=True,
    )
)
def test_settings_have_files_of_their_own(tmp_path_factory, settings):
    runs = [SpiralRun(s, steps, seed) for s in settings if sections_of(s) for steps in (2, 3) for seed in (0, 1)]
    root = tmp_path_factory.getbasetemp()
    assert len({run.path(root) for run in runs}) == len(runs)
    assert all(run.path(root).parent.parent == root for run in runs)


@pytest.mark.usefixtures("_few")
def test_what_is_done_is_skipped(tmp_path):
    run = SpiralRun(SMALL, 2, 0)
    first = run_once(run, tmp_path, quiet)
    assert json.loads(run.path(tmp_path).read_bytes()) == first
    assert run.path(tmp_path) == tmp_path / "heads" / "heads2-sparsity0.5-keys8-length150-2steps-seed0.json"
    assert run_once(run, tmp_path, quiet) is None
    assert run_once(replace(run, steps=3), tmp_path, quiet) is not None


# The grid


def test_grids_cover_the_papers_values():
    grid = GRIDS[StudyProfile.PAPER]
    assert [s.heads for s in grid.settings(Section.HEADS)] == [1, 2, 4, 8, 16, 32]
    assert [s.sparsity for s in grid.settings(Section.SPARSITY)] == [0.1, 0.3, 0.5, 0.7, 0.8, 0.9]
    cells = {(s.top_k, s.length) for s in grid.settings(Section.KEYS)}
    assert cells == {
        (k, n) for k in (2, 4, 8, 16, 32) for n in (100, 500, 1_000, 5_000, 10_000, 20_000, 30_000, 50_000)
    }
    assert grid.seeds == 5


def test_settings_of_a_section_are_shown_in_it_and_differ_in_nothing_else():
    for profile in StudyProfile:
        for section in Section:
            settings = GRIDS[profile].settings(section)
            assert len(set(settings)) == len(settings)
            for setting in settings:
                assert section in sections_of(setting), (profile, setting)
                assert setting == DEFAULT or len(sections_of(setting)) == 1, (profile, setting)
    assert sections_of(SpiralSetting(heads=2, sparsity=0.1)) == ()
    assert sections_of(SpiralSetting(top_k=2)) == ()


def test_runs_go_seed_by_seed_and_a_setting_of_two_sections_comes_once():
    runs = SpiralStudy().runs()
    assert len(set(runs)) == len(runs) == 2 * (6 + 5 - 1 + 9)
    assert [run.seed for run in runs] == [0] * 19 + [1] * 19
    assert {run.steps for run in runs} == {GRIDS[StudyProfile.QUICK].steps}
    few = SpiralStudy("paper", ["sparsity"], seeds=1, steps=7).runs()
    assert [(run.setting.sparsity, run.steps) for run in few] == [(s, 7) for s in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)]


def test_bad_input_is_refused_before_anything_is_run(tmp_path):
    for options, message in (
        ({"profile": "quik"}, "profile must be one of 'quick', 'paper', got 'quik'; did you mean 'quick'"),
        ({"sections": ["head"]}, "section must be one of .*did you mean 'heads'"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"steps": 1}, "steps must be at least 2, got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            run_spiral(SpiralStudy(**{"out": tmp_path / "new", **options}))
        assert not (tmp_path / "new").exists(), options


# The command


@pytest.mark.slow
@pytest.mark.usefixtures("_few")
def test_the_command_from_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = replace(GRIDS[StudyProfile.QUICK], sparsities=(0.1, 0.5))
    monkeypatch.setitem(GRIDS, StudyProfile.QUICK, grid)
    command = ["study", "spiral", "--section", "sparsity", "--steps", "2", "--seeds", "2"]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    assert "2 training steps" in done.output
    assert "at 0.5" in done.output
    folder = tmp_path / "studies" / "spiral"
    with (folder / "spiral.csv").open() as file:
        rows = list(csv.DictReader(file))
    sparsities = [float(row["sparsity"]) for row in rows if row["section"] == "sparsity"]
    assert sparsities == [0.1, 0.5]
    assert [row["section"] for row in rows].count("heads") == 1  # the default
    assert {row["seeds"] for row in rows} == {"2"}
    saved = [json.loads(path.read_bytes()) for path in (folder / "sparsity").glob("*sparsity0.1-*.json")]
    mean = sum(one["mse"]["extrapolation"] for one in saved) / 2
    assert float(rows[1]["mse_extrapolation"]) == pytest.approx(mean)
    assert (folder / "spiral.png").read_bytes()[:4] == b"\x89PNG"
    assert run_spiral(SpiralStudy(sections=["sparsity"], steps=2, seeds=2)) == []  # all are done


@pytest.mark.slow
def test_the_default_learns_to_tell_spirals_apart():
    found = SpiralRun(DEFAULT, 120, 100).do(quiet)
    control = found["controls"]["direction_mean"]["mse"]["interpolation"]
    assert found["mse"]["interpolation"] < 0.6 * control
