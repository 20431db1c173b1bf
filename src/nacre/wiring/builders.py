"""Generated wirings: the paper's sensory gate and backbone, and its alternatives."""

import math
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np

from nacre._util.budget import afford
from nacre.wiring.wiring import Wiring

DEFAULT_SEED = 22222  # that of ncps
MAX_SPARSITY = 0.95
DEFAULT_SETTLE_STEPS = 4  # inter -> command -> command -> motor: every synapse of an NCP carries signal
_AUTO_NCP_MIN_SPARSITY = 0.1


class WiringKind(StrEnum):
    """How a generated wiring is drawn."""

    NCP = "ncp"
    """Neuronal circuit policy: inputs -> inter -> command (recurrent) -> motor, as in C. elegans."""
    RANDOM = "random"
    """Any neuron to any other, each synapse with probability 1 - sparsity."""
    DENSE = "dense"
    """Every possible synapse; `sparsity` has no meaning here."""
    MLP = "mlp"
    """Two fully connected feed-forward layers, thinned by a fixed random mask where sparsity > 0."""


def check_size(inputs: int, units: int) -> None:
    """Refuse to draw a wiring that the weights of a file cannot belong to: a sixteenth of it must be there."""
    afford("the wiring", (inputs + units) * units // 16)


@lru_cache(maxsize=128)
def sensory_wiring(kind: str, inputs: int, d_model: int, sparsity: float, seed: int) -> Wiring:
    """Wiring of a sensory gate: `inputs` features onto `d_model` sensory neurons.

    For "ncp" it is AutoNCP with the paper's ceil((d_model - 0.5) / 0.6) units and no motor neuron, whose first
    layer has d_model neurons: the sensory group of the paper.

    Example:
        >>> sensory_wiring("ncp", inputs=7, d_model=64, sparsity=0.5, seed=1)
        Wiring(ncp: 7 inputs, sensory 64, command 42, 1612 synapses)
    """
    kind = WiringKind(kind)
    if kind is WiringKind.NCP:
        units = math.ceil((d_model - 0.5) / 0.6)
        check_size(inputs, units)
        built = Wiring.from_ncps(_ncp(units, 0, sparsity, seed), inputs)
        groups = tuple("sensory" if g == "inter" else g for g in built.groups)
        return Wiring(built.adjacency, built.input_adjacency, groups, kind)
    check_size(inputs, d_model)
    rng = np.random.default_rng(seed)
    density = 1.0 if kind is WiringKind.DENSE else 1.0 - sparsity
    mask = _random_layer(rng, inputs, d_model, density)
    return Wiring(np.zeros((d_model, d_model)), mask, ("sensory",) * d_model, kind)


def default_backbone_units(d_model: int) -> int:
    """Neurons of the paper's backbone: d_model + floor(d_model / 0.6)."""
    return d_model + math.floor(d_model / 0.6)


@lru_cache(maxsize=128)
def backbone_wiring(kind: str, inputs: int, units: int, sparsity: float, seed: int, motors: int = 2) -> Wiring:
    """Wiring of the backbone: `inputs` = 2D numbers of a query-key pair onto two or more motor neurons.

    Example:
        >>> backbone_wiring("ncp", inputs=32, units=default_backbone_units(64), sparsity=0.5, seed=1)
        Wiring(ncp: 32 inputs, inter 101, command 67, motor 2, 5081 synapses)
    """
    kind = WiringKind(kind)
    check_size(inputs, units)
    if kind is WiringKind.MLP:
        return _mlp(inputs, units, motors, sparsity, seed)
    import ncps.wirings  # keeps `import nacre` light

    if kind is WiringKind.NCP:
        source: Any = _ncp(units, motors, sparsity, seed)
    elif kind is WiringKind.DENSE:
        source = ncps.wirings.FullyConnected(units, motors, erev_init_seed=seed)
    else:
        source = ncps.wirings.Random(units, motors, sparsity_level=sparsity, random_seed=seed)
    built = Wiring.from_ncps(source, inputs)
    feeds = built.input_adjacency
    if kind is WiringKind.RANDOM:
        feeds = _reconnect(built, np.random.default_rng(seed))
    return Wiring(built.adjacency, feeds, built.groups, kind)


def _ncp(units: int, outputs: int, sparsity: float, seed: int) -> Any:  # noqa: ANN401  ncps has no types
    from ncps.wirings import NCP, AutoNCP

    if sparsity >= _AUTO_NCP_MIN_SPARSITY:
        return AutoNCP(units, outputs, sparsity_level=sparsity, seed=seed)
    # AutoNCP refuses lower sparsities, so spell out its rule for the sizes and fan-outs.
    command = max(int(0.4 * (units - outputs)), 1)
    inter = units - outputs - command
    fan = {n: max(int(n * (1.0 - sparsity)), 1) for n in (inter, command)}
    recurrent = max(int(command * (1.0 - sparsity) * 2), 1)
    return NCP(inter, command, outputs, fan[inter], fan[command], recurrent, fan[command], seed=seed)


def _mlp(inputs: int, units: int, motors: int, sparsity: float, seed: int) -> Wiring:
    hidden = units - motors
    rng = np.random.default_rng(seed)
    feeds, adjacency = np.zeros((inputs, units)), np.zeros((units, units))
    # Motor neurons first, as in ncps.
    feeds[:, motors:] = _random_layer(rng, inputs, hidden, 1.0 - sparsity)
    adjacency[motors:, :motors] = _random_layer(rng, hidden, motors, 1.0 - sparsity)
    return Wiring(adjacency, feeds, ("motor",) * motors + ("inter",) * hidden, WiringKind.MLP)


def _random_layer(rng: np.random.Generator, rows: int, columns: int, density: float) -> np.ndarray:
    """Random signed mask of the wanted density without an empty row or column."""
    flat = np.zeros(rows * columns, dtype=np.int8)
    chosen = rng.choice(flat.size, size=max(round(flat.size * density), 1), replace=False)
    flat[chosen] = rng.choice([-1, 1], size=chosen.size)
    mask = flat.reshape(rows, columns)
    for row in np.flatnonzero(~mask.any(axis=1)):
        mask[row, rng.integers(columns)] = rng.choice([-1, 1])
    for column in np.flatnonzero(~mask.any(axis=0)):
        mask[rng.integers(rows), column] = rng.choice([-1, 1])
    return mask


def _reconnect(wiring: Wiring, rng: np.random.Generator) -> np.ndarray:
    """Input synapses with which every motor neuron can be reached and every input has an effect."""
    feeds = wiring.input_adjacency.copy()
    motor = wiring.group("motor")
    reached = (feeds != 0).any(axis=0)
    alive = np.zeros(wiring.num_neurons, bool)  # has a path to a motor neuron within the default settle steps
    alive[list(motor)] = True
    for _ in range(wiring.num_neurons):
        reached |= (wiring.adjacency[reached] != 0).any(axis=0)
    for _ in range(DEFAULT_SETTLE_STEPS - 1):
        alive |= (wiring.adjacency[:, alive] != 0).any(axis=1)
    for neuron in (m for m in motor if not reached[m]):
        feeds[rng.integers(len(feeds)), neuron] = rng.choice([-1, 1])
    for source in np.flatnonzero(~(feeds[:, alive] != 0).any(axis=1)):
        feeds[source, rng.choice(np.flatnonzero(alive))] = rng.choice([-1, 1])
    return feeds
