"""What was tried on the way to nac-plus and did not become part of it, on the questions of `nacre study recall`.

Usage: python tools/recall_trials.py OUT [--trial NAME]... [--question key] [--length 64] [--steps 1500]
[--seeds 3]. Result files have the form of those of `nacre study recall`; what is done is skipped.
"""

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nacre._util.locks import Busy
from nacre._util.provenance import provenance
from nacre.layer import match
from nacre.layer.attention import NAC
from nacre.layer.inputs import Inputs
from nacre.layer.match import MatchSynapse
from nacre.layer.packing import Packing
from nacre.layer.pairs import Tokens, mix, pair_elapsed, pair_match, pair_time_gates, shares, solve_gates
from nacre.layer.trace import Observer
from nacre.study.recall import run as recall_run
from nacre.study.recall.run import RecallRun
from nacre.study.runs import run_once
from nacre.study.spec import ModelSpec

PLUS: dict[str, Any] = {"match": "content", "reach": 512}
ALL = slice(None)


class Trial(NAC):
    """nac-plus on one query a sequence, with its stages laid open for changes."""

    def _attend(self, inputs: Inputs, observer: Observer | None) -> Tensor:
        queries, keys = Packing.of(inputs.query), Packing.of(inputs.key)
        tokens, *_ = self._tokens(self.backbone.wire(), inputs, queries, keys)
        tokens = self.chosen(tokens, keys)
        added = pair_match(tokens, ALL)
        motor, added = self.settled(tokens, added)
        gate, elapsed = pair_time_gates(tokens, ALL), pair_elapsed(tokens, self.config, ALL, motor.dtype)
        gates = solve_gates(motor, gate, elapsed, tokens.valid, self.config, added)
        heads = mix(shares(gates, self.config, 0.0), tokens.value, tokens.index)  # [B, H, D]
        return self.out_proj(self.mixed(heads, tokens, keys).flatten(1)).unsqueeze(1)

    def chosen(self, tokens: Tokens, keys: Packing) -> Tokens:
        """Change which keys a query gets."""
        return tokens

    def settled(self, tokens: Tokens, added: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Motor neurons [2, H, B, K], and what is added to the content target."""
        motor = self.backbone.wire().settle_selected(tokens.query_drive, tokens.key_drive, tokens.index)
        assert motor is not None
        return motor, added

    def mixed(self, heads: Tensor, tokens: Tokens, keys: Packing) -> Tensor:
        """Change the attended values [B, H, D]."""
        return heads


class Explore(Trial):
    """Half of the keys are drawn at random in training."""

    def chosen(self, tokens: Tokens, keys: Packing) -> Tokens:
        """The best half, and a random half, each key once."""
        matches = pair_match(tokens, ALL)
        if not self.training or matches is None:
            return tokens
        index, half = tokens.index, tokens.index.shape[2] // 2
        first = torch.arange(keys.batch).view(1, -1, 1) * keys.length
        drawn = torch.randint(keys.length, (*index.shape[:2], half)) + first
        best = matches.topk(index.shape[2] - half, -1).indices
        index = torch.cat([index.gather(2, best), drawn], 2)
        twice = (index.unsqueeze(-1) == index.unsqueeze(-2)).tril(-1).any(-1)
        return replace(tokens, index=index, valid=~twice)


class Anneal(Trial):
    """32 keys a query at first, 8 from half of 1,500 steps on."""

    trained = 0

    def _attend(self, inputs: Inputs, observer: Observer | None) -> Tensor:
        own = self.config
        if self.training:
            self.trained += 1
            self.config = replace(own, top_k=max(8, round(32 - 24 * self.trained / 750)))
        try:
            return super()._attend(inputs, observer)
        finally:
            self.config = own


class Coarse(Trial):
    """A second branch attends to the means of blocks, whose choice so gets a gradient."""

    def mixed(self, heads: Tensor, tokens: Tokens, keys: Packing) -> Tensor:
        """Add what the blocks hold; a last block that is not full is left out."""
        assert tokens.asked is not None
        assert tokens.offered is not None
        block = int(keys.length**0.5)
        count = keys.length // block
        shape = (keys.batch, keys.length, *tokens.value.shape[1:2], -1)
        offered, value = (
            x.view(shape)[:, : count * block].unflatten(1, (count, block)).mean(2)  # [B, n, H, E]
            for x in (tokens.offered, tokens.value)
        )
        weight = torch.einsum("bhe,bnhe->bhn", tokens.asked, offered).softmax(-1)
        return heads + torch.einsum("bhn,bnhd->bhd", weight, value)


class ToCircuit(Trial):
    """The match is one more input of the circuit's first neurons, and not added to the content target."""

    def __init__(self, d_model: int, num_heads: int, **options: Any) -> None:  # noqa: ANN401
        super().__init__(d_model, num_heads, **options)
        self.synapse = nn.Parameter(torch.randn(self.config.num_heads, 1, 1, len(self.backbone.projected)) * 0.3)

    def settled(self, tokens: Tokens, added: Tensor | None) -> tuple[Tensor, None]:
        """Settle with one more input."""
        assert added is not None
        head = torch.arange(len(tokens.index)).view(-1, 1, 1)
        drive = tokens.query_drive.unsqueeze(2) + tokens.key_drive[head, tokens.index]
        drive = drive + added.unsqueeze(-1) * self.synapse
        motor = self.backbone.wire().settle(drive.flatten(1, 2))[0]
        return motor.view(*tokens.index.shape, 2).movedim(-1, 0), None


class RawMatch(MatchSynapse):
    """The product q . k / sqrt(D) as it is."""

    def asked(self, query: Tensor, stamp: Tensor | None) -> Tensor:
        """The query, with the gain."""
        return self.gain[0].unsqueeze(-1) * query / query.shape[-1] ** 0.5

    def offered(self, key: Tensor, stamp: Tensor | None) -> Tensor:
        """The key."""
        return key


def raw(layer: NAC) -> None:
    """No normalisation of q and k; with half the gain, as its size is about twice as large."""
    layer.match = RawMatch(layer.config.num_heads, layer.config.d_head, "content", 4.0)


def tied(layer: NAC) -> None:
    """Key neurons start as copies of the query neurons."""
    layer.key_gate.load_state_dict(layer.query_gate.state_dict())


def fixed(layer: NAC) -> None:
    """The gains stay where they start."""
    assert layer.match is not None
    layer.match.log_gain.requires_grad_(False)


def short(layer: NAC) -> None:
    """Periods from 2 units of time on instead of 8."""
    match._SHORTEST = 2.0


TRIALS: dict[str, tuple[type[NAC], Callable[[NAC], None] | None, dict[str, Any]]] = {
    "explore": (Explore, None, PLUS),
    "anneal": (Anneal, None, PLUS),
    "coarse": (Coarse, None, PLUS),
    "coarse-1-block": (Coarse, None, {"match": "content"}),
    "to-circuit": (ToCircuit, None, PLUS),
    "raw": (NAC, raw, PLUS),
    "tied": (NAC, tied, PLUS),
    "fixed-gain": (NAC, fixed, PLUS),
    "short-periods": (NAC, short, {"match": "both", "reach": 512}),
}


@dataclass(frozen=True)
class TrialSpec(ModelSpec):
    """A trial in place of a model."""

    @property
    def uses_time(self) -> bool:
        """All trials are NAC layers."""
        return True

    def create(self, *, d_input: int, d_model: int, num_heads: int) -> nn.Module:
        """The changed layer."""
        kind, change, options = TRIALS[self.name]
        layer = kind(d_model, num_heads, d_input=d_input, **options)
        if change is not None:
            change(layer)
        return layer

    def __str__(self) -> str:
        """The trial's name."""
        return f"trial {self.name}"


def main() -> None:
    """Run what is asked for and not done yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--trial", action="append", choices=TRIALS)
    parser.add_argument("--question", default="key")
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    command = shlex.join(["python", "tools/recall_trials.py", *sys.argv[1:]])
    recall_run.provenance = lambda threads: provenance(threads) | {"command": command}
    for seed in range(options.seeds):
        for name in options.trial or TRIALS:
            run = RecallRun(options.question, TrialSpec(name), options.length, options.steps, seed)
            match._SHORTEST = 8.0
            try:
                result = run_once(run, options.out, lambda step, loss: None)
            except Busy:
                continue
            if result:
                sys.stdout.write(f"{run}: accuracy {result['accuracy']:.3f}, found {result['found']:.2f}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
