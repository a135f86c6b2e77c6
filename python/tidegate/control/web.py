"""
The web server of the control plane: uvicorn on a thread of its own, which the data plane never waits for.
"""

from __future__ import annotations

import logging
import socket
import ssl
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn

from tidegate.control.polite import give_way
from tidegate.errors import StartupError
from tidegate.service.log import LOG
from tidegate.service.places import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp

START_S: Final = 30.0
STOP_S: Final = 5
CONCURRENCY_MAX: Final = 1000
_BACKLOG: Final = 128


class Web:
    """
    A port that answers by an application.

    Args:
        place: Where it listens.
        certificates: Certificate, key and who signs those of clients; nothing for no TLS.
        gateways: Whose `X-Forwarded-*` is believed.
    """

    def __init__(self, place: Place, certificates: tuple[Path, Path, Path | None] | None, gateways: Sequence[str]) -> None:
        self._place = place
        self._certificates = certificates
        self._gateways = list(gateways)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self.address: str | None = None

    def start(self, app: ASGIApp) -> str:
        """
        Begins to listen and to serve.

        Args:
            app: What answers.

        Returns:
            Where it listens.

        Raises:
            StartupError: The port is taken, or a certificate is wrong.
        """
        listener = _bind(self._place)
        try:
            self._server = uvicorn.Server(self._config(app))
        except (OSError, ValueError) as error:
            listener.close()
            raise StartupError(f"admin: the certificate cannot be used: {error}") from None
        self._thread = threading.Thread(target=self._serve, args=(self._server, listener), name="tidegate-admin", daemon=True)
        self._thread.start()
        name = listener.getsockname()
        self.address = f"unix:{name}" if isinstance(name, str) else str(Place(name[0], name[1]))
        return self.address

    def reload(self) -> None:
        """
        Reads the certificates again. Connections that are open keep theirs.
        """
        if self._server is None or self._certificates is None or self._server.config.ssl is None:
            return
        cert, key, _ = self._certificates
        try:
            self._server.config.ssl.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError) as error:
            LOG.error("admin: certificates refused, those in force stay: %s", error)

    def stop(self) -> None:
        """
        Takes no more requests, waits a moment for those that run, and ends. Nothing happens if it has ended.
        """
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(STOP_S + START_S)
        self._server = self._thread = None
        if self._place.path:
            Path(self._place.path).unlink(missing_ok=True)

    def _config(self, app: ASGIApp) -> uvicorn.Config:
        cert, key, client_ca = self._certificates or (None, None, None)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            server_header=False,
            forwarded_allow_ips=self._gateways,
            limit_concurrency=CONCURRENCY_MAX,
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=cert,
            ssl_keyfile=None if key is None else str(key),
            ssl_ca_certs=None if client_ca is None else str(client_ca),
            ssl_cert_reqs=ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED,
        )
        # Otherwise the thread would find out that a certificate is wrong, and nobody would hear of it.
        config.load()
        return config

    @staticmethod
    def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
        give_way()
        try:
            server.run(sockets=[listener])
        except Exception:  # noqa: BLE001  # whatever it is: the data plane goes on
            LOG.exception("the web server of the control plane has ended; decisions go on")
        finally:
            listener.close()


def _bind(place: Place) -> socket.socket:
    try:
        if place.path:
            return _bind_socket(Path(place.path))
        family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        # Connections inherit it. asyncio sets it only where a socket names its protocol, which this one does not; without it the body of
        # an answer waits 40 ms until the client has acknowledged the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        hint = "choose another port with admin.listen (--admin-listen 127.0.0.1:8091), or turn it off with `off`"
        raise StartupError(f"admin cannot listen on {place}: {error.strerror or error}\nhint: {hint}") from None
    return listener


def _bind_socket(path: Path) -> socket.socket:
    # A socket that nobody listens on any more is left over from a process that was killed.
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
