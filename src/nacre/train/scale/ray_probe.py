"""`python -m nacre.train.scale.ray_probe ADDRESS`: can a Ray cluster be joined there?

Ray waits for minutes where something answers that is not Ray, and fills the screen meanwhile.
"""

import logging
import subprocess
import sys

READY = "ready"  # Ray is imported, which may take long, and the clock starts
PATIENCE = 15.0  # seconds
_LOCKED = "InvalidAuthToken"  # among what Ray writes when a cluster asks for a token


def what_is_wrong(address: str) -> str:
    """Why no cluster can be joined at an address; empty if one can."""
    command = [sys.executable, "-m", "nacre.train.scale.ray_probe", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as probe:
        assert probe.stdout is not None
        probe.stdout.readline()
        said = f"something answers there, but not as Ray does within {PATIENCE:.0f} seconds"
        try:
            said, noise = probe.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            probe.kill()
            noise = probe.communicate()[1]
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
        ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray has many of its own, and lets those of grpc through
        sys.stdout.write(" ".join(str(error).split())[:300] or type(error).__name__)
        sys.exit(1)
    ray.shutdown()


if __name__ == "__main__":
    main()
