"""Whether a host that a request names can have been looked up by nobody else."""

import ipaddress


def is_address(host: str) -> bool:
    """Whether a host is localhost or a bare address, so that no name server had a say in it.

    A web page whose own name was pointed at this machine (DNS rebinding) is thereby told apart.

    Example:
        >>> is_address("127.0.0.1"), is_address("::1"), is_address("example.org")
        (True, True, False)
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
