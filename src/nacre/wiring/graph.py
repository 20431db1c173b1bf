"""Which neurons influence which, and in how many steps, in a wiring that settles from rest."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Liveness:
    """The parts of a circuit that can change its outputs; without the others it gives the same outputs."""

    neurons: np.ndarray  # [N] bool
    input_synapses: np.ndarray  # [I, N] bool
    synapses: np.ndarray  # [N, N] bool


def steps_to_outputs(input_adjacency: np.ndarray, adjacency: np.ndarray, outputs: tuple[int, ...]) -> int:
    """Settle steps until the input has reached every output neuron."""
    if not outputs:
        raise ValueError("the wiring has no output neurons; name at least one neuron 'motor'")
    reached = (input_adjacency != 0).any(axis=0)
    links = adjacency != 0
    first = np.where(reached, 1, 0)  # step at which the input reaches a neuron, 0 = not yet
    for step in range(2, len(adjacency) + 1):
        fresh = links[reached].any(axis=0) & ~reached
        if not fresh.any():
            break
        first[fresh] = step
        reached |= fresh
    unreachable = [i for i in outputs if not reached[i]]
    if unreachable:
        raise ValueError(
            f"output neurons {unreachable} cannot be reached from any input; add synapses on the way to them"
        )
    return int(first[list(outputs)].max())


def liveness(
    input_adjacency: np.ndarray, adjacency: np.ndarray, outputs: tuple[int, ...], steps: int, *, bias: bool = True
) -> Liveness:
    """Exact dynamic programming over the settle steps.

    A synapse i -> j at step m carries x_i of step m-1 into x_j of step m, so it acts if x_i can be non-zero by
    then and a path of exactly `steps - m` synapses leads from j to an output. The state at step 0 is zero, so no
    recurrent synapse acts at step 1.
    """
    links, feeds = adjacency != 0, input_adjacency != 0
    n = len(adjacency)
    # awake[m]: neurons that can be non-zero at step m.
    entry = np.ones(n, bool) if bias else feeds.any(axis=0)
    awake = [np.zeros(n, bool), entry]
    for _ in range(2, steps + 1):
        awake.append(entry | links[awake[-1]].any(axis=0))
    # target[m]: neurons whose state at step m can influence an output at the last step.
    target = [np.zeros(n, bool) for _ in range(steps + 1)]
    target[steps][list(outputs)] = True
    for m in range(steps - 1, 0, -1):
        target[m] = links[:, target[m + 1]].any(axis=1)

    neurons, synapses = np.zeros(n, bool), np.zeros((n, n), bool)
    for m in range(1, steps + 1):
        neurons |= target[m] & awake[m]
        synapses |= np.outer(awake[m - 1], target[m])
    input_synapses = feeds & np.logical_or.reduce(target)
    return Liveness(neurons, input_synapses, synapses & links)
