"""
Clients that ask without a pause.

    with Load(proxy.address) as load:
        load.more(50)           # 50 answers from now on
    load.sees(429)              # one of these from now on
    load.failed                 # statuses other than 200, and connections that broke
"""

from __future__ import annotations

import http.client
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from tests.servers.waiting import until
else:
    from servers.waiting import until


class Load:
    """
    A few threads, each with a connection that it keeps.

    Args:
        address: Where they ask.
        threads: How many.
        path: For what.
    """

    def __init__(self, address: str, threads: int = 4, path: str = "/") -> None:
        self.address = address.removeprefix("http://")
        self.path = path
        self.statuses: list[int | str] = []
        self._is_over = threading.Event()
        self.threads = [threading.Thread(target=self._run) for _ in range(threads)]

    @property
    def failed(self) -> list[int | str]:
        """
        Everything that was no 200.
        """
        return [status for status in self.statuses if status != http.client.OK]

    def more(self, answers: int, within: float = 40.0) -> None:
        """
        Waits for so many answers from now on.
        """
        seen = len(self.statuses)
        until(lambda: len(self.statuses) >= seen + answers, within, lambda: f"only {len(self.statuses) - seen} answers came")

    def sees(self, status: int, within: float = 40.0) -> None:
        """
        Waits for an answer of this status from now on.
        """
        seen = len(self.statuses)
        until(lambda: status in self.statuses[seen:], within, lambda: f"no {status} among {self.statuses[seen:][-20:]}")

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._is_over.set()
        for thread in self.threads:
            thread.join()

    def _run(self) -> None:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        while not self._is_over.is_set():
            try:
                connection.request("GET", self.path)
                response = connection.getresponse()
                response.read()
                self.statuses.append(response.status)
            except (OSError, http.client.HTTPException) as error:
                self.statuses.append(repr(error))
                connection.close()
        connection.close()
