"""The command line, as a user meets it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nacre
from nacre import cli
from nacre._util.extras import how_to_install
from nacre.cli import app as commands
from nacre.demo.run import SEEDS, SPREAD, STEPS


def run(*args):
    return CliRunner().invoke(commands.app, list(args), env={"COLUMNS": "120"})


ROOT = Path(__file__).parents[2]
COMMANDS = (
    "demo models doctor bench tasks train tune table predict export inspect view data results study drive bearings"
)


def test_help_names_every_command():
    for args in ([], ["--help"]):
        listed = re.findall(r"^│ (\w+) ", run(*args).output, re.MULTILINE)
        assert listed == COMMANDS.split()


def test_version():
    assert run("--version").output.strip() == f"nacre {nacre.__version__}"


def test_models_lists_every_model_with_its_size():
    out = run("models").output
    for name in nacre.list_models():
        assert name in out
    assert "32,804" in out
    narrowed = run("models", "nac-phi*").output
    assert "nac-phi-tanh" in narrowed
    assert "sdpa" not in narrowed


def test_demo_passes_its_options_on(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr("nacre.demo.run.run_demo", lambda *args: seen.append(args))
    assert run("demo", "--out", str(tmp_path), "--steps", "7", "--seed", "3", "--spread", "0.05").exit_code == 0
    assert run("demo").exit_code == 0
    assert seen == [(tmp_path, 7, 3, 0.05), (Path("nacre-demo"), STEPS, SEEDS[0], SPREAD)]
    for option, bad in (("--steps", "0"), ("--seed", "100"), ("--seed", "0"), ("--spread", "-0.1")):
        assert run("demo", option, bad).exit_code == 2


def fail_with(monkeypatch, error):
    def broken():
        raise error

    monkeypatch.setattr(commands, "app", broken)
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


def test_bad_input_is_one_line_and_exit_code_2(monkeypatch, capsys):
    assert fail_with(monkeypatch, ValueError("sparsity must lie in [0, 0.95]")) == 2
    assert capsys.readouterr().err == "nacre: sparsity must lie in [0, 0.95]\n"


def test_a_full_disk_is_one_line_too(monkeypatch, capsys):
    assert fail_with(monkeypatch, OSError(28, "No space left on device")) == 2
    assert "No space left on device" in capsys.readouterr().err


def test_ctrl_c_exits_with_130(monkeypatch):
    assert fail_with(monkeypatch, KeyboardInterrupt()) == 130


def test_every_package_of_an_extra_is_missed_with_the_name_of_the_extra(monkeypatch, capsys):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {extra: {re.match(r"[\w-]+", one)[0] for one in wanted} for extra, wanted in extras.items()}
    for extra in ("tune", "scale", "drive", "bearings", "view"):
        for name in names[extra] - names["train"]:
            module = {"pillow": "PIL"}.get(name, name.replace("-", "_"))
            assert fail_with(monkeypatch, ModuleNotFoundError(name=f"{module}.part")) == 2
            wanted = f"nacre: the package {module!r} is not installed; {how_to_install(f'train,{extra}')}\n"
            assert capsys.readouterr().err == wanted


# One process for all cases: importing torch takes longer than the commands.
FORKS = """
import os, runpy, sys
import nacre
for hidden, *words in CASES:
    if os.fork() == 0:
        sys.modules |= {hidden: None}
        sys.argv = ["nacre", *words]
        try:
            runpy.run_module("nacre", run_name="__main__")
        except SystemExit as end:
            os._exit(end.code)  # at once: tearing torch down takes half a second
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
def test_the_installed_command_names_unknown_models_and_missing_extras():
    cases = {
        ("nothing", "models", "zzz"): "no model matches 'zzz'; nacre models lists all",
        ("typer", "models"): f"the package 'typer' is not installed; {how_to_install('train')}",
        ("rich", "models"): f"the package 'rich' is not installed; {how_to_install('train')}",
        ("optuna", "tune", "spiral"): f"the package 'optuna' is not installed; {how_to_install('train,tune')}",
    }
    code = FORKS.replace("CASES", repr(list(cases)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines() == [f"nacre: {said}" for said in cases.values()]
    assert done.stdout.split() == ["2"] * len(cases)


def test_models_says_what_each_is_in_a_narrow_window(monkeypatch, capsys):
    for width, more in ((80, False), (160, True)):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr("sys.argv", ["nacre", "models", "s4"])
        with pytest.raises(SystemExit, match="^0$"):
            cli.main()
        out = capsys.readouterr().out
        assert "what it is" in out
        assert " ".join(nacre.model_info("s4").summary.split()[:2]) in out
        assert ("checked against" in out.splitlines()[2]) == more
