"""
The section `jwt`: how the claims of a token are verified.

No message shows a secret, nor a part of one.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tidegate.rules.fields import JWT, JWT_ALGORITHMS, read_fields
from tidegate.rules.model import Jwt
from tidegate.rules.names import HEADER_NAME, meant
from tidegate.rules.scalars import read_seconds, read_text, read_texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidegate.rules.document import Document
    from tidegate.rules.node import Node, Scalar

_KEYS = ("secret_file", "secret_env", "public_key_file")
_KEY_BYTES_MAX = 64 * 1024
_SECRET_BYTES_GOOD = 32
_FAMILIES = {"HS": "secret", "RS": "RSA key", "PS": "RSA key", "ES": "EC key", "Ed": "Ed25519 key"}


def read_jwt(document: Document, node: Node, opened: Callable[[Path], None]) -> Jwt | None:
    """
    How claims are verified.

    Args:
        document: Where problems are noted.
        node: What stands under `jwt`.
        opened: Is told which files were read.

    Returns:
        The section with its keys read, or `None` if something is wrong with it.
    """
    entries = read_fields(document, node, JWT, "`jwt`")
    if entries is None:
        return None
    before = len(document.report.problems)
    header = _read_header(document, entries)
    if "verified_by" in entries:
        _read_verified_by(document, entries)
        is_right = len(document.report.problems) == before
        return Jwt(header=header, verified_by="upstream") if is_right else None
    given = _read_parts(document, entries)
    algorithms = _read_algorithms(document, node, entries)
    key = _read_key(document, node, entries, algorithms, opened)
    if key is None or any(problem.is_error for problem in document.report.problems[before:]):
        return None
    return Jwt(header=header, algorithms=algorithms, **given, **key)


def _read_header(document: Document, entries: dict[str, tuple[Scalar, Node]]) -> str:
    if "header" not in entries:
        return "authorization"
    node = entries["header"][1]
    text = read_text(document, node) or "authorization"
    if not HEADER_NAME.fullmatch(text):
        document.add("bad-attribute", node, f"`{text:.80}` is no name of a header", "write letters, digits and -, as in authorization")
    return text.lower()


def _read_verified_by(document: Document, entries: dict[str, tuple[Scalar, Node]]) -> None:
    node = entries["verified_by"][1]
    text = read_text(document, node)
    if text is not None and text != "upstream":
        document.add("unknown-choice", node, f"`{text:.80}` is not `upstream`", "write `verified_by: upstream`, or name a key")
    for name in entries.keys() - {"verified_by", "header"}:
        message = f"`{name}` has no effect where the signature is not looked at"
        document.add("jwt-verified-by", entries[name][0], message, f"remove `{name}`, or remove `verified_by` and verify here")


def _read_parts(document: Document, entries: dict[str, tuple[Scalar, Node]]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if "issuer" in entries:
        given["issuer"] = read_text(document, entries["issuer"][1])
    if "audience" in entries:
        given["audience"] = tuple(text for _, text in read_texts(document, entries["audience"][1]))
    if "leeway" in entries:
        given["leeway_s"] = read_seconds(document, entries["leeway"][1])
    return given


def _read_algorithms(document: Document, node: Node, entries: dict[str, tuple[Scalar, Node]]) -> tuple[str, ...]:
    if "algorithms" not in entries:
        document.add("missing-key", node, "`jwt` needs `algorithms`", "add `algorithms: [HS256]`, or `verified_by: upstream`")
        return ()
    found = []
    for scalar, text in read_texts(document, entries["algorithms"][1]):
        if text.lower() == "none":
            document.add(
                "jwt-algorithm-none",
                scalar,
                "`none` accepts tokens that nobody signed",
                "name the algorithm with which your tokens are signed",
            )
        elif text not in JWT_ALGORITHMS:
            by_case = {name.lower(): name for name in JWT_ALGORITHMS}
            hint = f"write {by_case[text.lower()]}" if text.lower() in by_case else meant(text, JWT_ALGORITHMS)
            document.add("unknown-choice", scalar, f"`{text:.80}` is no algorithm of tokens", hint)
        else:
            found.append(text)
    families = {_FAMILIES[name[:2]] for name in found}
    if len(families) > 1:
        message = f"one key cannot serve all of {', '.join(found)}"
        document.add(
            "jwt-key-mismatch", entries["algorithms"][1], message, "name the algorithm with which your tokens are signed, and no other"
        )
        return ()
    return tuple(dict.fromkeys(found))


def _read_key(
    document: Document, node: Node, entries: dict[str, tuple[Scalar, Node]], algorithms: tuple[str, ...], opened: Callable[[Path], None]
) -> dict[str, Any] | None:
    names = [name for name in _KEYS if name in entries]
    if len(names) != 1:
        message = f"`jwt` needs exactly one of {', '.join(_KEYS)}, and has {', '.join(names) or 'none'}"
        document.add("jwt-key-source", node, message, "keep one, or write `verified_by: upstream` if somebody in front verifies tokens")
        return None
    key, value = entries[names[0]]
    text = read_text(document, value)
    if text is None:
        return None
    is_secret = names[0] != "public_key_file"
    if algorithms and (algorithms[0][:2] == "HS") != is_secret:
        wanted = "secret_file or secret_env" if not is_secret else "public_key_file"
        message = f"{algorithms[0]} is verified with a {_FAMILIES[algorithms[0][:2]]}, not with `{names[0]}`"
        document.add("jwt-key-mismatch", key, message, f"use {wanted}, or another algorithm")
        return None
    found = _environment(document, value, text) if names[0] == "secret_env" else _file(document, value, text, opened)
    if found is None:
        return None
    if is_secret:
        return {"secret": found} if _is_secret(document, value, found) else None
    return {"public_key": found.decode("ascii")} if _is_public_key(document, value, found) else None


def _environment(document: Document, node: Node, name: str) -> bytes | None:
    value = os.environ.get(name)
    if value is None:
        document.add("jwt-key-unreadable", node, f"there is no environment variable `{name:.80}`", "set it where Tidegate runs")
        return None
    return value.encode("utf-8", "surrogateescape")


def _file(document: Document, node: Node, name: str, opened: Callable[[Path], None]) -> bytes | None:
    path = document.path.parent / name
    hint = "name a file that Tidegate may read; the path is relative to this file"
    try:
        if not path.is_file():
            document.add("jwt-key-unreadable", node, f"there is no file `{name:.80}`", hint)
            return None
        opened(path)
        with path.open("rb") as file:
            found = file.read(_KEY_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no path"
        document.add("jwt-key-unreadable", node, f"`{name:.80}` cannot be read: {reason}", hint)
        return None
    if len(found) > _KEY_BYTES_MAX:
        document.add("jwt-key-unreadable", node, f"`{name:.80}` is too large for a key", hint)
        return None
    # Editors end files with a line end that is no part of a secret.
    return found.rstrip(b"\r\n")


def _is_secret(document: Document, node: Node, secret: bytes) -> bool:
    if not secret:
        document.add("jwt-key-unreadable", node, "the secret is empty", "an empty secret is known to everybody")
        return False
    if secret.lstrip().startswith(b"-----BEGIN"):
        # Signing with a public key as if it were a secret is the oldest attack on tokens.
        document.add("jwt-key-mismatch", node, "the secret is a key in PEM", "use public_key_file, and an algorithm such as RS256")
        return False
    if len(secret) < _SECRET_BYTES_GOOD:
        document.add(
            "jwt-secret-short",
            node,
            f"the secret has fewer than {_SECRET_BYTES_GOOD} bytes",
            "use a longer one: short secrets can be guessed",
        )
    return True


def _is_public_key(document: Document, node: Node, key: bytes) -> bool:
    if b"PRIVATE KEY" in key:
        document.add("jwt-key-mismatch", node, "the file holds a private key", "give Tidegate the public key only")
        return False
    if not (key.lstrip().startswith(b"-----BEGIN") and b"PUBLIC KEY-----" in key and key.isascii()):
        document.add("jwt-key-unreadable", node, "the file holds no public key in PEM", "it begins with -----BEGIN PUBLIC KEY-----")
        return False
    return True
