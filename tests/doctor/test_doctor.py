"""`nacre doctor` on a sound set-up, and on broken ones: it says what is wrong and what to do."""

import gzip
import json
import os
import re
import tomllib
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from nacre._util import extras
from nacre._util.pool import default_jobs
from nacre.cli.app import app
from nacre.doctor import environment, kernels, known_numbers
from nacre.doctor.data import check_data
from nacre.doctor.finding import State
from nacre.native import library
from nacre.native.build import build

ROOT = Path(__file__).parents[2]
# Names of packages that are not those of their modules.
MODULES = {"scikit-learn": "sklearn", "tomli-w": "tomli_w", "imageio-ffmpeg": "imageio_ffmpeg", "pillow": "PIL"}


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("NACRE_DATA", raising=False)
    monkeypatch.setattr(kernels, "ROUNDS", 1)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NACRE_DATA", raising=False)
    return tmp_path / "cache"


def problems(findings):
    return [f for f in findings if f.state is State.PROBLEM]


def test_a_sound_machine_has_no_problem(no_data):
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    assert "No problems." in done.output
    for what in (
        "versions",
        "torch",
        "extras",
        "processor",
        "memory",
        "GPU",
        "kernels",
        "numbers",
        "cache",
        "data",
    ):
        assert f" {what}: " in done.output


def test_json_and_exit_code(no_data, tmp_path):
    done = CliRunner().invoke(app, ["doctor", "--json", "--data-dir", str(tmp_path / "nowhere")])
    assert done.exit_code == 1
    found = json.loads(done.output)
    assert found["problems"] == 1
    (wrong,) = (f for f in found["findings"] if f["state"] == "problem")
    assert wrong["what"] == "data"
    assert "is no folder" in wrong["text"]


def test_extras_are_those_of_the_project():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {name: packages for name, packages in declared["optional-dependencies"].items() if name != "all"}

    def module(requirement):
        name = requirement.partition(">")[0].partition("[")[0]
        return MODULES.get(name, name)

    assert {name: tuple(map(module, packages)) for name, packages in wanted.items()} == environment.EXTRAS
    assert tuple(map(module, declared["dependencies"])) == environment.CORE


def test_a_torch_older_than_the_project_says():
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (pinned,) = (
        line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")
    )
    assert environment._torch(f"{pinned.removeprefix('torch==')}+cpu", required).state is State.OK
    found = environment._torch("2.5.1+cu121", required)
    assert found.state is State.PROBLEM
    assert found.fix.startswith("pip install 'torch>=2.")
    assert environment._torch("2.10.0", ["numpy>=1", "torch>=2.9"]).state is State.OK
    assert environment._torch("2.8.0", ["torch>=2.10"]).state is State.PROBLEM
    assert environment._torch("2.8.0", []).state is State.NOTE


def test_missing_extras(monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda name: None if name in ("ray", "onnx") else name)
    found = environment._extras()
    assert found.state is State.NOTE
    assert "scale lacks ray; export lacks onnx" in found.text
    assert found.fix.endswith("-e '.[scale,export]'")
    monkeypatch.setattr(extras, "_CHECKOUT", ROOT / "nowhere")
    assert environment._extras().fix.endswith("run pip install 'nacre-attention[scale,export]'")


def test_no_compiler(monkeypatch, own_cache):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    (found,) = kernels.check_kernels()
    assert found.state is State.NOTE
    assert "no C++ compiler" in found.text
    assert "g++" in found.fix


def test_a_compiler_that_fails_and_a_cache_that_cannot_be_written(monkeypatch, own_cache, tmp_path):
    monkeypatch.setenv("CXX", "false")
    (found,) = kernels.check_kernels()
    assert found.state is State.PROBLEM
    assert "CXX" in found.fix
    monkeypatch.setenv("CXX", "c++")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "file"))
    for found, *_ in (check_data(None), kernels.check_kernels()):
        assert found.state is State.PROBLEM
        assert "set NACRE_CACHE" in found.fix


def test_a_folder_that_others_can_write(own_cache):
    own_cache.mkdir()
    own_cache.chmod(0o777)
    (found,) = kernels.check_kernels()
    assert found.text == f"they cannot be built: {own_cache} can be written by others"
    assert found.fix == f"set NACRE_CACHE to a folder of your own, or run chmod go-w {own_cache}"


def test_a_compiler_that_does_not_end(own_cache, tmp_path, monkeypatch):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    monkeypatch.setattr("nacre.native.build._BUILD_SECONDS", 0.2)
    (found,) = kernels.check_kernels()
    assert found.text == f"they cannot be built: {slow} took more than 0.2 seconds"
    assert found.fix == "try again when the machine is less busy"
    assert not list(own_cache.iterdir())


@pytest.mark.parametrize("size", [0, 1000])  # the first is refused, the second ends the process that loads it
def test_kernels_that_are_damaged(size, tmp_path, monkeypatch):
    whole = build()  # there, from other tests
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    monkeypatch.setenv(library.SWITCH, "1")
    damaged = tmp_path / whole.name
    damaged.write_bytes(whole.read_bytes()[:size])
    damaged.chmod(0o755)
    (found,) = kernels.check_kernels()
    assert found.state is State.PROBLEM
    assert re.search(r"cannot be loaded: (OSError: .*too short|the file is damaged \(Bus error)", found.text)
    assert found.fix.startswith(f"delete {damaged}, ")
    assert os.environ[library.SWITCH] == "0"


def test_more_threads_than_processors():
    before = torch.get_num_threads()
    torch.set_num_threads(default_jobs() + 1)
    try:
        found = environment._processor()
    finally:
        torch.set_num_threads(before)
    assert found.state is State.NOTE
    assert "they wait for each other" in found.text
    assert found.fix == f"set OMP_NUM_THREADS={default_jobs()}"


def test_kernels_switched_off(monkeypatch):
    monkeypatch.setenv("NACRE_NATIVE", "0")
    (found,) = kernels.check_kernels()
    assert found.state is State.NOTE
    assert found.fix == "unset NACRE_NATIVE"


def test_wrong_numbers(monkeypatch):
    assert not problems(known_numbers.check_numbers())
    monkeypatch.setitem(known_numbers.KNOWN, "nac", (0.25, 0.16))
    (found,) = known_numbers.check_numbers()
    assert found.state is State.PROBLEM
    assert "nac by PyTorch gives" in found.text


def test_data_that_is_not_what_it_should_be(own_cache, tmp_path):
    folder = tmp_path / "ettm1"
    folder.mkdir()
    (folder / "ETTm1.csv.gz").write_bytes(gzip.compress(b"date,OT\n"))
    (found,) = problems(check_data(tmp_path))
    assert found.what == "data ettm1"
    assert "is not the ETTm1.csv that nacre knows" in found.text
    assert found.fix == f"delete {folder / 'ETTm1.csv.gz'} and run `nacre data get ettm1`"


def test_the_switch_changes_the_path_and_comes_back():
    x = torch.zeros(2)
    before = library.runs(x)
    with library.switched_off():
        assert not library.runs(x)
    assert library.runs(x) == before
