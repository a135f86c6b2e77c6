"""
Large documents: a million objects at once, of which none is garbage before the end.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def garbage_waits() -> Iterator[None]:
    """
    Lets nobody look for garbage while a large document is read: that took up to as long as reading it.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
