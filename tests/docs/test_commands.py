"""Commands and recipes of the pages run, in the order of the page, with small data and budgets."""

import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import nacre
from nacre.bench.entries import resolve
from nacre.study.uat import command as uat
from nacre.tasks.recipe import Profile, parse_recipe
from nacre.tasks.task import load_task
from support.bearings import write_pronostia
from support.pages import BLOCK, DOCS, PAGES, blocks, commands, run

SPIRAL = """
data = { name = "spiral", n = 15 }
split = { by = "group", folds = 5 }
network = { d_model = 8, num_heads = 2 }
training = { batch_size = 4, steps = 20, quick_valid = 4 }
"""
BEARINGS = """
data = { name = "bearings", steps = 4, average = 4 }
split = { by = "group", folds = 3 }
network = { d_model = 8, num_heads = 2, conv = [[8, 3, 1], [8, 2, 1]] }
training = { batch_size = 16, quick_steps = 12, quick_valid = 50, lr = 0.01 }
"""
CARRACING = """
data = { name = "carracing", frames = 2 }
split = { by = "auto" }
training = { batch_size = 8, quick_steps = 6, quick_valid = 30 }
models = { "nac*" = { causal = true, block_size = 1 } }

[network]
d_model = 8
num_heads = 2
image = { conv = [[4, 3, 2], [4, 5, 4], [6, 5, 2]] }
"""


def small(command, folder):
    """Run a command with fewer and shorter spirals in place of those of the task."""
    return run(command.replace(" spiral ", " spiral.toml "), folder)


@pytest.fixture(scope="module")
def spirals(tmp_path_factory):
    """A folder after the first command of docs/harness.md: runs of two models that several pages go on with."""
    folder = tmp_path_factory.mktemp("spirals")
    (folder / "spiral.toml").write_text(SPIRAL)
    said = small(commands("harness.md")[0], folder)
    assert said.count("spiral, nac, fold 1 of 5: mse") == said.count("spiral, sdpa, fold 1 of 5: mse") == 1
    return folder


@pytest.mark.slow
def test_harness_from_nothing_to_a_table(spirals):
    _, table = commands("harness.md")
    said = small(table, spirals)
    assert re.search(r"nac +[\d.]+ +1/5", said)
    assert re.search(r"sdpa +[\d.]+ +1/5", said)
    assert {path.name for path in (spirals / "runs" / "plots").iterdir()} == {
        "ranks-standard.png", "loss-spiral-standard.png",
    }  # fmt: skip


def test_harness_shows_a_recipe_that_loads():
    bare, text = blocks("harness.md", "toml")
    recipe = parse_recipe(text, "small")
    task = load_task(recipe)
    assert len(task.data) == 60
    assert task.network("nac", 0, 0).layer.blocks[0].attention.config.top_k == 16
    assert task.network("sdpa", 0, 0).layer.blocks[0].attention.num_heads == 2
    assert recipe.at(Profile.STANDARD).network.d_model == 8
    task = load_task(parse_recipe(f"data.name = 'spiral'\n{bare}", "bare"))
    assert task.network("nac", 0, 0).layer.config.top_k == 8


@pytest.mark.slow
def test_inspect_a_viewer_a_figure_and_tables(spirals):
    train, view, figure, tables = commands("inspect.md")
    small(train, spirals)  # is there
    command = [sys.executable, "-m", *shlex.split(view), "--port", "0"]
    with subprocess.Popen(command, cwd=spirals, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = next(line.split()[-1] for line in server.stderr if "open http" in line)
            assert b"nacre: looking inside" in urllib.request.urlopen(address, timeout=20).read()
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
    run(figure, spirals)
    assert "<svg" in (spirals / "activity.svg").read_text()
    run(tables, spirals)
    names = {"tuning.csv", "time-tuning.csv", "gates.csv", "lesions.csv", "inspect.json"}
    assert {path.name for path in (spirals / "tables").iterdir()} == names


@pytest.mark.deep  # tests/train runs both on its own; that the options exist is tested in test_pages.py
def test_cluster_a_grid_on_ray_and_a_cell_in_two_processes(spirals, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)  # or Ray makes one in the home directory
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for command in commands("cluster.md"):
        words = shlex.split(command.replace(" spiral ", " spiral.toml "))
        subprocess.run([sys.executable, "-m", *words], cwd=spirals, capture_output=True, check=True)
    for model, folds, processes in (("cfc-fc", 2, 1), ("linear-attention", 1, 2)):
        results = sorted((spirals / "runs" / "spiral" / model).glob("*/result.json"))
        assert len(results) == folds
        assert {json.loads(path.read_bytes())["budget"].get("processes", 1) for path in results} == {processes}


@pytest.mark.slow
def test_tuning_a_search_and_what_it_found(spirals):
    tune, train = commands("tuning.md")
    assert "best validation loss" in small(tune, spirals)
    assert "spiral-tuned-cfc-fc, cfc-fc, fold 1 of 5: mse" in small(train, spirals)


@pytest.mark.slow
def test_own_data_from_csv_to_predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("your-own-data.md", "python")[0], "your-own-data.md", "exec"), {})
    (recipe,) = blocks("your-own-data.md", "toml")
    (tmp_path / "pumps.toml").write_text(f"{recipe}\n[training]\nsteps = 80\n")
    check, train, table, predict, folds, ensemble, final, predict_final = commands("your-own-data.md")
    assert "2 classes: fine, worn" in run(check, tmp_path)
    said = run(train, tmp_path)
    assert "The task is classification" in said
    assert float(re.search(r"pumps, nac, fold 1 of 5: accuracy ([\d.]+)", said)[1]) >= 90  # chance is 50
    assert "nac" in run(table, tmp_path)
    run(predict, tmp_path)
    rows = (tmp_path / "predictions.csv").read_text().splitlines()
    assert rows[0] == "pump,prediction,p(fine),p(worn)"
    right = [(int(row.split(",")[0]) % 2 == 1) == (row.split(",")[1] == "worn") for row in rows[1:]]
    assert len(right) == 50
    assert sum(right) >= 45
    run(f"{folds} --folds 1 --no-controls", tmp_path)
    assert "the mean of 1 run: fold0-seed0" in run(ensemble, tmp_path)
    assert "pumps, nac, final: trained on all data" in run(final, tmp_path)
    (tmp_path / "predictions.csv").unlink()
    run(predict_final, tmp_path)
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 51


@pytest.mark.slow
def test_missing_values_from_a_long_table_to_predictions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = blocks("missing-values.md", "python")[0].replace("patients = 2_000", "patients = 60")
    exec(compile(table, "missing-values.md", "exec"), {})
    recipe = blocks("missing-values.md", "toml")[1]
    assert len(recipe.strip().splitlines()) == 10
    tiny = "\n[network]\nd_model = 8\nnum_heads = 2\n[training]\nsteps = 4\n"
    (tmp_path / "icu.toml").write_text(recipe + tiny)
    (tmp_path / "icu-events.toml").write_text(recipe.replace('"flags"', '"events"') + tiny)
    check, train, table, predict = commands("missing-values.md")
    assert re.search(
        r"Missing: 7\d\.\d % of .* values \(v\d\d .*; they are flagged as not observed\.", run(check, tmp_path)
    )
    train = f"{train} --folds 1"
    assert train.count(" -m ") == 4
    assert "icu, mtan, fold 1 of 5" in run(train, tmp_path)
    assert "icu-events, nac-plus, fold 1 of 5" in run(
        "nacre train icu-events.toml -m nac-plus --folds 1", tmp_path
    )
    assert "linear" in run(table, tmp_path)
    for name in ("icu", "icu-events"):
        run(predict.replace("runs/icu/", f"runs/{name}/"), tmp_path)
        rows = (tmp_path / "predictions.csv").read_text().splitlines()
        assert rows[0] == "patient,prediction,p(no),p(yes)"
        assert len(rows) == 21


def test_datasets_lists_and_checks(tmp_path, monkeypatch):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    listed, checked = (run(command, tmp_path) for command in commands("datasets.md"))
    for name in ("event-mnist", "person-activity", "ettm1", "jena", "physionet2012", "spiral"):
        assert name in listed
    assert "300 sequences" in checked


@pytest.mark.slow
def test_bearings_from_recordings_to_a_prognosis(tmp_path):
    features, train, predict = commands("bearings.md")
    for number, snapshots in enumerate((8, 9, 10), 1):
        write_pronostia(tmp_path / "RECORDINGS" / f"Bearing1_{number}", snapshots)
    write_pronostia(tmp_path / "NEW" / "mine", 7)
    (tmp_path / "bearings.toml").write_text(BEARINGS)
    assert "3 tables; in bearings-features" in run(f"{features} --jobs 1", tmp_path)
    said = run(f"{train.replace(' bearings ', ' bearings.toml ')} --folds 1", tmp_path)
    assert "bearings, nac, fold 1 of 3: mse" in said
    assert "pronostia mine: share of life used" in run(f"{predict} --jobs 1", tmp_path)
    assert {path.name for path in (tmp_path / "prognosis").iterdir()} == {
        "features", "pronostia-mine.csv", "pronostia-mine.png",
    }  # fmt: skip


@pytest.mark.slow
def test_driving_from_an_expert_to_a_race(tmp_path):
    collect, train, race = commands("driving.md")
    (tmp_path / "carracing.toml").write_text(CARRACING)
    assert "3 recorded, 0 were there; in carracing" in run(f"{collect} --limit 150 --jobs 1", tmp_path)
    said = run(train.replace(" carracing ", " carracing.toml "), tmp_path)
    assert "carracing, nac, fold 1 of 3: accuracy" in said
    assert re.search(r"nac +plain +0/2", run(f"{race} --limit 10 --jobs 1", tmp_path))
    made = {path.name for path in (tmp_path / "races").iterdir()}
    page = (DOCS / "driving.md").read_text()
    assert set(re.findall(r"`(?:races/)?((?:standings|laps|tracks|drive)[\w-]*\.\w+)`", page)) <= made
    assert {"drive-nac-plain.gif", "race.json", "nac"} <= made


@pytest.mark.slow
def test_nac_plus_the_recall_study(tmp_path, monkeypatch):
    monkeypatch.setattr("nacre.study.recall.run._HELD_OUT", 64)
    for command in commands("nac-plus-first.md"):
        said = run(f"{command} --steps 2 --seeds 1", tmp_path)
        runs = command.count(" -m ") * max(1, command.count("--length"))
        assert said.count(": accuracy 0.") == runs, command


@pytest.mark.slow
def test_studies(tmp_path, monkeypatch):
    frozen, approximate, spiral = commands("studies.md")
    assert "oscillatory" in run(frozen, tmp_path)
    # Minutes of training each: here two steps of few runs.
    budgets = {target: budget._replace(steps=2) for target, budget in uat.BUDGETS[Profile.QUICK].items()}
    monkeypatch.setitem(uat.BUDGETS, Profile.QUICK, budgets)
    monkeypatch.setitem(uat.WIDTHS, Profile.QUICK, (4, 8))
    monkeypatch.setattr(uat, "SEEDS", 1)
    run(approximate, tmp_path)
    run(f"{spiral} --steps 2 --seeds 1 --section sparsity", tmp_path)
    for name in ("frozen", "uat", "spiral"):
        assert (tmp_path / "studies" / name / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "studies" / name / f"{name}.csv").exists()


@pytest.mark.slow
def test_a_model_of_your_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mydecay.py").write_text(blocks("your-own-model.md", "python")[0])
    (tmp_path / "spiral.toml").write_text(SPIRAL)
    train, table, bench, tune, train_own, predict = commands("your-own-model.md")
    assert "spiral, mydecay:Decay, fold 1 of 5: mse" in small(train, tmp_path)
    assert "mydecay:Decay" in run(table, tmp_path)
    assert "mydecay:Decay" in run(f"{bench} --lengths 32".replace(",sdpa", ""), tmp_path)
    assert "best validation loss" in small(tune.replace("--trials 5", "--trials 1"), tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("your-own-data.md", "python")[0], "your-own-data.md", "exec"), {})
    (recipe,) = blocks("your-own-data.md", "toml")
    (tmp_path / "my.toml").write_text(f"{recipe}\n[training]\nsteps = 20\n")
    run(train_own, tmp_path)
    run(predict, tmp_path)
    assert "p(worn)" in (tmp_path / "predictions.csv").read_text()


@pytest.mark.slow
def test_performance_a_sweep(tmp_path):
    training, command = commands("performance.md")
    assert training == "nacre bench --training --threads 1"  # tests/bench runs it with less to do
    assert "pip install --no-deps torch-nac" in (DOCS / "performance.md").read_text()  # a package of others
    models, lengths = re.findall("--(?:models|lengths) ([^ ]+)", command)
    known = resolve(models.removesuffix(",torch-nac").split(","))
    assert known == ["nac", "torch-mha", "torch-gru"]
    short = command.replace(models, "torch-mha").replace(lengths, "32,64")  # each entry takes processes of its own
    assert "torch-mha" in run(short, tmp_path)
    assert (tmp_path / "results" / "bench-sweep.json").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* does not beat the control")
def test_estimators_save_what_inspect_opens(tmp_path):
    x, y = [[[i % 2, 1.0], [i % 3, 2.0]] for i in range(30)], ["leaks", "tight"] * 15
    clf = nacre.Classifier("nac-plus", d_model=8, num_heads=2, max_steps=1, random_state=0)
    clf.fit(x, y).save(tmp_path / "pumps")
    (inspect,) = commands("estimators.md")
    run(inspect, tmp_path)
    assert (tmp_path / "attention.svg").exists()


def test_every_page_with_commands_is_followed_here():
    own = Path(__file__).read_text()
    pages = {page.name for page in PAGES if "\n```bash\n" in page.read_text()}
    assert {"harness.md", "performance.md"} < pages
    installing = {"README.md": "make", "index.md": "pip"}  # what CI does before it runs the tests
    assert [name for name in pages if f'commands("{name}")' not in own and name not in installing] == []
    for name, first in installing.items():
        page = next(page for page in PAGES if page.name == name)
        lines = [
            line
            for found in BLOCK.finditer(page.read_text())
            if found[1] == "bash"
            for line in found[2].splitlines()
        ]
        assert {line.split()[0] for line in lines} == {first}
