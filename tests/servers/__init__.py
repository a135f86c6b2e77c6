"""
Real servers for the tests of Python and Rust, and for the benchmarks.

Each runs on a free port of loopback, needs neither root nor the internet, and ends with whoever started it:

    with Single(password="secret") as server:
        server.url()                 # redis://:secret@127.0.0.1:12345
        server.command("DBSIZE")     # 0
        server.freeze()

`python -m tests.servers single` does the same for other languages, see `__main__`.
"""

from .binaries import NAMES, Binary, Missing, available
from .cluster import Cluster
from .fakes import Fake
from .faults import Proxy
from .node import StartFailed
from .resp import Login, Reply, ServerError
from .sentinel import Sentinel
from .single import Single
from .tls import Certificates, SelfSigned, certificates, self_signed

__all__ = [
    "NAMES",
    "Binary",
    "Certificates",
    "Cluster",
    "Fake",
    "Login",
    "Missing",
    "Proxy",
    "Reply",
    "SelfSigned",
    "Sentinel",
    "ServerError",
    "Single",
    "StartFailed",
    "available",
    "certificates",
    "self_signed",
]
