"""What a release needs is there: files of the wheel, targets that the workflows call, one version everywhere."""

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

import nacre
from support.pages import tool

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
check_release = tool("check_release")


def test_a_wheel_must_hold_more_than_modules():
    assert {
        "nacre/py.typed",
        "nacre/native/pairs.cpp",
        "nacre/native/circuit.h",
        "nacre/tasks/recipes/spiral.toml",
        "nacre/inspect/viewer/page/index.html",
    } <= check_release.inside()


def test_workflows_call_what_there_is():
    commands = []
    for path in WORKFLOWS:
        jobs = yaml.safe_load(path.read_text())["jobs"]
        commands += [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = [command.split()[1] for command in commands if command.startswith("make ")]
    assert sorted(made) == ["docs", "release"]
    assert set(made) <= set(targets)
    assert "bash .ci/run" in commands
    assert (ROOT / ".ci" / "run").is_file()


def test_the_release_compares_its_tag_with_the_version():
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]["build"]
    (check,) = (step["run"] for step in job["steps"] if step.get("run", "").startswith("grep"))
    for tag, code in ((f"v{nacre.__version__}", 0), ("v9.9.9", 1)):
        assert subprocess.run(["bash", "-c", check], cwd=ROOT, env={"GITHUB_REF_NAME": tag}).returncode == code


def test_workflows_test_every_python_that_is_promised():
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]["test"]["strategy"]
    assert tuple(matrix["matrix"]["python"]) == check_release.PROMISED
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={check_release.PROMISED[0]}"
    named = {one.rpartition(" :: ")[2] for one in project["classifiers"] if "Python ::" in one}
    assert named == set(check_release.PROMISED)


def test_the_oldest_torch_is_the_one_that_tests_use():
    (pinned,) = re.findall(r"^torch==(\d+\.\d+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"torch>={pinned}" in required
