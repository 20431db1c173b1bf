"""`ModelInfo`: what is known about a model."""

from dataclasses import dataclass

KINDS = ("CT-RNN", "DT-attention", "CT-attention", "NAC", "other")


@dataclass(frozen=True)
class ModelInfo:
    """What the registry knows about a model.

    Attributes:
        name: Name for `nacre.create`.
        kind: "NAC", "CT-RNN", "DT-attention" or "CT-attention", as in the paper's table, or "other".
        paper: Who published it, and when.
        summary: One line.
        uses_time: Whether time stamps change its output.
        causal: Whether step i depends on steps up to i only, as created by default.
        cost: How time grows with the length T, the width d and the model's own sizes.
        checked: What its outputs were compared with in the tests.
        in_paper: Whether it is a row of the paper's results table.
        version: Raised when the outputs of a saved model change; part of the fingerprint of a cell.
    """

    name: str
    kind: str
    paper: str
    summary: str
    uses_time: bool
    causal: bool
    cost: str
    checked: str
    in_paper: bool = False
    version: int = 1
