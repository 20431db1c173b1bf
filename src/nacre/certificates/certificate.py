"""`Certificate`: what `certify` found, as plain data and as a report."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nacre.certificates.neurons import NeuronFinding

_SHOWN = 20  # lines of a kind that str() prints


@dataclass(frozen=True)
class HeadCertificate:
    """One head over all pairs of valid steps. The ranges of gates and logits are (least, largest).

    Attributes:
        pairs: Number of pairs.
        phi: Content target.
        omega: Decay rate.
        t: Internal time; None where the layer has no time gate.
        match: Match; None where the layer has no match synapses.
        effect: Effect of values; None where the layer does not inhibit.
        logits: Logit.
        bounds: Lowest and highest bound of any pair. Each logit is compared with the bounds of its own pair: where
            it starts, at 0 or at the match, and phi / omega, where it goes.
        limit: Size that no logit of this head can exceed, whatever the inputs: that of phi, with the gains of the
            match synapses, times the longest internal time or, in mode "steady", by the smallest decay rate. Where
            logits start at the match, its gain, or what is left of it then and what has come of phi.
        effect_limit: Size that no effect of this head can exceed, whatever the inputs; 1 without inhibition.
        violations: Logits outside their bounds by more than rounding, or not finite.
        time_to_delta: Time after which every logit is within `delta` of its limit.
        arrived: Share of the pairs whose internal time is that long for their own logit; 1 in mode "steady".
        keys_mean: Effective number of keys of a query, exp(entropy of its weights), on average.
        keys_min: The same for the query that has the fewest.
    """

    pairs: int
    phi: tuple[float, float]
    omega: tuple[float, float]
    t: tuple[float, float] | None
    match: tuple[float, float] | None
    effect: tuple[float, float] | None
    logits: tuple[float, float]
    bounds: tuple[float, float]
    limit: float
    effect_limit: float
    violations: int
    time_to_delta: float
    arrived: float
    keys_mean: float
    keys_min: float

    @property
    def bounds_hold(self) -> bool:
        """Whether every logit respects the bounds of its own pair."""
        return self.violations == 0


@dataclass(frozen=True)
class InputFinding:
    """NaN or infinity in one argument, outside padding.

    Attributes:
        argument: "x" or "time".
        numbers: How many numbers are not finite.
        steps: In how many steps.
        positions: (row, step) of the first few.
    """

    argument: str
    numbers: int
    steps: int
    positions: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """What was found, and where."""
        more = ", ..." if self.steps > len(self.positions) else ""
        where = ", ".join(map(str, self.positions)) + more
        return f"{self.argument} holds {self.numbers} x NaN or infinity; (row, step): {where}"


@dataclass(frozen=True)
class Certificate:
    """What `certify` found; plain data, and a report when printed.

    Attributes:
        heads: One certificate for each head.
        dead: Neurons without effect: their state never changes, is not finite, or no weight leads on from them.
        saturated: Neurons that are nearly always at a bound of their activation; a warning.
        left_out: Neurons of the backbone's wiring that the layer does not compute, because they reach no motor
            neuron.
        inputs: NaN and infinity in the inputs.
        steps_left_out: Steps that were treated as padding because of them.
        bad_parameters: Names of parameters that hold NaN or infinity.
        delta: Accuracy that `HeadCertificate.time_to_delta` refers to.
        sequences: Number of sequences with at least one valid step.
        pairs: Number of query-key pairs, in all heads together.
    """

    heads: tuple[HeadCertificate, ...]
    dead: tuple[NeuronFinding, ...]
    saturated: tuple[NeuronFinding, ...]
    left_out: int
    inputs: tuple[InputFinding, ...]
    steps_left_out: int
    bad_parameters: tuple[str, ...]
    delta: float
    sequences: int
    pairs: int

    @property
    def ok(self) -> bool:
        """Whether bounds hold in every head, inputs and parameters are finite and no neuron is dead."""
        return all(h.bounds_hold for h in self.heads) and not (self.inputs or self.bad_parameters or self.dead)

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON, with the verdicts; numbers that are not finite become "nan", "inf" or "-inf"."""
        heads = [asdict(h) | {"bounds_hold": h.bounds_hold} for h in self.heads]
        return _plain({"ok": self.ok} | asdict(self) | {"heads": heads})

    def __str__(self) -> str:
        """Verdict, table of the heads, and one line for each finding."""
        return "\n".join(_report(self))


def _report(c: Certificate) -> Iterator[str]:
    yield "certificate holds" if c.ok else "certificate does NOT hold"
    yield f"sequences: {c.sequences:,}, query-key pairs: {c.pairs:,}, heads: {len(c.heads)}"
    yield ""
    titles = ("phi", "omega", "t", "match", "effect", "logits", "bounds", "held", "limit")
    titles += (f"time to {c.delta:g}", "arrived", "keys mean", "min")
    yield from _align([("head", *titles), *((str(i), *_cells(h)) for i, h in enumerate(c.heads))])
    yield ""
    yield from _some("input", c.inputs)
    if c.steps_left_out:
        yield f"input: treated as padding because of that: {c.steps_left_out:,} steps"
    yield from _some("parameter", [f"{name} holds NaN or infinity" for name in c.bad_parameters])
    yield from _some("dead", c.dead)
    yield from _some("saturated", c.saturated)
    if not (c.dead or c.saturated):
        yield "neurons: none dead, none saturated"
    if c.left_out:
        yield f"left out: {c.left_out} of the wiring's neurons, because they reach no motor neuron"


def _cells(h: HeadCertificate) -> Iterator[str]:
    for span in (h.phi, h.omega, h.t, h.match, h.effect, h.logits, h.bounds):
        yield "-" if span is None else f"{span[0]:.3g} to {span[1]:.3g}"
    yield "yes" if h.bounds_hold else f"NO: {h.violations:,} of {h.pairs:,} outside"
    yield from (f"{h.limit:.3g}", f"{h.time_to_delta:.3g}", f"{h.arrived:.1%}")
    yield from (f"{h.keys_mean:.3g}", f"{h.keys_min:.3g}")


def _align(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _some(kind: str, findings: Sequence[object]) -> Iterator[str]:
    """A line for each of the first findings, and the number of the others."""
    yield from (f"{kind}: {finding}" for finding in findings[:_SHOWN])
    if len(findings) > _SHOWN:
        yield f"{kind}: and {len(findings) - _SHOWN} more"


def _plain(value: Any) -> Any:  # noqa: ANN401  any data
    """Lists and dicts of what JSON can hold."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
