"""The grid on Ray without a cluster: what a worker does with a cell, and what is refused before any is run."""

import os
import socket
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from nacre.data import from_arrays
from nacre.tasks.recipe import load_recipe
from nacre.tasks.task import load_task
from nacre.train.grid import run_grid
from nacre.train.scale import ray_cluster, ray_grid, ray_worker
from nacre.train.scale.options import Cluster
from nacre.train.scale.ray_cluster import check_room
from nacre.train.scale.ray_worker import CellOutcome, Setup, job_of, run_job
from support.train import cell, free_port, on, result_of, task_of, tiny

SOURCE = Path(__file__).parents[2] / "src"
# Ray leaves sockets and files of its own to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


# What a worker does.


@pytest.fixture
def setup(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", list(sys.argv))
    monkeypatch.setattr(ray_worker, "_tasks", {})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "before"))
    return Setup(None, 1, 0.0, ("nacre", "train", "far away"), {"NACRE_CACHE": str(tmp_path / "elsewhere")})


def one_cell(tmp_path, **changes):
    return cell(load_task(load_recipe(tiny(tmp_path).tasks[0])), tmp_path / "runs", **changes)


def test_a_worker_runs_a_cell_under_the_name_and_settings_of_the_driver(tmp_path, setup):
    one = one_cell(tmp_path)
    done = run_job(job_of(one), setup)
    assert done.error == ""
    assert done.result == result_of(one.directory)
    assert done.result["provenance"]["command"] == "nacre train 'far away'"
    assert os.environ["NACRE_CACHE"] == str(tmp_path / "elsewhere")


def test_a_worker_reads_the_data_of_a_recipe_once_and_that_of_another_folder_again(tmp_path, setup, monkeypatch):
    read = []
    monkeypatch.setattr(ray_worker, "load_task", lambda *args: read.append(args) or load_task(*args))
    for fold in range(3):
        assert run_job(job_of(one_cell(tmp_path, fold=fold, model="mean")), setup).result is not None
    assert len(read) == 1
    run_job(job_of(one_cell(tmp_path, seed=1, model="mean")), replace(setup, data_dir=str(tmp_path)))
    assert len(read) == 2


def test_files_of_the_same_name_in_two_folders_are_two_data_sets(tmp_path, setup):
    digests = []
    for name, value in (("one", 1.0), ("two", 5.0)):
        place = tmp_path / name
        place.mkdir()
        rows = [f"{i},{t},{value * t + i},{i % 2}" for i in range(9) for t in range(4)]
        (place / "data.csv").write_text("\n".join(["id,t,x,y", *rows]))
        table = '[data]\ncsv = "data.csv"\ntime = "t"\ngroup = "id"\ntarget = "y"\nkind = "classification"\n'
        (place / "own.toml").write_text(table)
        one = cell(load_task(load_recipe(place / "own.toml")), place / "runs", "linear")
        done = run_job(job_of(one), setup)
        assert done.error == ""
        digests.append(done.result["data"]["digest"])
    assert digests[0] != digests[1]


def test_a_worker_says_what_is_wrong_and_never_raises(tmp_path, setup):
    one = one_cell(tmp_path)
    old = run_job(job_of(one), replace(setup, version="0.0.1"))
    assert "not 0.0.1; install the same everywhere" in old.error
    other = run_job(replace(job_of(one), fingerprint="of other data"), setup)
    assert "has other data for tiny; all nodes need the same files" in other.error
    assert "no such model" in run_job(replace(job_of(one), model="no such model"), setup).error
    assert not (one.directory / "result.json").exists()


def test_a_cell_that_is_held_is_neither_done_nor_wrong(tmp_path, setup):
    one = one_cell(tmp_path)
    one.directory.mkdir(parents=True)
    with one.lock():
        done = run_job(job_of(one), setup)
    assert (done.result, done.error) == (None, "")


def test_a_job_is_small_however_large_its_data_is(tmp_path):
    import pickle

    x = [[[float(i)]] * 500 for i in range(60)]
    one = cell(task_of(from_arrays(x, [float(i) for i in range(60)], name="large")), tmp_path)
    assert len(pickle.dumps(job_of(one))) < 3_000


# What is refused, without a cluster.


def test_a_cell_must_fit_into_one_living_node():
    rooms = [(True, {"CPU": 4.0}), (True, {"CPU": 2.0, "GPU": 1.0}), (False, {"CPU": 8.0, "GPU": 8.0})]
    nodes = [{"Alive": alive, "Resources": room} for alive, room in rooms]
    for fits in (Cluster(), Cluster(cpus=4), Cluster(cpus=2, gpus=0.5)):
        check_room(fits, nodes)
    for large in (Cluster(cpus=5), Cluster(cpus=3, gpus=0.5), Cluster(cpus=8)):
        with pytest.raises(ValueError, match="no node .* so many; they have 4 CPUs and 0 GPUs, 2 CPUs and 1 GPUs"):
            check_room(large, nodes)


@pytest.mark.parametrize("gpus", [-0.1, 1.5])
def test_a_cell_takes_one_gpu_at_most(gpus):
    with pytest.raises(ValueError, match="gpus must lie in"):
        Cluster(gpus=gpus)


def test_an_address_where_nothing_answers_is_named_before_anything_is_run(tmp_path):
    grid = tiny(tmp_path)
    for form in ("127.0.0.1:%d", "ray://127.0.0.1:%d", "localhost:%d"):
        address = form % free_port()
        with pytest.raises(ValueError, match=f"nothing answers at {address} .*refused"):
            run_grid(on(grid, address))
    assert not grid.out.exists()


def test_what_is_no_address_is_refused(tmp_path):
    wanted = "address must be host:port, auto or ray://host:port, got"
    for address in ("head-node", ":6379", "head:port", "ray://", "head:0", "head:70000"):
        with pytest.raises(ValueError, match=f"{wanted} '{address}'"):
            run_grid(on(tiny(tmp_path), address))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install .* '\.\[train,scale\]'"):
        run_grid(on(tiny(tmp_path), None))


FAKE_RAY = """
import time

def init(address, **options):
    if address == "hangs:1":
        time.sleep(60)
    if address == "fails:1":
        raise RuntimeError("no   such cluster")

def shutdown():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "timeout", "wanted"),
    [
        ("hangs:1", 0.5, "something answers there, but not as Ray does within 0 seconds"),
        pytest.param("fails:1", 30.0, "no such cluster", marks=pytest.mark.deep),
    ],
)
def test_the_probe_says_in_a_line_what_is_wrong_and_gives_up_after_a_while(
    tmp_path, monkeypatch, address, timeout, wanted
):
    (tmp_path / "ray.py").write_text(FAKE_RAY)  # the real one takes seconds to import
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{SOURCE}")
    monkeypatch.setattr(ray_cluster, "TIMEOUT", timeout)
    assert ray_cluster.what_is_wrong(address) == wanted


@pytest.mark.deep
def test_a_server_that_is_not_ray_is_given_up_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_cluster, "TIMEOUT", 2.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:  # takes calls, says nothing
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"joined at {address}: something answers there, but not as Ray"):
            run_grid(on(tiny(tmp_path), address))


def test_a_result_that_cannot_be_seen_from_here_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_grid, "_VISIBLE", 0.0)
    told = []

    class Report:
        def failed(self, one, why):
            told.append(why)

    one = one_cell(tmp_path)
    ray_grid._tell(one, CellOutcome("node-7", {"value": 1.0}), Report())
    (why,) = told
    assert why.startswith(f"node-7 has written {one.directory}/result.json, but it is not there on this machine")
    assert "file system that all nodes see" in why
