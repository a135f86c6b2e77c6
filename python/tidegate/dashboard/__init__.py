"""
The dashboard: pages about what the limiter does and who may change it, served by the control plane.

Pages are made in Python, with charts as SVG; one script keeps parts of them current, and nothing needs it. One module per page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import APIRouter


def routers() -> tuple[APIRouter, ...]:
    """
    The routes of all pages.
    """
    from tidegate.dashboard import audit, changes, editor, instances, key_changes, keys, overview, revisions, rules, sign_in, tiers, tokens  # noqa: PLC0415

    pages = (sign_in, overview, instances, rules, editor, revisions, changes, keys, key_changes, tiers, audit, tokens)
    return tuple(page.routes for page in pages)
