"""Several processes on this machine: the same command again, under torchrun."""

import logging
import os
import shlex
import signal
import socket
import sys
import uuid

from nacre.train.scale.options import Processes

INTERRUPTED = 130  # exit code of Ctrl-C


def needs_launch(processes: Processes) -> bool:
    """Whether the processes that a command asks for are still to be started."""
    return processes.size > 1 and not under_torchrun()


def under_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def end_with_parent() -> None:
    """Let the kernel end this process when torchrun dies, even if it is killed."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def launch(processes: Processes) -> int:
    """Run this very command in several processes, and wait for them; returns the first exit code that is not 0.

    Raises:
        ValueError: If it asks for several nodes, which each need a command of their own.
    """
    import torch
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if processes.nodes > 1:
        raise ValueError(f"--nodes {processes.nodes} needs torchrun on each of them; {_torchrun(processes)}")
    if torch.cuda.is_available() and processes.devices > torch.cuda.device_count():
        raise ValueError(
            f"--devices {processes.devices} asks for more GPUs than this machine has, {torch.cuda.device_count()}"
        )
    _quiet()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes.devices,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,  # errors of cells do not end a process; interrupted cells resume with the next command
    )
    try:
        elastic_launch(config, sys.executable)("-u", "-m", "nacre", *sys.argv[1:])
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        return code if code >= 0 else 128 - code  # that of a signal, as in shells
    except (SignalException, KeyboardInterrupt):
        return INTERRUPTED
    return 0


def _quiet() -> None:
    """One thread for each process unless set otherwise; no log of torchrun; loopback where there is one."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if any(name == "lo" for _, name in socket.if_nameindex()):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    for name in list(logging.root.manager.loggerDict):  # each has a level of its own
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _torchrun(processes: Processes) -> str:
    words = ["torchrun", "--nnodes", str(processes.nodes), "--nproc-per-node", str(processes.devices)]
    words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "head-node:29500", "-m", "nacre", *sys.argv[1:]]
    return f"on every node, with the name of the first: {shlex.join(words)}"
