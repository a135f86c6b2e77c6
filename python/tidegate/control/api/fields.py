"""
Fields that routes about customers have in common.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Path, Query
from pydantic import Field

from tidegate.control.api.access import Control
from tidegate.control.api.problem import Problem
from tidegate.control.audit import REASON_MAX
from tidegate.control.keys import KEY_MAX, BadKey, Key, Keys
from tidegate.control.quotas import QUOTAS_MAX, RULES_MAX, TEXT_MAX, Refused, read

NAME_MAX: Final = 128
LIMIT_MAX: Final = 1000
_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"

ApiKey = Annotated[
    str, Path(min_length=1, max_length=KEY_MAX, description="The key of a customer, or `digest:` and the digest that lists show.")
]
Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX, pattern=_PRINTABLE)]
InPath = Annotated[str, Path(min_length=1, max_length=NAME_MAX, pattern=_PRINTABLE)]
Reason = Annotated[str, Field(max_length=REASON_MAX)]
WhyQuery = Annotated[str, Query(max_length=REASON_MAX, description="Why, for the audit log.")]
Word = Annotated[str | None, Query(max_length=300)]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Text = Annotated[str, Field(min_length=1, max_length=TEXT_MAX)]
QuotasByRule = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.\-]+$")],
        Text | Annotated[list[Text], Field(min_length=1, max_length=QUOTAS_MAX)],
    ],
    Field(max_length=RULES_MAX, examples=[{"per_client": "500/minute"}]),
]


def key_of(control: Control, text: str) -> Key:
    """
    The key that a path names.

    Args:
        control: The control plane.
        text: What stands in the path.

    Returns:
        The key.

    Raises:
        Problem: It is none.
    """
    try:
        return Keys.of(control.settings).read(text)
    except BadKey as error:
        raise Problem(422, f"api_key: {error}") from None


def read_quotas(given: dict[str, Any]) -> dict[str, list[str]]:
    """
    Checks quotas by rule.

    Args:
        given: As a body has them.

    Returns:
        The same as lists.

    Raises:
        Problem: With everything that is wrong.
    """
    try:
        return read(given, "body.quotas")
    except Refused as error:
        raise Problem(422, str(error), problems=error.problems) from None
