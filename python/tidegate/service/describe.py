"""
The settings as people and editors read them: a table for the reference, a JSON Schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.service.table import GROUPS, TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate.service.table import Setting

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(table: Mapping[str, Setting] = TABLE) -> dict[str, Any]:
    """
    What an editor may accept in a file of settings.

    Args:
        table: The settings that there are.

    Returns:
        A JSON Schema of draft 2020-12.
    """
    schema: dict[str, Any] = {"$schema": DIALECT, "title": "Tidegate settings", "description": "How the service is set up.", **_object()}
    for setting in table.values():
        place = schema
        *sections, name = setting.key.split(".")
        for section in sections:
            place = place["properties"].setdefault(section, _object())
        default = {"default": setting.default_text} if setting.default is not None else {}
        place["properties"][name] = {"description": setting.about, **setting.kind.schema(), **default}
    return schema


def markdown(groups: Mapping[str, tuple[Setting, ...]] = GROUPS) -> str:
    """
    The table of the reference.

    Args:
        groups: The settings by their headings.

    Returns:
        A heading and a table for each group.
    """
    return "\n\n".join(_group(title, group) for title, group in groups.items()) + "\n"


def _object() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _group(title: str, group: tuple[Setting, ...]) -> str:
    rows = "\n".join(f"| `{setting.key}` | {_default(setting)} | {setting.about} |" for setting in group)
    return f"\n## {title}\n\n| key | default | meaning |\n| --- | --- | --- |\n{rows}"


def _default(setting: Setting) -> str:
    return f"`{setting.default_text}`" if setting.default_text else ""
