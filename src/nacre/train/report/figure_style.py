"""What pictures of runs show, and in which colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.train.report.compare import REFERENCE, rows_of

if TYPE_CHECKING:
    from nacre.train.report.compare import Block

# Okabe and Ito's colours, which can be told apart whatever the eye, and dashes besides.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
SHOWN = len(COLOURS)  # lines that a panel has room for
TITLE, TEXT, SMALL = 13, 12, 11


class NothingToDraw(ValueError):
    """The runs do not hold what a picture shows; the message says what is missing."""


def leading(block: Block, having: set[str]) -> list[str]:
    """Models for the lines of a panel: NAC and the best of the others, then controls, of those that have data."""
    names = [row.model for row in rows_of(block) if row.model in having]
    return sorted(sorted(names, key=lambda name: name != REFERENCE)[:SHOWN], key=lambda name: name != REFERENCE)
