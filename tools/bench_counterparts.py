"""Measure models of the zoo beside their public counterparts: python tools/bench_counterparts.py.

Writes results/counterparts.json. Model and counterpart have the same sizes and run in turns in one process, at
1,024 steps of 64 features. Parity tests show that they compute the same. Needs the development packages.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from bench_steps import D_MODEL, HEADS, LENGTH, forward, in_turns, step
from provenance import provenance, write_result
from torch import Tensor, nn

import nacre
from nacre.bench.entries import Recurrent, TorchAttention

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
BATCHES = (1, 16)


def ltc(wiring: str) -> nn.Module:
    """LTC of ncps."""
    from ncps.torch import LTC

    return Recurrent(LTC(D_MODEL, _wiring(wiring)))


def cfc(wiring: str) -> nn.Module:
    """CfC of ncps."""
    from ncps.torch import CfC

    return Recurrent(CfC(D_MODEL, D_MODEL if wiring == "fc" else _wiring(wiring), **_BACKBONE[wiring]))


_BACKBONE: dict[str, dict[str, Any]] = {"fc": {"backbone_units": 128, "backbone_layers": 1}, "ncp": {}}


def _wiring(name: str) -> Any:  # noqa: ANN401
    from ncps.wirings import AutoNCP, FullyConnected

    return FullyConnected(D_MODEL) if name == "fc" else AutoNCP(D_MODEL, D_MODEL // 4)


def performer() -> nn.Module:
    """Self attention of performer-pytorch."""
    from performer_pytorch import SelfAttention

    return SelfAttention(dim=D_MODEL, heads=HEADS, dim_head=D_MODEL // HEADS, nb_features=256, causal=False)


def rela() -> nn.Module:
    """Attention of rela-transformer."""
    from rela_transformer.rela_transformer import ReLA

    return ReLA(dim=D_MODEL, heads=HEADS, dim_head=D_MODEL // HEADS, causal=False)


COUNTERPARTS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "ltc-fc": ("ncps.torch.LTC", partial(ltc, "fc")),
    "ltc-ncp": ("ncps.torch.LTC", partial(ltc, "ncp")),
    "cfc-fc": ("ncps.torch.CfC", partial(cfc, "fc")),
    "cfc-ncp": ("ncps.torch.CfC", partial(cfc, "ncp")),
    "sdpa": ("torch.nn.MultiheadAttention", partial(TorchAttention, D_MODEL, HEADS)),
    "performer": ("performer-pytorch", performer),
    "linear-attention": ("rela-transformer", rela),
}


def measure(name: str, batch: int) -> dict[str, Any]:
    """Milliseconds of both, and how many times faster the zoo's is."""
    torch.manual_seed(0)
    counterpart, build = COUNTERPARTS[name]
    ours = nacre.create(name, d_input=D_MODEL, d_model=D_MODEL, num_heads=HEADS)
    theirs, x = build(), torch.randn(batch, LENGTH, D_MODEL)
    row: dict[str, Any] = {"model": name, "counterpart": counterpart, "batch": batch}
    for key, act in (("forward", forward), ("step", step), ("torch", forward)):
        if key == "torch" and name.partition("-")[0] not in ("ltc", "cfc"):
            continue  # only these have kernels
        with mock.patch("nacre.native.library.runs", _never) if key == "torch" else nullcontext():
            row[key] = _compare(partial(act, ours, x), partial(act, theirs, x))
    return row


def _compare(ours: Callable[[], None], theirs: Callable[[], None]) -> dict[str, float]:
    times = in_turns({"ours": ours, "theirs": theirs}, ROUNDS)
    return {"ours_ms": times["ours"], "theirs_ms": times["theirs"], "speedup": times["theirs"] / times["ours"]}


def _never(*tensors: Tensor) -> bool:
    return False


def main() -> None:
    """Measure and write."""
    rows = []
    for name in COUNTERPARTS:
        for batch in BATCHES:
            rows.append(measure(name, batch))
            sys.stdout.write(f"{rows[-1]}\n")
            sys.stdout.flush()
    result = {"provenance": provenance("python tools/bench_counterparts.py"), "rounds": ROUNDS, "results": rows}
    write_result("counterparts.json", result)


if __name__ == "__main__":
    main()
