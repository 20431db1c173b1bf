"""How a missing part of nacre is installed, and what nacre asks of other packages."""

from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

DISTRIBUTION = "nacre-attention"  # on PyPI, the name nacre is somebody else's
_CHECKOUT = Path(__file__).parents[3]


def how_to_install(extras: str) -> str:
    """The command for these extras, separated by commas: in a checkout, or where a wheel was installed.

    Example:
        >>> how_to_install("train,view")
        "in nacre's checkout run pip install -c constraints.txt -e '.[train,view]'"
    """
    if (_CHECKOUT / "pyproject.toml").is_file():
        return f"in nacre's checkout run pip install -c constraints.txt -e '.[{extras}]'"
    return f"run pip install '{DISTRIBUTION}[{extras}]'"


def requirements() -> list[str]:
    """What this installation of nacre requires, as pyproject.toml said; nothing where only its files are there."""
    try:
        return requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
