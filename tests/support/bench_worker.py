"""Stands in for a worker, without torch: what becomes of it depends on the name of the model."""

import json
import os
import signal
import sys
import time

request = json.loads(sys.stdin.read())
entry, action = request["entry"], request["action"]
name, _, which = entry["model"].partition("@")  # "sleeper@step" misbehaves in training steps only
if log := os.environ.get("BENCH_TEST_LOG"):
    with open(log, "a") as file:
        file.write(f"{entry['model']} {entry['length']} {action}\n")


def say(part):
    sys.stdout.write(json.dumps(part) + "\n")
    sys.stdout.flush()


def times(rounds):
    seconds = 1e-6 * entry["length"] ** 1.5
    say(
        {
            "seconds": seconds,
            "spread": seconds / 10,
            "rounds": rounds,
            "ratio": 2.0 if request["reference"] else None,
        }
    )


say({"parameters": 10})
say({"peak_bytes": 100_000_000 + 1000 * entry["length"], "added_bytes": 1000 * entry["length"]})
if which in ("", action):
    if name == "sleeper":
        times(1)
        sys.stdout.write('{"seconds": 1')  # a line that is never finished
        sys.stdout.flush()
        os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "600")  # a child of its own, which must not survive
        time.sleep(600)
    if name == "late":  # has done its work but does not end
        times(3)
        time.sleep(600)
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "aborted":
        os.kill(os.getpid(), signal.SIGABRT)
    if name == "failing":
        raise RuntimeError("no such luck")
    if name == "greedy" and entry["length"] > 100:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes.")
    if name == "memoryless":
        raise MemoryError
    if name == "silent":
        sys.exit(0)
    if name == "interrupting":
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(600)
times(3)
