"""`Finding`: what one check found."""

from dataclasses import asdict, dataclass
from enum import StrEnum


class State(StrEnum):
    """How it stands."""

    OK = "ok"
    NOTE = "note"  # works, but could be better, or is not there because nobody needs it yet
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """What one check found, and what to do about it."""

    what: str  # was checked
    state: State
    text: str
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain data."""
        return {name: str(value) for name, value in asdict(self).items()}


def ok(what: str, text: str) -> Finding:
    """A finding without a flaw."""
    return Finding(what, State.OK, text)


def note(what: str, text: str, fix: str = "") -> Finding:
    """A finding that somebody may want to change."""
    return Finding(what, State.NOTE, text, fix)


def problem(what: str, text: str, fix: str) -> Finding:
    """A finding that must be mended."""
    return Finding(what, State.PROBLEM, text, fix)
