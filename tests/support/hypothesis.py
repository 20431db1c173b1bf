"""How many examples hypothesis tries: few in `make test`, many in `make test-deep`."""

import os

from hypothesis import settings

DEEP = "NACRE_TEST_DEEP" in os.environ


def examples(many: int) -> settings:
    """So many examples in `make test-deep`, a fifth of them otherwise."""
    return settings(max_examples=many if DEEP else max(3, many // 5))
