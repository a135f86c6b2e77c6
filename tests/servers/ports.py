"""
Ports on which nobody listens.

A server cannot be asked to choose its own port and tell it, so a port is tried first, and whoever starts a server tries another one if
somebody was faster. All of them lie below the range from which the kernel takes the ports of outgoing connections: else a connection could
take the port of a server between its death and its restart.
"""

from __future__ import annotations

import random
import socket

PORTS = range(10_000, 20_000)
BUS_OFFSET = 10_000
"""How far the cluster bus is from the port for clients: the servers add it by themselves."""

# Not the generator of the tests: pytest-randomly seeds that one equally in every process, and all would try the same ports.
_random = random.SystemRandom()


def free_port() -> int:
    """
    A port that is free at this moment, together with its bus port.
    """
    for _ in range(1000):
        port = _random.choice(PORTS)
        if _is_free(port) and _is_free(port + BUS_OFFSET):
            return port
    raise OSError("no free port among 1000 tries")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections that linger after a death do not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
