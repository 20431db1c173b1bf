"""What can influence what, and in how many steps, in a wiring that settles from rest."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Liveness:
    """The parts of a circuit that can change its outputs; everything else is dropped exactly.

    Attributes:
        neurons: [N] bool, neurons whose state can influence an output.
        inputs: [I] bool, inputs that can.
        input_synapses: [I, N] bool.
        synapses: [N, N] bool.
    """

    neurons: np.ndarray
    inputs: np.ndarray
    input_synapses: np.ndarray
    synapses: np.ndarray


def steps_to_outputs(input_adjacency: np.ndarray, adjacency: np.ndarray, outputs: tuple[int, ...]) -> int:
    """Settle steps until every output neuron has seen the input.

    Raises:
        ValueError: If there is no output neuron, or one that no input can reach.
    """
    if not outputs:
        raise ValueError("the wiring has no output neurons; name at least one neuron 'motor'")
    reached = (input_adjacency != 0).any(axis=0)
    links = adjacency != 0
    first = np.where(reached, 1, 0)  # step at which a neuron first sees the input, 0 = not yet
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
    input_adjacency: np.ndarray,
    adjacency: np.ndarray,
    outputs: tuple[int, ...],
    steps: int,
    *,
    bias: bool = True,
) -> Liveness:
    """Exact dynamic programme over the settle steps.

    A synapse i -> j at step m carries x_i of step m-1 into x_j of step m, so it acts if x_i can be non-zero by
    then and an output lies exactly `steps - m` steps behind j. The state at step 0 is zero, so no recurrent
    synapse acts at step 1.
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
    return Liveness(
        neurons=neurons,
        inputs=input_synapses.any(axis=1),
        input_synapses=input_synapses,
        synapses=synapses & links,
    )
