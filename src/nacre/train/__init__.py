"""Training: from a task and a model to a result file that says where it comes from."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nacre.train.comparison import compare as compare


def __getattr__(name: str) -> object:
    """`nacre.train.compare`, imported when it is asked for: commands need not wait for it."""
    if name == "compare":
        from nacre.train.comparison import compare

        return compare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
