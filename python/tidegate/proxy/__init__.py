"""
The reverse proxy: it finds out who a client is, checks, and refuses or forwards.

Requests are forwarded in Rust; Python sets up and supervises.

| module | holds |
| --- | --- |
| `table` | every setting, once: those of the service and the proxy's own |
| `upstreams`, `routes` | the two settings that are more than one value: servers in groups, and which requests go to which |
| `server`, `checks` | parts of these: the address of one server, and what health checks ask for |
| `settings` | all of them together, checked |
| `native` | the same as Rust takes them |
| `proxy` | `Proxy`: a service with one port more |
"""

from tidegate.proxy.proxy import Proxy
from tidegate.proxy.settings import load

__all__ = ["Proxy", "load"]
