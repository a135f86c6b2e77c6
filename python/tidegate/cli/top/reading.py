"""
What a service says about itself at one moment.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate._sleep import now_ns
from tidegate.cli.top.page import Page
from tidegate.errors import ServerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_TIMEOUT_S = 5.0
_BYTES_MAX = 64 * 1024 * 1024
_METRICS = "/metrics"
_TOP = "/api/v1/rate-limit/top"


@dataclass(frozen=True, slots=True)
class Key:
    """
    One of the keys that are denied most.

    Args:
        rule: Who denies it.
        key: How it is shown.
        denied: How often, at most.
        error: So many of them may have been others.
        last_seen: When, in seconds since the epoch.
    """

    rule: str
    key: str
    denied: int
    error: int
    last_seen: float


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What a service says about itself at one moment.

    Args:
        at_ns: The moment, by a clock whose zero means nothing.
        page: Its metrics.
        keys: The keys that are denied most.
    """

    at_ns: int
    page: Page
    keys: Sequence[Key]


class Source:
    """
    A running service.

    Args:
        url: Its HTTP port.
        token: What it wants to see, if anything.
        ca: Who signs its certificate, unless the system knows.

    Raises:
        UsageError: This is no address.
    """

    def __init__(self, url: str, token: str | None = None, ca: Path | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is no address of a service\nhint: write it as http://127.0.0.1:8080")
        self.url = url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            # A context takes long to make, and plain text needs none.
            self._context = ssl.create_default_context(cafile=ca) if url.startswith("https:") else None
        except OSError as error:
            raise UsageError(f"{ca} holds no certificates: {error}\nhint: --ca names a file in PEM") from None

    def read(self, keys_max: int) -> Reading:
        """
        Asks it.

        Args:
            keys_max: How many keys are wanted.

        Raises:
            ServerError: It does not answer, or is something else.
        """
        page = Page(self._get(_METRICS))
        if "ratelimit_build_info" not in page:
            raise ServerError(f"{self.url} is no Tidegate: its metrics are others\nhint: say where the service is with --url")
        top = self._get(f"{_TOP}?n={keys_max}")
        try:
            fields = Key.__dataclass_fields__
            keys = [Key(**{name: key[name] for name in fields}) for key in json.loads(top)["keys"]]
        except (ValueError, KeyError, TypeError):
            raise ServerError(f"{self.url}{_TOP} answers what makes no sense\nhint: is it another version?") from None
        return Reading(now_ns(), page, keys)

    def _get(self, path: str) -> str:
        request = urllib.request.Request(self.url + path, headers=self._headers)  # noqa: S310  # the address is http or https
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._context) as answer:  # noqa: S310  # as above
                body: bytes = answer.read(_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                raise ServerError(f"{self.url}{path} answers {error.code}\nhint: {_hint(error.code)}") from None
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise ServerError(
                f"{self.url} does not answer: {why}\nhint: start it with `tidegate serve`, or say where it is with --url"
            ) from None
        return body.decode(errors="replace")


def _hint(status: int) -> str:
    if status in {401, 403}:
        return "the service wants a token: --token, or TIDEGATE_HTTP_TOKEN"
    return "say where the service is with --url"
