"""Measure models of the zoo beside their public counterparts: python tools/bench_counterparts.py.

Writes results/counterparts.json. Model and counterpart have the same sizes and run in turns in one process, at
1,024 steps of 64 features. Parity tests show that they compute the same. Needs the development packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest import mock

import torch
from bench_steps import D_MODEL, HEADS, LENGTH
from measured import forward, in_turns, provenance, step, write_result
from ncps.torch import LTC, CfC
from ncps.wirings import AutoNCP, FullyConnected
from performer_pytorch import SelfAttention
from rela_transformer.rela_transformer import ReLA
from torch import nn

import nacre
from nacre.bench.entries import Recurrent, TorchAttention

ROUNDS = 5
BATCHES = (1, 16)
HEAD = {"dim": D_MODEL, "heads": HEADS, "dim_head": D_MODEL // HEADS, "causal": False}
NCP = partial(AutoNCP, D_MODEL, D_MODEL // 4)
COUNTERPARTS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "ltc-fc": ("ncps.torch.LTC", lambda: Recurrent(LTC(D_MODEL, FullyConnected(D_MODEL)))),
    "ltc-ncp": ("ncps.torch.LTC", lambda: Recurrent(LTC(D_MODEL, NCP()))),
    "cfc-fc": (
        "ncps.torch.CfC",
        lambda: Recurrent(CfC(D_MODEL, D_MODEL, backbone_units=128, backbone_layers=1)),
    ),
    "cfc-ncp": ("ncps.torch.CfC", lambda: Recurrent(CfC(D_MODEL, NCP()))),
    "sdpa": ("torch.nn.MultiheadAttention", lambda: TorchAttention(D_MODEL, HEADS)),
    "performer": ("performer-pytorch", lambda: SelfAttention(**HEAD, nb_features=256)),
    "linear-attention": ("rela-transformer", lambda: ReLA(**HEAD)),
}


def measure(name: str, batch: int) -> dict[str, Any]:
    """Milliseconds of both, and how many times faster the zoo's is."""
    torch.manual_seed(0)
    counterpart, build = COUNTERPARTS[name]
    ours = nacre.create(name, d_input=D_MODEL, d_model=D_MODEL, num_heads=HEADS)
    theirs, x = build(), torch.randn(batch, LENGTH, D_MODEL)
    row: dict[str, Any] = {"model": name, "counterpart": counterpart, "batch": batch}
    for key, act in (("forward", forward), ("step", step), ("torch", forward)):
        if key == "torch" and not name.startswith(("ltc", "cfc")):
            continue  # only these have kernels
        without_kernels = mock.patch("nacre.native.library.runs", return_value=False)
        with without_kernels if key == "torch" else nullcontext():
            times = in_turns({"ours": partial(act, ours, x), "theirs": partial(act, theirs, x)}, ROUNDS)
        row[key] = {f"{who}_ms": round(1e3 * seconds, 2) for who, seconds in times.items()}
        row[key]["speedup"] = times["theirs"] / times["ours"]
    return row


def main() -> None:
    """Measure and write."""
    origin, rows = provenance(), []
    for name in COUNTERPARTS:
        for batch in BATCHES:
            rows.append(measure(name, batch))
            sys.stdout.write(f"{rows[-1]}\n")
    write_result("counterparts.json", {"provenance": origin, "rounds": ROUNDS, "results": rows})


if __name__ == "__main__":
    main()
