"""The command line, as a user meets it."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nacre
from nacre import cli
from nacre.cli import app as commands
from nacre.demo.run import SEEDS, SPREAD, STEPS


def run(*args):
    return CliRunner().invoke(commands.app, list(args), env={"COLUMNS": "120"})


def test_help_names_every_command():
    for args in ([], ["--help"]):
        out = run(*args).output
        assert "demo" in out
        assert "models" in out


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


def test_the_installed_command_reports_an_unknown_model():
    done = subprocess.run(
        [sys.executable, "-m", "nacre", "models", "zzz"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "nacre: no model matches 'zzz'; nacre models lists all\n"


@pytest.mark.parametrize(
    ("missing", "command", "extra"),
    [("typer", "models", "train"), ("rich", "models", "train"), ("optuna", "tune', 'spiral", "train,tune")],
)
def test_a_missing_extra_is_named(missing, command, extra):
    hide = f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['nacre', '{command}']"
    code = f"{hide}; import nacre.cli; nacre.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"nacre: the package {missing!r} is not installed; pip install 'nacre[{extra}]'\n"
