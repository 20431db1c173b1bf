"""Protection against DNS rebinding."""

import ipaddress


def is_address(host: str) -> bool:
    """Whether the host of a request is localhost or a literal address.

    A web page that points its own name at this machine (DNS rebinding) sends that name instead.

    Example:
        >>> is_address("127.0.0.1"), is_address("::1"), is_address("example.org")
        (True, True, False)
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
