# Redis goes away and comes back. Nobody waits longer than the budget, nobody restarts anything, and no decision is unlimited.
# It needs a Redis or Valkey: at REDIS_URL, or at redis://localhost:6379. A cable in this process is pulled; the server is left alone.

import asyncio
import contextlib
import os
import threading
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from tidegate import Decision, Limiter

STORE = os.environ.get("REDIS_URL", "redis://localhost:6379")


class Cable(threading.Thread):
    """Carries bytes between the limiter and the server, unless it is pulled. What is on its way then arrives later, as with TCP."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(daemon=True)
        self._server, self._loop, self._is_listening = (host, port), asyncio.new_event_loop(), threading.Event()
        self._is_plugged, self.port = asyncio.Event(), 0
        self.start()
        self._is_listening.wait()

    def run(self) -> None:
        listening = self._loop.run_until_complete(asyncio.start_server(self._connect, "127.0.0.1", 0))
        self.port = listening.sockets[0].getsockname()[1]
        self._is_plugged.set()
        self._is_listening.set()
        self._loop.run_forever()

    def pull(self) -> None:
        self._loop.call_soon_threadsafe(self._is_plugged.clear)

    def plug(self) -> None:
        self._loop.call_soon_threadsafe(self._is_plugged.set)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*self._server)
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._is_plugged.wait()
            writer.write(data)
        writer.close()


def tell(when: str, decision: Decision) -> None:
    said = "allowed" if decision.allowed else "denied"
    print(f"{when:>12}: {said}, {decision.remaining} left" + (f", decided here: {decision.reason}" if decision.degraded else ""))


key = f"example:{uuid4()}"  # a new one, so that each run starts with nothing used
address = urlsplit(STORE)
cable = Cable(address.hostname or "localhost", address.port or 6379)
login, at, _ = address.netloc.rpartition("@")
store = urlunsplit(address._replace(netloc=f"{login}{at}127.0.0.1:{cable.port}"))

with Limiter("10/second", store=store, budget=0.05) as limiter:
    assert limiter.health().status == "ok", f"there is no Redis at {STORE}: set REDIS_URL"
    decision = limiter.check(key)
    tell("connected", decision)
    assert not decision.degraded

    cable.pull()
    while limiter.health().status == "ok":
        decision = limiter.check(key)  # waits for the budget, a few times; then the breaker opens and nothing waits
        tell("pulled", decision)
    decision = limiter.check(key)
    tell("breaker open", decision)
    assert decision.reason == "store_breaker_open"

    cable.plug()
    while limiter.health().status != "ok":
        threading.Event().wait(0.01)
    decision = limiter.check(key)
    tell("back", decision)
    assert not decision.degraded
    print(f"decided without the store: {limiter.health().degraded}")
