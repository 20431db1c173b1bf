"""What a release needs is there: files of the wheel, targets that the workflows call, one version everywhere."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
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
        "nacre/native/include/circuit.h",
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


@pytest.mark.parametrize(
    ("tag", "heading", "wanted"),
    [
        ("v1.2.0", "## 1.2.0 - 2030-01-31", [0, 0]),
        ("v1.2.1", "## 1.2.0 - 2030-01-31", [1, 1]),
        ("v1.2.0", "## 1.2.0 - unreleased", [0, 1]),
    ],
)
def test_the_release_compares_its_tag_with_version_and_changelog(tag, heading, wanted, tmp_path):
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]["build"]
    checks = [step["run"] for step in job["steps"] if step.get("run", "").startswith("grep")]
    version = tmp_path / "src" / "nacre" / "_version.py"
    version.parent.mkdir(parents=True)
    version.write_text((ROOT / "src" / "nacre" / "_version.py").read_text().replace(nacre.__version__, "1.2.0"))
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\nSome text.\n")
    codes = [subprocess.run(["bash", "-c", one], cwd=tmp_path, env={"GITHUB_REF_NAME": tag}) for one in checks]
    assert [done.returncode for done in codes] == wanted


def test_the_changelog_begins_with_the_version():
    number, date = re.findall(r"^## (\S+) - (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert nacre.__version__.removesuffix(".dev0") == number
    assert re.fullmatch(r"unreleased|\d{4}-\d{2}-\d{2}", date)


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
