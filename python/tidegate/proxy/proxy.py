"""
The proxy: a service with one port more, whose requests go on to servers. Python starts and supervises it; requests are forwarded in Rust.
"""

from __future__ import annotations

import json

from tidegate.proxy import native
from tidegate.service.service import Service


class Proxy(Service):
    """
    A proxy that runs in this process, on threads of its own: `with Proxy(load(...)) as proxy:`.

    Its arguments and errors are those of `Service`; `addresses` has `proxy` too.
    """

    def document(self) -> str:
        """
        The settings as Rust takes them. They may hold the token: they are for the server, not for logs.

        Returns:
            One JSON document.
        """
        return json.dumps(native.to_proxy_document(self.settings, has_control=self.control is not None))
