"""Models of others: by name and by entry point, trained, tabled, loaded, and refused without trust."""

import json
import sys
from pathlib import Path

import pytest
import torch

import nacre
from nacre._util import foreign_code
from nacre.bench.entries import build, resolve
from nacre.train.grid import expand_models
from nacre.train.report.cell_files import add_results
from nacre.train.report.results import find_results
from nacre.train.run import Run
from nacre.train.run_cell import run_cell
from support.pages import BLOCK, DOCS
from support.train import cell, result_of, waves
from support.train import nacre as command

PAGE = next(block[2] for block in BLOCK.finditer((DOCS / "your-own-model.md").read_text()))


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A folder with the model of the page in a file; gives its module's name."""
    monkeypatch.chdir(tmp_path)
    name = f"decay_{abs(hash(tmp_path)) % 10**9}"
    Path(f"{name}.py").write_text(PAGE)
    foreign_code.offers.cache_clear()
    yield name
    sys.modules.pop(name, None)
    foreign_code.offers.cache_clear()


def install(folder, module, monkeypatch):
    """As pip leaves a package that has an entry point."""
    place = folder / "site" / f"{module}-1.5.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.5\n")
    (place / "entry_points.txt").write_text(f"[nacre.models]\nmy-decay = {module}:Decay\n")
    monkeypatch.syspath_prepend(folder / "site")
    foreign_code.offers.cache_clear()


def changed(module, text="# another comment\n"):
    """The model's file is edited, as between two sessions."""
    path = Path(f"{module}.py")
    path.write_text(path.read_text() + text)


def test_a_reference_stands_wherever_a_model_is_named(stranger):
    name = f"{stranger}:Decay"
    model = nacre.create(name, d_input=3, d_model=8, num_heads=2, time_scale=2.0)
    assert model.time_scale == 2.0
    assert type(build(name, 8, 2)) is type(model)
    assert resolve([f"{name},sdpa"]) == [name, "sdpa"]
    assert expand_models(["sdpa", name]) == ["sdpa", name]
    assert nacre.model_info(name).summary.startswith("A memory of the past")
    assert name not in nacre.list_models()
    assert nacre.check_model(name)


def test_what_is_no_model_is_refused_with_a_reason(stranger):
    cases = {
        f"{stranger}:Gone": "has no 'Gone'",
        "nopackage_at_all:Model": "cannot import nopackage_at_all.*must be installed, or a file in this folder",
        "math:pi": "must be a class or function that makes a module",
        "math:floor": "must take d_input and d_model",
        "Decay": "unknown model 'Decay'.*package.module:factory",
    }
    for name, message in cases.items():
        with pytest.raises(ValueError, match=f"(?s){message}"):
            nacre.create(name, d_input=3, d_model=8, num_heads=2)
    del sys.modules[stranger]
    Path(f"{stranger}.py").write_text("raise OSError('sorry, not today')")
    with pytest.raises(ValueError, match="OSError: sorry, not today"):
        nacre.model_info(f"{stranger}:Decay")


def test_an_entry_point_is_listed_and_needs_no_trust(stranger, tmp_path, monkeypatch):
    install(tmp_path, stranger, monkeypatch)
    assert "my-decay" in nacre.list_models()
    one = cell(waves(quick_steps=6), tmp_path / "runs", "my-decay")
    source = run_cell(one)["source"]
    assert source == {
        "reference": f"{stranger}:Decay",
        "package": f"{stranger} 1.5",
        "sha256": one.identity.source,
    }
    assert isinstance(nacre.load(one.directory), nacre.TaskNetwork)
    (tmp_path / "site" / f"{stranger}-1.5.dist-info" / "entry_points.txt").unlink()
    foreign_code.offers.cache_clear()
    with pytest.raises(
        ValueError, match=f"with a model of others, '{stranger}:Decay' of {stranger} 1.5: .*unknown"
    ):
        Run.open(one.directory).network()


@pytest.fixture
def trained(stranger, tmp_path):
    """A finished run of the model of the page."""
    one = cell(waves(quick_steps=6), tmp_path / "runs", f"{stranger}:Decay")
    run_cell(one)
    return one


def test_a_run_says_how_to_find_its_model(trained, stranger):
    assert trained.directory.parent.name == f"{stranger}.Decay"
    result = result_of(trained.directory)
    assert result["model"] == f"{stranger}:Decay"
    assert result["source"]["reference"] == f"{stranger}:Decay"
    assert result["source"]["sha256"] == trained.identity.source
    assert result["fingerprint"] == trained.fingerprint()


def test_a_file_makes_nothing_be_imported_without_trust(trained, stranger):
    del sys.modules[stranger]
    for refused in ((), ["numpy"], [stranger[:-1]], [f"{stranger}.more"]):
        with pytest.raises(ValueError, match=rf"not imported because a file says so.*--trust {stranger}"):
            nacre.load(trained.directory, trust=refused)
        with pytest.raises(foreign_code.UntrustedCode):
            Run.open(trained.directory, trust=refused).network()
    assert stranger not in sys.modules
    with pytest.raises(TypeError, match="trust must be a list of packages"):
        nacre.load(trained.directory, trust=stranger)
    network = nacre.load(trained.directory, trust=[stranger])
    again = Run.open(trained.directory, trust=[stranger]).network()
    batch = trained.task.data.batch(trained.split.test)
    assert torch.equal(*(one(batch.x, batch.time, batch.key_padding_mask) for one in (network, again)))
    with pytest.raises(foreign_code.UntrustedCode):  # trust ends with the call
        nacre.load(trained.directory)


def test_a_changed_file_makes_its_cells_new(trained, stranger, tmp_path):
    assert trained.is_done()
    before = trained.fingerprint()
    changed(stranger)
    again = cell(waves(quick_steps=6), trained.out, f"{stranger}:Decay")
    assert again.fingerprint() != before
    with pytest.raises(ValueError, match="made with other settings"):
        again.is_done()
    other = cell(waves(quick_steps=6), trained.out, "sdpa")
    assert other.identity.source == ""


def test_its_results_are_kept_and_tabled_like_others(trained, stranger, tmp_path):
    add_results([trained.out], tmp_path / "kept")
    (found,) = find_results(tmp_path / "kept").results
    assert (found.model, found.fingerprint) == (f"{stranger}:Decay", trained.fingerprint())


@pytest.mark.slow
def test_the_commands_train_and_predict_with_it(stranger, tmp_path, monkeypatch, capsys):
    rows = [
        f"{g},{t},{(g % 2) * 2 - 1 + 0.1 * t},{'up' if g % 2 else 'down'}" for g in range(12) for t in range(6)
    ]
    Path("my.csv").write_text("\n".join(["who,when,x,what", *rows]) + "\n")
    Path("my.toml").write_text(
        'data = { csv = "my.csv", time = "when", group = "who", target = "what" }\n'
        "split = { folds = 3 }\nnetwork = { d_model = 8, num_heads = 2 }\ntraining = { quick_steps = 6 }\n"
    )
    words = ("--profile", "quick", "--folds", "1", "--no-controls")
    assert command(monkeypatch, "train", "my.toml", "-m", f"{stranger}:Decay", *words) == 0
    run = f"runs/my/{stranger}.Decay/fold0-seed0"
    assert command(monkeypatch, "predict", run, "my.csv") == 2
    assert f"--trust {stranger}" in " ".join(capsys.readouterr().err.split())
    assert command(monkeypatch, "predict", run, "my.csv", "--trust", stranger) == 0
    assert len(Path("predictions.csv").read_text().splitlines()) == 13
    assert json.loads(Path(run, "result.json").read_bytes())["data"]["name"] == "my"
