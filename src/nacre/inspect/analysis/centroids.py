"""`centroids`: the mean of each group of neurons over time, as in the paper's figures of neural activity."""

import numpy as np
from numpy.typing import NDArray

from nacre.inspect.analysis.labels import layer_of
from nacre.inspect.recording.hooks import check_index
from nacre.inspect.recording.recording import Recording

_READ = 2**13  # steps at a time


def centroids(
    recording: Recording, sample: int, layer: str | None = None, head: int = 0
) -> dict[str, NDArray[np.float32]]:
    """Mean, smallest and largest state of each group at each step of a sample.

    Steps are read a block at a time. The name of the layer may be left out if there is only one.

    Returns:
        "query", "key", "value", "clock" if there are any, "inter", "command" and "motor" -> [T, 3]: mean, smallest
        and largest. States of the circuit are means over the attended keys by attention weight, as in the array
        `states`.

    Raises:
        ValueError: If there is no such sample or head.

    Example:
        >>> from nacre.inspect import record
        >>> recording = record(NAC(16, 2), torch.randn(1, 60, 16), out=tmp / "look")
        >>> found = centroids(recording, 0, head=1)
        >>> list(found), found["inter"].shape
        (['query', 'key', 'value', 'inter', 'command', 'motor'], (60, 3))
    """
    chosen = layer_of(recording, layer)
    check_index("sample", sample, recording.samples)
    check_index("head", head, chosen.heads)
    states, steps = chosen.array("states"), chosen.length(sample)
    groups = {group: size for group, size in chosen.sizes.items() if size}
    starts = np.cumsum([0, *groups.values()])[:-1]
    size = np.array(list(groups.values()), np.float32)
    found = np.empty((steps, len(groups), 3), np.float32)
    for i in range(0, steps, _READ):
        rows = np.asarray(states[sample, i : min(i + _READ, steps), head], np.float32)  # [n, neurons]
        part = found[i : i + len(rows)]
        part[..., 0] = np.add.reduceat(rows, starts, 1) / size
        part[..., 1] = np.minimum.reduceat(rows, starts, 1)
        part[..., 2] = np.maximum.reduceat(rows, starts, 1)
    return {group: found[:, i] for i, group in enumerate(groups)}
