"""`refused`: like `pytest.raises`, for loops over cases: a failure names the case."""

import re
from contextlib import contextmanager

import pytest


@contextmanager
def refused(message, error=ValueError, case=""):
    """The block raises such an error, whose text this regular expression finds; `case` if that names no case."""
    text = None
    try:
        yield
    except error as caught:
        text = str(caught)
    if text is None:
        pytest.fail(f"{case} was not refused, wanted {message!r}")
    assert re.search(message, text), f"{case} wanted {message!r}, got {text!r}"
