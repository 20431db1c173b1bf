"""`nacre tune` with trials in a real PostgreSQL server that several processes share."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from nacre.train.tuning.storage import _storage, outcome
from nacre.train.tuning.tune import run_tuning
from support.train import MODEL, free_port

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))  # Debian keeps them off the path
INITDB = shutil.which("initdb") or (str(PROGRAMS[-1]) if PROGRAMS else None)
NEEDS_SERVER = pytest.mark.skipif(INITDB is None, reason="PostgreSQL is not installed; .ci/run installs it")
# PostgreSQL refuses to run as root.
USER = {"user": "postgres"} if os.geteuid() == 0 else {}


@pytest.fixture(scope="module")
def server():
    """URL of a database on a server of its own, on loopback."""
    home, port = Path(tempfile.mkdtemp(prefix="nacre-postgres-")), free_port()  # pytest's folders are root's alone
    if USER:
        shutil.chown(home, "postgres")
    control = str(Path(INITDB).with_name("pg_ctl"))
    data = str(home / "data")

    def run(*command):
        subprocess.run(command, cwd=home, check=True, stdout=subprocess.DEVNULL, timeout=120, **USER)

    run(INITDB, "-D", data, "-U", "me", "--auth=trust", "--no-sync")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='{home}' -c fsync=off"
    run(control, "-D", data, "-w", "-l", str(home / "log"), "-o", options, "start")
    yield f"postgresql+psycopg://me:secret@127.0.0.1:{port}/postgres"
    run(control, "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(home)


@NEEDS_SERVER
@pytest.mark.deep
def test_two_processes_share_a_study_in_postgresql(server, search, tmp_path, capsys):
    shared = {"trials": 5, "only": ("lr", "d_model"), "storage": server, "study": "shared"}
    options = f"-m {MODEL} --trials 5 --profile quick --only lr --only d_model --study shared --out one"
    command = [sys.executable, "-m", "nacre", "tune", "tiny.toml", *options.split(), "--storage", server]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as other:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "one").rglob("log.csv")):  # until the other process is in its first trial
            assert other.poll() is None, other.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run_tuning(replace(search, **shared, out=tmp_path / "two"))
        said = [*other.communicate(timeout=240), *capsys.readouterr()]
    assert other.returncode == 0, said
    study = optuna.load_study(study_name="shared", storage=_storage(server))
    over = [t for t in study.trials if outcome(t) in ("finished", "pruned")]
    assert len(over) in (5, 6)  # both may have asked for the last one
    assert "trial " in said[0]  # both took part
    assert "trial " in said[2]
    assert "secret" not in "".join(said)
    # A process that comes later finds all trials, has nothing to do, and gets the same best recipe.
    best = min(study.trials, key=lambda t: t.value).params["lr"]
    assert run_tuning(replace(search, **shared, out=tmp_path / "three")).best_params["lr"] == best
    assert f"lr = {best}" in (tmp_path / "three" / f"tiny-tuned-{MODEL}.toml").read_text()
    assert not list((tmp_path / "three").rglob("log.csv"))


@NEEDS_SERVER
@pytest.mark.slow
def test_a_study_in_postgresql_of_another_search_and_an_unknown_database_are_named(server, search):
    run_tuning(replace(search, trials=1, storage=server, study="mine"))
    with pytest.raises(ValueError, match=r"study 'mine' in postgresql.*:\*\*\*@.*another search: d_model was"):
        run_tuning(replace(search, trials=1, storage=server, study="mine", only=("lr",)))
    with pytest.raises(ValueError, match=r"me:\*\*\*@127.0.0.1:\d+/nothere cannot be used: .*nothere") as error:
        run_tuning(replace(search, storage=server.replace("/postgres", "/nothere")))
    assert "secret" not in str(error.value)


def test_a_server_that_does_not_answer_is_named_without_its_password(search):
    url = f"postgresql+psycopg://me:secret@127.0.0.1:{free_port()}/x"
    with pytest.raises(ValueError, match=r"storage postgresql\+psycopg://me:\*\*\*@127.*cannot be used") as error:
        run_tuning(replace(search, storage=url))
    assert "secret" not in str(error.value)
