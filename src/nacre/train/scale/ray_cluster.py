"""Join a Ray cluster, or make one on this machine, without noise and without hanging. Needs ray."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nacre.train.scale.options import Cluster
from nacre.train.scale.ray_probe import what_is_wrong

CONNECT = 5.0  # seconds for an address to answer
_CLIENT = "ray://"
_STORE = 100 * 2**20  # bytes for objects on this machine: only results travel


@contextmanager
def joined(cluster: Cluster) -> Iterator[None]:
    """Be part of a cluster. One that was made for it on this machine ends with it.

    Raises:
        ValueError: If there is no cluster at the address, or none that can run a single cell.
    """
    ray = _import_ray()
    if cluster.address is None:
        _start_here(ray)
    else:
        _connect(ray, cluster.address)
    try:
        check_room(cluster, ray.nodes())
        yield
    finally:
        ray.shutdown()


def check_room(cluster: Cluster, nodes: list[dict[str, Any]]) -> None:
    """Refuse cells for which no node is large enough.

    Args:
        cluster: What a cell asks for.
        nodes: What Ray says of its nodes.

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


def _import_ray() -> Any:  # noqa: ANN401 (a module, whose functions are typed for its own decorators)
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ValueError("--executor ray needs the package ray; pip install 'nacre[scale]'") from None
    return ray


def _start_here(ray: Any) -> None:  # noqa: ANN401
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=_STORE,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def _connect(ray: Any, address: str) -> None:  # noqa: ANN401
    if address != "auto":
        _reach(address)
    wrong = what_is_wrong(address)
    if wrong:
        hint = (
            "is one running on this machine? `ray start --head` starts it"
            if address == "auto"
            else "this machine must be part of the cluster (`ray start --address`), or the address that of its "
            "client server, ray://host:10001"
        )
        raise ValueError(f"no Ray cluster can be joined at {address}: {wrong.rstrip('.')}; {hint}")
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)


def _reach(address: str) -> None:
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
