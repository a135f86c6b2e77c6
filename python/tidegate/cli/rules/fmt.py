"""
`tidegate rules fmt`: files of rules in their canonical form.
"""

from __future__ import annotations

import difflib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.errors import UsageError
from tidegate.rules.envoy import is_envoy
from tidegate.rules.files import FILE_BYTES_MAX, SUFFIXES
from tidegate.rules.fmt import format_text

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_DIFFERENT = 1
STDIN = "-"


def fmt(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files or directories; - formats the input.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing, and say which files would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing, and show what would change.")] = False,
) -> None:
    """
    Rewrite files of rules: one order of keys, one indentation. Comments stay.

    Exit code 0: done, or nothing to do. 1: with --check or --diff, files would change. 2: wrong usage, or a file is no YAML.
    """
    is_different = False
    for name in paths:
        if name == STDIN:
            typer.echo(format_text(sys.stdin.read()), nl=False)
            continue
        for path in _files(Path(name)):
            is_different |= _format(path, is_kept=check or diff, is_shown=diff)
    if is_different and (check or diff):
        raise typer.Exit(EXIT_DIFFERENT)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = sorted(path.rglob("*"))
        yield from (file for file in found if file.suffix in SUFFIXES and file.is_file() and not _is_hidden(file, path))
    elif path.is_file():
        yield path
    else:
        raise UsageError(f"{path}: there is no such file or directory\nhint: look at the spelling, and from where the path begins")


def _is_hidden(file: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(root).parts)


def _format(path: Path, *, is_kept: bool, is_shown: bool) -> bool:
    if path.stat().st_size > FILE_BYTES_MAX:
        raise UsageError(f"{path}: the file is too large\nhint: divide it into several files")
    try:
        before = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: byte {error.start} is not UTF-8\nhint: save the file as UTF-8") from error
    if is_envoy(before):
        # Those files belong to another program too, which has no such form.
        return False
    after = format_text(before, str(path))
    if after == before:
        return False
    if is_shown:
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), "as it is", "formatted", lineterm="")
        typer.echo("\n".join(lines))
    elif is_kept:
        typer.echo(f"would change {path}")
    else:
        _replace(path.resolve(), after)
        typer.echo(f"changed {path}")
    return True


def _replace(path: Path, text: str) -> None:
    # Whoever watches the file sees the old one or the new one, and nothing between.
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        file.write(text.encode())
    shutil.copymode(path, file.name)
    Path(file.name).replace(path)
