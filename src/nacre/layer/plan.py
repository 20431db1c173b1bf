"""How much memory a layer will take, and how many queries it works on at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nacre._util.checks import real, whole
from nacre.native.circuit import ACTIVATION_CODES
from nacre.native.library import library

if TYPE_CHECKING:
    from nacre.layer.attention import NAC

SCALARS = 16  # gates, logits and weights of a pair, and what lies between
_CHUNK_NUMBERS = 2**21  # of a chunk of pairs: 8 MB in float32, about what a core's caches hold
_INDEX_BYTES = 18  # of a pair: position of its key and whether there is one, in two orders


@dataclass(frozen=True)
class Plan:
    """What a layer takes at one size.

    Attributes:
        chunk: Query rows that are worked on at a time.
        forward: Bytes that a forward pass without gradients takes at its peak, beside weights and inputs.
        training: Bytes that a forward and backward pass takes.
        kernels: Whether the compiled kernels will run.
    """

    chunk: int
    forward: int
    training: int
    kernels: bool

    def __str__(self) -> str:
        """Sizes in words."""
        by = "compiled kernels" if self.kernels else "PyTorch alone"
        return (
            f"{self.chunk:,} queries at a time by {by}: forward {_size(self.forward)}, "
            f"training {_size(self.training)}"
        )


@dataclass(frozen=True)
class _Share:
    """What a pass holds at its peak."""

    widths: int  # numbers of a token in units of d_model: queries, keys, values, outputs and their gradients
    drives: int  # in units of the circuit's inputs: those of queries and keys, and their gradients
    pair: float  # numbers of a pair, beside its index
    chunks: float  # numbers of a chunk, in units of _CHUNK_NUMBERS


# Counted from the code, and set right by measurements: tests/layer/test_plan.py compares with the kernel's own account.
_SHARES = {
    ("forward", True): _Share(widths=5, drives=2, pair=6.5, chunks=1.5),
    ("training", True): _Share(widths=12, drives=4, pair=16, chunks=10),
    ("forward", False): _Share(widths=5, drives=2, pair=0.5, chunks=4.5),
    ("training", False): _Share(widths=12, drives=6, pair=0.5, chunks=22),
}


def plan(batch: int, length: int, layer: NAC, *, valid: float = 1.0) -> Plan:
    """Predict the peak memory of self attention on the CPU: within 30 %, where queries have some K keys each.

    With all pairs or exact selection the figure counts the tensors, but the process may take several times as
    much: the heap keeps holes between them.

    Args:
        batch: Sequences B.
        length: Steps T of each.
        layer: Any `nacre.NAC`.
        valid: Share of the steps that is not padding.

    Example:
        >>> layer = NAC(d_model=64, num_heads=4)
        >>> plan(1, 65536, layer).training < 1.5e9
        True
    """
    whole("batch", batch, 1)
    whole("length", length, 1)
    real("valid", valid, 0.0, 1.0)
    if not hasattr(layer, "backbone"):  # a stack takes what its layers take, one by one
        raise TypeError(
            f"layer must be a nacre.NAC, got {type(layer).__name__}; of a stack, plan one of its layers"
        )
    config, item = layer.config, layer.out_proj.weight.element_size()
    kernels = library() is not None and item >= 4 and config.activation in ACTIVATION_CODES
    columns = length if config.top_k is None else config.top_k
    inputs = len(layer.backbone.projected)
    rows = round(batch * length * valid)
    width = SCALARS if kernels else inputs
    chunk = chunk_rows(config.num_heads, columns, width)
    pairs = rows * config.num_heads * columns
    busy = min(rows, chunk) * config.num_heads * columns * width  # numbers of a chunk
    padded = batch * length * (config.width + 6 * config.d_model) if valid < 1 else 0

    def bytes_of(share: _Share) -> int:
        tokens = rows * (share.widths * config.d_model + share.drives * config.num_heads * inputs)
        numbers = tokens + share.pair * pairs + share.chunks * busy + padded
        return round(item * numbers + _INDEX_BYTES * pairs)

    return Plan(
        chunk=min(rows, chunk),
        forward=bytes_of(_SHARES["forward", kernels]),
        training=bytes_of(_SHARES["training", kernels]),
        kernels=kernels,
    )


def chunk_rows(heads: int, columns: int, width: int) -> int:
    """Query rows to work on at a time, where each of their pairs takes `width` numbers."""
    return max(1, _CHUNK_NUMBERS // (heads * columns * width))


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
