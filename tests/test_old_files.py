"""What nacre 0.1.0.dev0 wrote before its modules moved still opens: models, runs, a recording, finished cells."""

import csv
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import nacre
from nacre import cli
from nacre.inspect import Recording
from nacre.tasks.recipe import Profile, load_recipe
from nacre.tasks.stack import ModelStack
from nacre.tasks.task import load_task
from nacre.train.format1 import old_digest
from nacre.train.predict import write_predictions
from nacre.train.run import Run

ARCHIVE = Path(__file__).parent / "fixtures" / "written-by-0.1.0.dev0.zip"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    zipfile.ZipFile(ARCHIVE).extractall(folder)
    return folder


def nacre_command(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["nacre", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize("name", ["nac", "nac-plus", "cfc-ncp"])
def test_models_answer_as_they_did(old, name):
    known = json.loads((old / "models" / "outputs.json").read_text())
    model = nacre.load(old / "models" / name).eval()
    y = model(torch.tensor(known["x"]), time=torch.tensor(known["time"]))
    torch.testing.assert_close(y.double().sum((0, 1)).tolist(), known["sums"][name], rtol=0, atol=1e-4)


def test_an_encoder_opens(old):
    assert isinstance(nacre.load(old / "models" / "encoder"), nacre.NACEncoder)


def test_a_layer_with_cluster_selection_says_what_became_of_it(old):
    with pytest.raises(ValueError, match="selection='cluster', which nacre no longer has; train it again"):
        nacre.load(old / "models" / "cluster")


def test_a_recording_opens(old):
    recording = Recording(old / "recording")
    layer = recording.layers["layer"]
    assert recording.samples == 1
    assert layer.array("phi").shape[-1] == 8
    assert isinstance(recording.model(), nacre.TaskNetwork)


def test_a_run_predicts_as_it_did(old, tmp_path):
    write_predictions([old / "runs/machine/nac-plus/fold0-seed0"], old / "machine.csv", tmp_path / "new.csv")
    new, known = (path.read_text().splitlines() for path in (tmp_path / "new.csv", old / "predictions.csv"))
    assert new[0] == known[0]
    for row, known_row in zip(csv.reader(new[1:]), csv.reader(known[1:]), strict=True):
        assert row[:2] == known_row[:2]
        assert [float(x) for x in row[2:]] == pytest.approx([float(x) for x in known_row[2:]], abs=1e-5)


def test_runs_have_a_bare_network_and_a_recipe_that_opens(old):
    runs = sorted(path.parent for path in old.glob("runs/*/*/*/result.json"))
    assert len(runs) == 3
    for run in runs:
        network = nacre.load(run)
        assert isinstance(network, nacre.TaskNetwork)
        assert not isinstance(network.layer, ModelStack)
        assert (network.relative_to, network.window, network.to_config()["block"]) == ([], None, False)
        recipe = load_recipe(run / "recipe.toml")
        assert all(recipe.at(profile) == recipe for profile in Profile)  # it has no sizes of its own for any
        assert recipe.network.block  # like every recipe that does not say
        bare = replace(recipe.network, block=False, relative=False, linear=False)
        same = replace(recipe, network=bare, training=replace(recipe.training, schedule="constant"))
        written = json.loads((run / "result.json").read_bytes())
        assert old_digest(replace(same, name=written["task"])) == written["recipe"]
        assert Run.open(run).result.recipe != written["recipe"]  # it has the checksums of today


def test_a_table_of_old_runs_is_the_same(old, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert nacre_command(monkeypatch, "table", old / "runs", "--task", "tiny", "--csv", "table.csv") == 0
    new, before = (
        list(csv.DictReader(path.read_text().splitlines())) for path in (Path("table.csv"), old / "table.csv")
    )
    for now, then in zip(new, before, strict=True):  # there may be columns more
        assert {column: now[column] for column in then} | {"recipe": ""} == then | {"recipe": ""}


def test_cells_that_are_done_are_not_trained_again(old, monkeypatch, capsys):
    monkeypatch.chdir(old)
    today = load_task(load_recipe("tiny.toml"))  # spirals ask since; here they are as if they had then
    for path in old.glob("runs/tiny/*/*/result.json"):
        result = json.loads(path.read_bytes())
        path.write_text(json.dumps(result | {"data": result["data"] | {"digest": today.data.digest}}))
    results = {path: path.read_bytes() for path in old.glob("runs/tiny/*/*/result.json")}
    words = (
        "train",
        "tiny.toml",
        *["-m", "nac", "-m", "cfc-ncp", "--profile", "quick", "--folds", "1", "--no-controls"],
    )
    assert nacre_command(monkeypatch, *words) != 0
    assert len(results) == 2
    said = capsys.readouterr()
    assert said.err.count("was made with other settings") == 2  # recipes have blocks since
    bare = Path("tiny.toml").read_text().replace("num_heads = 2", "num_heads = 2, block = false, relative = false")
    bare = bare.replace("relative = false", "relative = false, linear = false")
    Path("tiny.toml").write_text(bare.replace("quick_steps = 12", "quick_steps = 12, schedule = 'constant'"))
    assert nacre_command(monkeypatch, *words) != 0
    said = capsys.readouterr()
    assert "tiny, cfc-ncp, fold 1 of 3 is done" in said.out
    assert said.err.count("was made with other settings") == 1  # NAC has a second version
    assert all(path.read_bytes() == data for path, data in results.items())
