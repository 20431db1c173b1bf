"""How a missing part of nacre is installed."""


def how_to_install(extras: str) -> str:
    """The command for these extras, separated by commas.

    On PyPI, the name nacre is somebody else's; this distribution is called nacre-attention.

    Example:
        >>> how_to_install("train,view")
        "in nacre's checkout run pip install -c constraints.txt -e '.[train,view]'"
    """
    return f"in nacre's checkout run pip install -c constraints.txt -e '.[{extras}]'"
