"""Follow README and every page as a stranger would: python tools/follow_pages.py [--list] [--only TEXT].

In a new folder, with the nacre of this environment: page by page the Python blocks as one program and the commands
of blocks, then the commands in the sentences of all pages. What takes long is cut short, by SHORTER and
`small`; the output shows what was typed, and what was left out and why. Exits with 1 if anything failed. Meant for
a clean clone and $NACRE_DATA.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests"))
from nacre.tasks.recipe import list_recipes, load_recipe, to_toml  # noqa: E402
from support.bearings import write_pronostia  # noqa: E402
from support.pages import BLOCK, PAGES  # noqa: E402

SAVED = re.compile(r"`([\w-]+\.(?:toml|py))`:\s*\Z")  # how sentences end before a block that is to be saved
YOURS = {  # what the pages' words for things of your own stand for
    "bearings predict RUN": "bearings predict runs/bearings/nac/fold0-seed0",
    "udacity RUN": "udacity runs/udacity/nac/fold0-seed0",
    "predict RUN": "predict runs/pumps/nac/fold0-seed0",
    "runs/my/": "runs/pumps/",
    "race RUN...": "race runs/carracing/nac/fold0-seed0",
    "race RUN": "race runs/carracing/nac/fold0-seed0",
    "my.toml": "pumps.toml",
    "RUN RUN": "runs/spiral/nac/fold0-seed0 runs/pumps/nac/fold0-seed0",
    "TASK... -m MODEL...": "spiral -m nac",
    "train ...": "train spiral -m nac",
    "[RUNS]": "runs",
    "RUNS": "runs",
    "RUN": "runs/spiral/nac/fold0-seed0",
}
REPLACED = {
    r"--lengths [\d,]+": "--lengths 32,64",
    ",torch-nac": "",
    r"--models \.\.\. ": "",
    "tools/": f"{ROOT}/tools/",
    "choices4/": "choices/",  # of an earlier commit, as the page says; today's have the same names
}
SHORTER = {  # what is added so that a command takes seconds
    r"nacre train ": "--folds 1",
    r"nacre tune ": "--trials 2 --only lr",
    r"nacre demo": "--steps 40",
    r"nacre bench(?!.*--(models|selection|sweep))": "--models nac,sdpa",
    r"nacre bench(?!.*--(lengths|training))": "--lengths 64",
    r"nacre bench.*--training": "--time-limit 4",
    r"nacre study (recall|spiral)": "--steps 2 --seeds 1",
    r"nacre study spiral": "--section keys",
    r"nacre drive collect": "--episodes 3 --limit 150",
    r"nacre drive race": "--episodes 1 --limit 20",
    r"nacre inspect .*--again": "--samples 2",
}
ENDLESS = {  # what gets Ctrl-C after 25 seconds, and the exit code that it then has
    r"nacre view (?!.*--export)|nacre drive udacity": 0,
    r"nacre study uat": 130,
}
LEFT = {  # what is not run, and why
    r"/shared/|--address|postgresql|createdb|^ray |^export |^torchrun": "needs several machines",
    r"^make |^pip ": "installs; CI does it on a clean checkout",
    r"recall_trials|selection=cluster": "gone, as the page says",
    r"--profile paper": "takes days",
    r"-inhib\.toml": "a recipe of an earlier commit, as the page says",
    r"check physionet2012": "needs a download that was never tried, as the page says",
    r"python tools/(?!plain|variant)": "a program of this repository, which made numbers of the page",
    r"^nacre (train( carracing)?|tune|predict|view|inspect|study recall|data features)$": "a name, no command",
}


class Step(NamedTuple):
    """A command as a page has it."""

    page: str
    command: str
    block: bool = False  # whether it stands in a block

    @property
    def left(self) -> str:
        """Why it is not run; empty if it is."""
        return next((why for pattern, why in LEFT.items() if re.search(pattern, self.command)), "")


def steps() -> list[Step]:
    """Commands of blocks, page by page, then those in the sentences of pages; each once."""
    found: list[Step] = []
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text()):
            if block[1] in ("bash", "console"):
                lines = block[2].replace("\\\n", " ").splitlines()
                found += [Step(page.name, re.sub(r"^\w*\$ |\s+#.*", "", line), True) for line in lines]
    for page in PAGES:
        text = BLOCK.sub("", page.read_text())
        found += [Step(page.name, c) for c in re.findall(r"`((?:nacre|python tools/\w+\.py)(?: [^`\n]+)?)`", text)]
    first = {step.command: step for step in reversed(found)}
    return [step for step in found if step.command != "nacre" and first.pop(step.command, None)]


def typed(command: str, folder: Path) -> str:
    """A command with things of yours in place of the page's words for them, and with less to do."""
    for word, yours in YOURS.items():
        command = command.replace(word, yours, 1)
    for pattern, other in REPLACED.items():
        command = re.sub(pattern, other, command)
    command = " ".join([command, *(more for pattern, more in SHORTER.items() if re.match(pattern, command))])
    if re.match("nacre (train|tune) ", command):
        before, out, after = command.partition(" --out ")  # whose folder may be called like a task
        command = " ".join(small(word, folder) for word in before.split(" ")) + out + after
    for pattern, code in ENDLESS.items():
        if re.match(pattern, command):
            command = f"timeout --preserve-status -s INT 25 {command}; [ $? = {code} ]"
    return command


def small(word: str, folder: Path) -> str:
    """If a word is a task, or the file of one: a file of the same recipe that trains for some steps."""
    file = folder / word
    if word not in list_recipes() and not (file.suffix == ".toml" and file.exists()):
        return word
    recipe = load_recipe(word if word in list_recipes() else file)
    training = replace(recipe.training, steps=20, quick_steps=6, quick_valid=8)
    standard = {part: {k: v for k, v in table.items() if k != "steps"} for part, table in recipe.standard.items()}
    short = folder / "short" / f"{recipe.name}.toml"
    short.parent.mkdir(exist_ok=True)
    short.write_text(to_toml(replace(recipe, training=training, standard=standard)))
    return str(short.relative_to(folder))


def settle(folder: Path) -> None:
    """What a stranger has: recordings of bearings, the results and recipes of the checkout."""
    for number in (1, 2, 3):
        write_pronostia(folder / "RECORDINGS" / f"Bearing1_{number}", 40)
    write_pronostia(folder / "NEW" / "mine", 40)
    shutil.copytree(ROOT / "results", folder / "results")
    for recipe in (ROOT / "results" / "driving").glob("*.toml"):
        shutil.copy(recipe, folder)


def program(page: Path, folder: Path) -> Path | None:
    """The Python blocks of a page as one program, if it has any; files that the page says to save are saved."""
    text, code = page.read_text(), ""
    for block in BLOCK.finditer(text):
        if saved := SAVED.search(text, 0, block.start()):
            (folder / saved[1]).write_text(block[2])
        if block[1] == "python":  # on the page's line, for messages
            code += "\n" * (text.count("\n", 0, block.start(2)) - code.count("\n")) + block[2]
    path = folder / f"page-{page.stem}.py"  # not inspect.py, which Python would import
    return path if code and path.write_text(code) else None


def follow(step: Step, folder: Path) -> bool:
    """Type a command of a page, or say why not; whether nothing failed."""
    if step.left:
        sys.stdout.write(f"left           {step.command}  ({step.left})\n")
        return True
    return runs(typed(step.command, folder), folder)


def runs(command: str, folder: Path) -> bool:
    """Run a line in the shell, show how it ended, and its output if it failed."""
    began = time.monotonic()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    surroundings = {**os.environ, "PATH": path, "COLUMNS": "120", "RAY_AUTH_TOKEN": "0" * 64}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=surroundings, text=True, capture_output=True, check=False
    )
    ended = "FAILED" if done.returncode else "ok    "
    sys.stdout.write(f"{ended} {time.monotonic() - began:4.0f} s  {command}\n")
    if done.returncode:
        sys.stdout.write("\n".join((done.stdout + done.stderr).splitlines()[-15:]) + "\n")
    sys.stdout.flush()
    return not done.returncode


def main() -> int:
    """Follow the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="only list what would be run, and what not and why")
    parser.add_argument(
        "--only", default="", help="only programs and commands that contain this, or whose page does"
    )
    options = parser.parse_args()
    found = [step for step in steps() if options.only in f"{step.page} {step.command}"]
    if options.list:
        for step in found:
            sys.stdout.write(f"{step.page}: {step.command}{step.left and f'  ({step.left})'}\n")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settle(folder)
        for page in PAGES:
            python = program(page, folder)
            if python is not None and options.only in python.name:
                failed += not runs(f"python {python.name}", folder)
            failed += sum(not follow(step, folder) for step in found if step.block and step.page == page.name)
        failed += sum(not follow(step, folder) for step in found if not step.block)
    sys.stdout.write(f"{failed} failed\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
