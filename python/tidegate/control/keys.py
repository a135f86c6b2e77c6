"""
API keys of customers: digested as soon as they are heard, and shown no further than the operator wants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self

from tidegate._native import member_digest
from tidegate._options import engine_options

if TYPE_CHECKING:
    from tidegate.service.settings import Settings

KEY_MAX: Final = 4096
"""The longest key, in characters."""

BY_DIGEST: Final = "digest:"
"""What stands before a digest where a key is asked for: lists show digests, and pages link by them."""

_SHOWN_MAX: Final = 200
_CHARACTERS_MAX: Final = 4
_DIGEST = re.compile(r"[0-9a-f]{32}")


class BadKey(ValueError):
    """
    A text that is no key. The message does not show it.
    """


@dataclass(frozen=True, slots=True)
class Key:
    """
    One customer's key.

    Args:
        digest: What it is known by: 32 hexadecimal digits.
        shown: What people see of it.
        value: The key itself, for as long as a request lasts; `None` if only its digest was given.
    """

    digest: str
    shown: str
    value: str | None = None

    def __repr__(self) -> str:
        """
        Without the key.
        """
        return f"Key({self.digest})"

    @property
    def subject(self) -> str:
        """What the audit log calls it."""
        return f"key:{self.digest}"


@dataclass(frozen=True, slots=True)
class Keys:
    """
    How keys are digested and shown.

    Args:
        secret: What the engine digests members with.
        shown: `masked` shows up to four characters, `digest` none, and `plain` everything.
    """

    secret: bytes
    shown: Literal["masked", "digest", "plain"] = "masked"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """
        As an operator set it up.

        Args:
            settings: The settings.

        Returns:
            The same.
        """
        return cls(engine_options(**settings.store_options)["secret"], settings["admin.keys"])

    def __repr__(self) -> str:
        """
        Without the secret.
        """
        return f"Keys(shown={self.shown!r})"

    def digest(self, value: str) -> str:
        """
        What a key is known by, here and in every engine with the same secret.

        Args:
            value: The key.

        Returns:
            32 hexadecimal digits.
        """
        return member_digest(value.encode("utf-8", "surrogatepass"), self.secret)

    def read(self, text: str) -> Key:
        """
        A key as somebody wrote it: itself, or `digest:` and its digest.

        Args:
            text: What was written.

        Returns:
            The key.

        Raises:
            BadKey: It is none.
        """
        if text.startswith(BY_DIGEST):
            digest = text.removeprefix(BY_DIGEST)
            if not _DIGEST.fullmatch(digest):
                raise BadKey("after `digest:` stand the 32 hexadecimal digits, in lower case, that lists show")
            return Key(digest, _by_digest(digest))
        if not text or len(text) > KEY_MAX:
            raise BadKey(f"a key has 1 to {KEY_MAX:,} characters")
        digest = self.digest(text)
        return Key(digest, self._shown(text, digest), text)

    def _shown(self, value: str, digest: str) -> str:
        if self.shown == "digest":
            return _by_digest(digest)
        text = value if self.shown == "plain" else value[: min(len(value) // 2, _CHARACTERS_MAX)] + "…"
        return "".join(character if character.isprintable() else "�" for character in text[:_SHOWN_MAX])


def _by_digest(digest: str) -> str:
    return f"#{digest[:16]}"
