"""
What files look like: enough to see that one of them has changed.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tidegate.rules.files import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable

Look: TypeAlias = "dict[Path, object]"
"""For each path what was seen there; two looks are equal if nothing has changed."""


def glance(paths: Iterable[Path]) -> Look:
    """
    Looks at files from outside, which costs next to nothing.

    Args:
        paths: Files and directories; they need not exist.

    Returns:
        For a file its identity, size and times, for a directory the files of rules in it.
    """
    return {path: _names(path) if path.is_dir() else _stat(path) for path in paths}


def read(paths: Iterable[Path]) -> Look:
    """
    Looks at what files say: two writes within one tick of the file system's clock look alike from outside.

    Args:
        paths: Files and directories; they need not exist.

    Returns:
        For a file a digest, because it may hold a secret; for a directory the files of rules in it.
    """
    return {path: _names(path) if path.is_dir() else _digest(path) for path in paths}


def directories(paths: Iterable[Path]) -> frozenset[tuple[str, int, int]]:
    """
    Where changes of files become known: editors and Kubernetes replace files, so the file itself cannot be watched.

    Args:
        paths: Files and directories.

    Returns:
        Each directory that exists, with what tells it from another one of the same name.
    """
    found = set()
    for path in paths:
        # A file behind a link changes in one directory, and the link in another.
        for one in {path, Path(os.path.realpath(path))}:
            folder = one if one.is_dir() else one.parent
            try:
                info = folder.stat()
            except OSError:
                continue
            found.add((str(folder), info.st_dev, info.st_ino))
    return frozenset(found)


def _names(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in folder.iterdir() if path.name.lower().endswith(SUFFIXES)))
    except OSError:
        return ()


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        info = path.stat()
    except (OSError, ValueError):
        return None
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _digest(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (OSError, ValueError):
        return None
