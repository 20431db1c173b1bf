"""Measure on torch-nac 0.0.2 and on nacre what docs/differences.md says of them, into results/torch-nac.json.

torch-nac is never a dependency. To run this: pip install --no-deps torch-nac==0.0.2, then
python tools/compare_torch_nac.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
from measured import forward, in_turns, provenance, write_result
from torch import Tensor

import nacre

try:
    from torch_nac import NAC as TheirNAC  # pyright: ignore[reportMissingImports]
except ImportError:
    sys.exit("torch-nac is not installed; pip install --no-deps torch-nac==0.0.2")

SEED = 0


def theirs(**options: object) -> torch.nn.Module:
    """A torch-nac layer of the common size that returns all steps."""
    torch.manual_seed(SEED)
    return TheirNAC(64, 4, return_sequences=True, **options)


def ours(**options: object) -> nacre.NAC:
    """A nacre layer of the same size."""
    torch.manual_seed(SEED)
    return nacre.NAC(64, 4, **options)  # pyright: ignore[reportArgumentType]


def gates(x: Tensor) -> dict[str, dict[str, float]]:
    """Spread of phi and omega over all pairs."""
    layer = theirs()
    q, k = (layer.split_heads(p(x)) for p in (layer.q_proj, layer.k_proj))  # pyright: ignore[reportCallIssue]
    phi, omega, _, _ = layer.compute_phi_tau(q, k)  # pyright: ignore[reportCallIssue]
    _, trace = ours()(x, return_trace=True)
    return {
        "std of phi": {"torch-nac": phi.std().item(), "nacre": trace.phi[trace.valid].std().item()},
        "std of omega": {"torch-nac": omega.std().item(), "nacre": trace.omega[trace.valid].std().item()},
    }


def idle(layer: torch.nn.Module, x: Tensor) -> float:
    """Share of the parameters' numbers that get exactly no gradient."""
    layer(x).square().mean().backward()
    grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in layer.parameters()]
    return sum(int((g == 0).sum()) for g in grads) / sum(g.numel() for g in grads)


def sparsity_effect(make: Callable[..., torch.nn.Module], x: Tensor) -> float:
    """Largest change of the output between sparsity 0.2 and 0.9, under one seed."""
    return (make(sparsity=0.2)(x) - make(sparsity=0.9)(x)).abs().max().item()


def padding(x: Tensor) -> dict[str, dict[str, float]]:
    """Attention on padding, and what its content does to valid outputs, with the second half padded."""
    half = x.shape[1] // 2
    pad = torch.arange(x.shape[1])[None].expand(len(x), -1) >= half
    other = x.masked_fill(pad[..., None], 3.0)
    layer = theirs(return_attention=True)
    y, weights = layer(x, mask=(~pad).float())
    q, k = (layer.split_heads(p(x)) for p in (layer.q_proj, layer.k_proj))  # pyright: ignore[reportCallIssue]
    index = layer.compute_phi_tau(q, k)[3]  # pyright: ignore[reportCallIssue]
    changed = layer(other, mask=(~pad).float())[0] - y
    mine = ours()
    out, trace = mine(x, key_padding_mask=pad, return_trace=True)
    my_change = mine(other, key_padding_mask=pad) - out
    valid_rows = (~pad)[:, None, :, None]
    return {
        "attention on padding": {
            "torch-nac": (weights * (index >= half) * valid_rows).sum().item()
            / (weights * valid_rows).sum().item(),
            "nacre": (trace.weights * (trace.index >= half)).sum().item() / trace.weights.sum().item(),
        },
        "change of valid outputs when padding changes": {
            "torch-nac": changed[~pad].abs().max().item(),
            "nacre": my_change[~pad].abs().max().item(),
        },
    }


def unreachable(length: int) -> dict[str, int]:
    """Keys that no query can select, even where they score highest."""
    q = torch.ones(1, 4, 1, 16)
    lost = {"torch-nac": 0, "nacre": 0}
    layer = theirs()
    for j in range(length):
        k = torch.zeros(1, 4, length, 16)
        k[:, :, j] = 9.0
        _, index = layer.sparse_topk_pairwise(q, k)  # pyright: ignore[reportCallIssue]
        mine, valid = nacre.functional.sqrt_topk(q, k, 8)
        lost["torch-nac"] += int(not (index == j).any())
        lost["nacre"] += int(not ((mine == j) & valid).any())
    return lost


def forward_ratio(length: int, rounds: int = 7) -> dict[str, float]:
    """Median forward time of each at batch 1, in one interleaved run, and how many times faster nacre is."""
    x = torch.randn(1, length, 64)
    layers = {"torch-nac": theirs(), "nacre": ours()}
    seconds = in_turns({name: partial(forward, layer, x) for name, layer in layers.items()}, rounds)
    return {**seconds, "ratio": seconds["torch-nac"] / seconds["nacre"]}


def main() -> None:
    """Measure and write."""
    torch.manual_seed(SEED)
    x = torch.randn(2, 50, 64)
    origin = provenance()
    origin["versions"]["torch-nac"] = "0.0.2"
    result = {
        **origin,
        "seed": SEED,
        "setting": "d_model 64, 4 heads, defaults, input [2, 50, 64] standard normal unless said otherwise",
        **gates(x),
        "share of parameters without gradient": {"torch-nac": idle(theirs(), x), "nacre": idle(ours(), x)},
        "change of output between sparsity 0.2 and 0.9": {
            "torch-nac": sparsity_effect(theirs, x),
            "nacre": sparsity_effect(ours, x),
        },
        **padding(x),
        "keys of 50 that cannot be selected": unreachable(50),
        "seconds of a forward pass at [1, 1024, 64]": forward_ratio(1024),
    }
    write_result("torch-nac.json", result)


if __name__ == "__main__":
    main()
