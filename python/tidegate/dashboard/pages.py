"""
All pages, for the application that serves them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidegate.dashboard import audit, changes, editor, instances, key_changes, keys, overview, revisions, rules, sign_in, tiers, tokens

if TYPE_CHECKING:
    from fastapi import APIRouter

PAGES: Final[tuple[APIRouter, ...]] = tuple(
    module.routes for module in (sign_in, overview, instances, rules, editor, revisions, changes, keys, key_changes, tiers, audit, tokens)
)
"""The routes of all pages. None of them is part of the API, nor of its OpenAPI document."""
