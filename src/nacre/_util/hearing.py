"""Hear what the library logs, so that a command can print it at once."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOG = logging.getLogger("nacre")


@contextmanager
def heard(say: Callable[[str], None]) -> Iterator[None]:
    """Within the block, pass what is logged under "nacre" as information to `say`, whatever the level is set to.

    Example:
        >>> with heard(print):
        ...     logging.getLogger("nacre").info("The task is regression.")
        The task is regression.
    """
    handler, level, passed_on = _Handler(say), _LOG.level, _LOG.propagate
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    _LOG.propagate = False  # else it would be printed twice where a program has set up logging
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.setLevel(level)
        _LOG.propagate = passed_on


class _Handler(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self.say = say

    def emit(self, record: logging.LogRecord) -> None:
        self.say(record.getMessage())
