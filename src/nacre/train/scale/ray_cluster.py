"""Join a Ray cluster, or start one on this machine, without Ray's log and with timeouts. Needs ray.

`python -m nacre.train.scale.ray_cluster ADDRESS` is the probe: can a cluster be joined there? Ray itself waits for
minutes where something answers that is not Ray, and logs all the while.
"""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nacre._util.extras import how_to_install
from nacre.train.scale.options import Cluster

CONNECT = 5.0  # seconds for an address to answer
READY = "ready"  # the probe has imported Ray, which may take long, and its timeout starts
TIMEOUT = 15.0  # seconds for the probe to join
_CLIENT = "ray://"
_STORE = 100 * 2**20  # bytes of the object store on this machine: only results are sent
_LOCKED = "InvalidAuthToken"  # among what Ray writes when a cluster asks for a token


@contextmanager
def joined(cluster: Cluster) -> Iterator[None]:
    """Context in which this process is connected to a cluster; one that it started on this machine ends with it.

    Raises:
        ValueError: If there is no cluster at the address, or none that can run a single cell.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ValueError(f"--executor ray needs the package ray; {how_to_install('train,scale')}") from None
    if cluster.address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        _init(ray, "local", include_dashboard=False, object_store_memory=_STORE)
    else:
        _check_address(cluster.address)
        _init(ray, cluster.address)
    try:
        check_room(cluster, ray.nodes())
        yield
    finally:
        ray.shutdown()


def _init(ray: Any, address: str, **options: Any) -> None:  # noqa: ANN401 (a module, typed for its own decorators)
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)


def check_room(cluster: Cluster, nodes: list[dict[str, Any]]) -> None:
    """Refuse cells for which no node, as Ray describes them, is large enough.

    Example:
        >>> from nacre.train.scale.options import Cluster
        >>> check_room(Cluster(cpus=4), [{"Alive": True, "Resources": {"CPU": 2.0}}])
        Traceback (most recent call last):
        ValueError: --cpus 4 --gpus 0: no node of the cluster has so many; they have 2 CPUs and 0 GPUs
    """
    rooms = [node["Resources"] for node in nodes if node["Alive"]]
    sizes = sorted({(room.get("CPU", 0.0), room.get("GPU", 0.0)) for room in rooms}, reverse=True)
    if not any(cpus >= cluster.cpus and gpus >= cluster.gpus for cpus, gpus in sizes):
        have = ", ".join(f"{cpus:g} CPUs and {gpus:g} GPUs" for cpus, gpus in sizes) or "none that is alive"
        raise ValueError(
            f"--cpus {cluster.cpus} --gpus {cluster.gpus:g}: no node of the cluster has so many; they have {have}"
        )


def _check_address(address: str) -> None:
    """Refuse an address where no cluster can be joined."""
    if address != "auto":
        _connect(address)
    wrong = what_is_wrong(address)
    if wrong:
        hint = (
            "is one running on this machine? `ray start --head` starts it"
            if address == "auto"
            else "this machine must be part of the cluster (`ray start --address`), or the address that of its "
            "client server, ray://host:10001"
        )
        raise ValueError(f"no Ray cluster can be joined at {address}: {wrong.rstrip('.')}; {hint}")


def _connect(address: str) -> None:
    """Refuse an address where nothing answers, before Ray waits for it."""
    host, colon, port = address.removeprefix(_CLIENT).rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"address must be host:port, auto or ray://host:port, got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT).close()
    except OSError as error:
        raise ValueError(
            f"nothing answers at {address} ({error}); `ray status` on the head node says whether it runs, and "
            "a firewall may be in between"
        ) from None


def what_is_wrong(address: str) -> str:
    """Why no cluster can be joined at an address, found out in another process; empty if one can."""
    command = [sys.executable, "-m", "nacre.train.scale.ray_cluster", address]
    # Without a buffer: one would take what comes after the first line, and communicate would never see it.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as probe:
        assert probe.stdout is not None
        probe.stdout.readline()
        try:
            said, noise = (text.decode(errors="replace") for text in probe.communicate(timeout=TIMEOUT))
        except subprocess.TimeoutExpired:
            probe.kill()
            said = f"something answers there, but not as Ray does within {TIMEOUT:.0f} seconds"
            noise = probe.communicate()[1].decode(errors="replace")
        except BaseException:
            probe.kill()
            raise
    if probe.returncode == 0:
        return ""
    if _LOCKED in noise:
        return "it asks for a token; export RAY_AUTH_MODE=token, and have the cluster's token on this machine"
    return said.strip() or "Ray gave up without a word"


def main() -> None:
    """Try to join, and say in one line what went wrong."""
    import ray

    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    try:
        _init(ray, sys.argv[1])
    except Exception as error:  # Ray has many of its own, and lets those of grpc through
        sys.stdout.write(" ".join(str(error).split())[:300] or type(error).__name__)
        sys.exit(1)
    ray.shutdown()


if __name__ == "__main__":
    main()
