"""
Which server a request goes to.
"""

_PORTS = {"http": 80, "https": 443}


def origin(scheme: str, host: str, port: int | None) -> str:
    """
    Names the budget of a server: the same for every way to write its address.

    Args:
        scheme: Such as `https`.
        host: Its name or address.
        port: Its port; `None` is that of the scheme.

    Returns:
        Such as `https://api.example.com:443`.
    """
    scheme = scheme.lower()
    return f"{scheme}://{host.lower().rstrip('.')}:{port or _PORTS.get(scheme, 0)}"
