"""
How many connections the process may have: each takes a file descriptor.
"""

from __future__ import annotations

import sys

SPARE = 256
"""Files, the store's connections, listening sockets, event queues."""


def allow_connections(count: int) -> str | None:
    """
    Raises the limit of the process as far as it may, because shells and supervisors often leave it at 1,024.

    Args:
        count: The most connections.

    Returns:
        A warning if that is not enough.
    """
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  # Windows has no such module

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + SPARE
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return None
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    except (OSError, ValueError):
        allowed = soft
    if allowed >= count:
        return None
    return (
        f"the system allows {allowed:,} files, so that about {max(0, allowed - SPARE):,} connections are possible and not "
        f"limits.connections, {count:,}: raise the limit (ulimit -n, LimitNOFILE), or lower the setting"
    )
