"""Runs one worker with a timeout, and turns the outcome, whatever it is, into a cost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import IO, Any

from nacre.bench.record import FAILED, MIN_ROUNDS, OK, OUT_OF_MEMORY, OUT_OF_TIME, Cost
from nacre.bench.worker import Request

WORKER = (sys.executable, "-m", "nacre.bench.worker")
_NO_MEMORY = ("MemoryError", "can't allocate memory", "not enough memory", "Cannot allocate memory", "bad_alloc")
_LONGEST_NOTE = 300
_KILL = getattr(signal, "SIGKILL", 9)  # Windows has no such name


def run_worker(request: Request, time_limit: float) -> tuple[Cost, int | None]:
    """Measure one action of one entry in a process of its own, which is killed after `time_limit` seconds.

    Returns:
        The cost, with whatever was measured before an early end, and the number of parameters if it is known.
    """
    with tempfile.TemporaryFile() as errors, _start(request, errors) as process:
        in_time = True
        try:
            answer, _ = process.communicate(request.to_json(), timeout=time_limit)
        except subprocess.TimeoutExpired:
            in_time = False
            _kill(process)
            answer, _ = process.communicate()
        finally:
            if process.returncode is None:  # Ctrl-C, or an error of ours
                _kill(process)
        errors.seek(0)
        message = errors.read().decode(errors="replace")
    parts = _parts(answer)
    parameters = parts.pop("parameters", None)
    complete = parts.get("rounds", 0) >= MIN_ROUNDS
    if in_time:
        state, note = _verdict(process.wait(), message, complete=complete)
    else:
        state, note = OK if complete else OUT_OF_TIME, ""
    return Cost(**{**parts, "state": state, "note": note or parts.get("note", "")}), parameters


def _start(request: Request, errors: IO[bytes]) -> subprocess.Popen[str]:
    environment = dict(os.environ)
    if request.threads is not None:  # libraries read these when they are loaded
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(request.threads))
    return subprocess.Popen(
        WORKER,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment,
        start_new_session=True,  # a process group of its own, so that its children are killed with it
    )


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, _KILL)
        else:
            process.kill()
    process.wait()


def _parts(answer: str) -> dict[str, Any]:
    """All parts as one; of times, those after the last round. A line that was cut off is ignored."""
    parts: dict[str, Any] = {}
    for line in answer.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            parts |= json.loads(line)
    return parts


def _verdict(code: int, message: str, *, complete: bool) -> tuple[str, str]:
    """State and note for a worker that ended by itself."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    last = lines[-1][:_LONGEST_NOTE] if lines else ""
    if code == 0:
        return (OK, "") if complete else (FAILED, "the worker ended without an answer")
    if code == -_KILL:
        return OUT_OF_MEMORY, "the system ended the process"
    if any(sign in last for sign in _NO_MEMORY):
        return OUT_OF_MEMORY, last
    if code < 0:
        return FAILED, f"ended by {signal.Signals(-code).name}" + (f": {last}" if last else "")
    return FAILED, last or f"exit code {code}"
