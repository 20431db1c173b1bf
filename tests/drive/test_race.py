"""Races: who takes part, the files of laps, the standings, and what is refused."""

import csv
import json

import pytest

from nacre.drive.carracing.contender import contenders
from nacre.drive.carracing.lap import read_lap
from nacre.drive.carracing.policy import Decision
from nacre.drive.carracing.race import Race, run_race
from nacre.drive.carracing.standings import markdown, standing
from support.drive import write_run

SHORT = {"episodes": 2, "limit": 3, "film": False, "jobs": 1}


def lap(**changes):
    about = {"about": {"parameters": 7, "training_steps": 3}, "inference": "step"}
    metrics = {"finished": True, "flag": False, "progress": 0.9, "error": 1.0, "off_track": 0.1, "speed": 40.0}
    return {**about, **metrics, "milliseconds": 2.0, **changes}


def test_drive_standings_are_means_over_laps():
    laps = [lap(), lap(finished=False, flag=True, progress=0.5, error=3.0, off_track=0.3, milliseconds=4.0)]
    row = standing("nac", "plain", laps)
    assert (row.laps, row.finished, row.flagged) == (2, 1, 1)
    assert (row.progress, row.error, row.off_track, row.speed) == pytest.approx((0.7, 2.0, 0.2, 40.0))
    assert row.progress_std == pytest.approx(0.2828, abs=1e-4)
    assert (row.low, row.high) == pytest.approx((0.0945, 0.9055), abs=1e-4)
    assert row.milliseconds == 3.0
    assert "| nac | plain | 1/2 | 9-91% | 1 | 70.0% | 2.00 | 20.0% | 40.0 | 3.0 step |" in markdown([row])


@pytest.mark.slow
def test_drive_a_race_keeps_every_lap_on_the_same_tracks_and_resumes(tmp_path, capsys):
    run = write_run(tmp_path / "a")
    race = Race([str(run), "expert"], out=tmp_path / "races", randomize=True, **SHORT)
    rows = run_race(race)
    assert [(row.contender, row.condition, row.laps) for row in rows] == [
        ("nac", "plain", 2), ("expert", "plain", 2), ("nac", "colours", 2), ("expert", "colours", 2),
    ]  # fmt: skip
    assert rows[0].inference == "step"
    assert rows[0].milliseconds > 0
    assert rows[1].milliseconds is None
    assert "8 laps driven, 0 were there" in capsys.readouterr().out.replace("\n", " ")
    kept = tmp_path / "races" / "nac" / "colours" / "010001.json"
    found = json.loads(kept.read_bytes())
    assert found["drive"] == {"seed": 10001, "randomize": True, "noise": 0.0, "driver": "nac", "limit": 3}
    assert len(found["trace"]["x"]) == found["steps"] == 3
    with (tmp_path / "races" / "laps.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == 8
    assert {(row["condition"], row["seed"]) for row in table} >= {("plain", "10000"), ("colours", "10001")}
    roads = [
        json.loads((tmp_path / "races" / name / condition / "010000.json").read_bytes())["trace"]["road"]
        for name in ("nac", "expert")
        for condition in ("plain", "colours")
    ]
    assert all(road == roads[0] for road in roads), "all drive the same tracks"
    for figure in ("tracks-plain.png", "tracks-colours.png"):
        assert (tmp_path / "races" / figure).read_bytes().startswith(b"\x89PNG")
    kept.unlink()
    again = run_race(race)
    assert "1 laps driven, 7 were there" in capsys.readouterr().out.replace("\n", " ")
    assert [(row.progress, row.error) for row in again] == [(row.progress, row.error) for row in rows]


def test_drive_laps_of_another_network_are_not_taken_over(tmp_path):
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", weight_seed=1)
    race = Race([str(first)], out=tmp_path / "races", **SHORT)
    run_race(race)
    with pytest.raises(ValueError, match="was driven by another network.*give another --out"):
        run_race(Race([str(second)], out=tmp_path / "races", **SHORT))
    with pytest.raises(ValueError, match="was driven by another network, or in another way"):
        run_race(Race([str(first)], out=tmp_path / "races", decision=Decision.LIKELIEST, **SHORT))
    path = race.laps(contenders([str(first)]))[0].path(tmp_path / "races")
    path.write_text("{")
    with pytest.raises(ValueError, match="010000.json is damaged; delete it and race again"):
        read_lap(race.laps(contenders([str(first)]))[0], tmp_path / "races")


def test_leak_tracks_that_a_run_has_seen_are_refused(tmp_path):
    run = write_run(tmp_path / "a", seeds=(3, 4, 10_001))
    with pytest.raises(ValueError, match="nac knows the tracks of seeds 10001 from its recorded drives"):
        run_race(Race([str(run)], out=tmp_path / "races", **SHORT))
    assert not (tmp_path / "races").exists()


def test_drive_names_tell_contenders_apart(tmp_path):
    runs = [str(write_run(tmp_path / name, model)) for name, model in (("a", "nac"), ("b", "sdpa"), ("c", "nac"))]
    assert [c.name for c in contenders([*runs, "expert"])] == [
        "nac-carracing-fold0-seed0-1", "sdpa", "nac-carracing-fold0-seed0-2", "expert",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="each run can be given once"):
        contenders([runs[0], runs[0]])


def test_drive_races_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(ValueError, match="runs must name one directory at least"):
        Race([])
    with pytest.raises(ValueError, match="episodes must be"):
        Race(["expert"], episodes=0)
    with pytest.raises(FileNotFoundError, match="gone is no finished run"):
        run_race(Race([str(tmp_path / "gone")], out=tmp_path / "races"))
