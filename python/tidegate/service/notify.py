"""
Tells a supervisor such as systemd how far the service is, if one asked for it (`Type=notify`).
"""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """
    Tells the supervisor something. Nothing happens without one, and no failure to tell it matters.

    Args:
        state: Such as `READY=1` or `STOPPING=1`.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # A leading @ stands for the zero byte of a name that is in no file system.
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
        told.connect(name)
        told.sendall(state.encode())
