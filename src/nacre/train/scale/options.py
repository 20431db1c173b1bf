"""How a grid is distributed: cells over a Ray cluster, or each cell over several processes."""

from dataclasses import dataclass
from enum import StrEnum

from nacre._util.checks import real, whole


class Executor(StrEnum):
    """Who runs the cells of a grid."""

    SERIAL = "serial"  # this process, one after the other
    RAY = "ray"  # the workers of a Ray cluster, many at a time


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, and what a cell gets of it."""

    address: str | None = None  # host:port, auto or ray://host:port; None for a cluster of this machine alone
    cpus: int = 1  # of each cell
    gpus: float = 0.0  # of each cell; a share lets cells use one together

    def __post_init__(self) -> None:
        """Check."""
        whole("cpus", self.cpus, 1)
        real("gpus", self.gpus, 0.0, 1.0)  # a cell trains on one device
        if self.address is not None and not self.address.strip():
            raise ValueError("address must be host:port, auto or ray://host:port, got an empty one")


@dataclass(frozen=True)
class Processes:
    """The processes that train one cell together."""

    devices: int = 1  # processes on each node, each with a device of its own
    nodes: int = 1

    def __post_init__(self) -> None:
        """Check."""
        whole("devices", self.devices, 1)
        whole("nodes", self.nodes, 1)

    @property
    def size(self) -> int:
        """All processes."""
        return self.devices * self.nodes


@dataclass(frozen=True)
class Scale:
    """How a grid is distributed; by default one process does it all.

    Example:
        >>> Scale(Executor.RAY, processes=Processes(devices=2))
        Traceback (most recent call last):
        ValueError: --executor ray gives each cell one process, got --devices 2 --nodes 1; choose one of the two
    """

    executor: Executor = Executor.SERIAL
    cluster: Cluster = Cluster()
    processes: Processes = Processes()  # of each cell

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
        several = self.processes
        if self.executor is Executor.RAY and several.size > 1:
            raise ValueError(
                f"--executor ray gives each cell one process, got --devices {several.devices} "
                f"--nodes {several.nodes}; choose one of the two"
            )
        if self.executor is Executor.SERIAL and self.cluster != Cluster():
            raise ValueError("--address, --cpus and --gpus need --executor ray")
