"""
The JSON Schema of rules.yaml, with which editors complete and check it.

It is made from the table of keys (`fields.py`). What needs more than shapes, such as whether a tier exists, only `lint` can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.rules.fields import CONDITION, COST, FILE, IP, JWT, OVERRIDE, QUOTA, RULE, SOURCE, TESTS, TEXT, Field, ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """
    Describes a file of rules.

    Returns:
        A JSON Schema of draft 2020-12.
    """
    return {
        "$schema": DIALECT,
        "title": "Tidegate rules",
        "description": "Who is limited, on what, how much.",
        **_object(FILE),
        "$defs": {**_simple(), **_quotas(), **_conditions(), **_sections()},
    }


def _object(fields: Mapping[str, Field], **more: Any) -> dict[str, Any]:  # noqa: ANN401  # keywords of JSON Schema
    required = [field.name for field in fields.values() if field.is_required]
    return {
        "type": "object",
        "properties": {name: _property(field) for name, field in fields.items()},
        "additionalProperties": False,
        **({"required": required} if required else {}),
        **more,
    }


def _property(field: Field) -> dict[str, Any]:
    examples = {"examples": list(field.examples)} if field.examples else {}
    return {"description": field.about, **field.shape, **examples}


def _exactly_one(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"required": [name]} for name in names]


def _any_of(*shapes: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(shapes)}


def _simple() -> dict[str, Any]:
    return {
        "attribute": TEXT | {"description": "The name of an attribute, `header:name` or `query:name`."},
        "texts": _any_of(TEXT, {"type": "array", "items": TEXT}),
        "duration": _any_of(TEXT, {"type": "integer", "minimum": 0}),
        "percent": _any_of(
            {"type": "string", "pattern": "^(100(\\.0{1,2})?|[0-9]{1,2}(\\.[0-9]{1,2})?)%$"},
            {"type": "integer", "minimum": 0, "maximum": 100},
        ),
    }


def _quotas() -> dict[str, Any]:
    return {
        "quota_text": {
            "type": "string",
            "minLength": 1,
            "description": "Such as `100/minute burst 20`; several are divided by commas.",
            "examples": ["100/minute", "10/second burst 50", "20 concurrent", "10000/day calendar Europe/Berlin", "unlimited"],
        },
        "quota": _object(QUOTA, description="A quota with every parameter."),
        "quotas": _any_of(
            ref("quota_text"), ref("quota"), {"type": "array", "minItems": 1, "items": _any_of(ref("quota_text"), ref("quota"))}
        ),
    }


def _conditions() -> dict[str, Any]:
    tests = (*TESTS, "present", "not")
    return {
        "condition": _any_of(TEXT, {"type": "array", "minItems": 1, "items": TEXT}, _object(CONDITION, oneOf=_exactly_one(tests))),
        "match": {
            "type": "object",
            "properties": {
                "method": {
                    "description": "Exact, or a list; case does not matter.",
                    **ref("condition"),
                    "examples": ["POST", ["GET", "HEAD"]],
                },
                "path": {
                    "description": "A pattern: `*` is one segment, `**` the rest, `{name}` one that becomes an attribute.",
                    **ref("condition"),
                    "examples": ["/api/v1/orders/**", "/users/{user_id}"],
                },
                "host": {
                    "description": "A glob; case does not matter, and the port is ignored.",
                    **ref("condition"),
                    "examples": ["*.example.org"],
                },
                "ip": {"description": "The client's address.", **ref("condition"), "examples": [{"cidr": "10.0.0.0/8"}]},
                "tier": {"description": "The client's plan.", **ref("condition"), "examples": ["pro"]},
                "headers": {"description": "Headers, in any case.", "type": "object", "additionalProperties": ref("condition")},
                "query": {"description": "Parameters of the query.", "type": "object", "additionalProperties": ref("condition")},
            },
            "additionalProperties": ref("condition"),
        },
    }


def _sections() -> dict[str, Any]:
    key_sources = [{"required": [name]} for name in ("secret_file", "secret_env", "public_key_file", "verified_by")]
    plan = _object({name: OVERRIDE[name] for name in ("quotas", "tier")}, oneOf=_exactly_one(("quotas", "tier")))
    return {
        "source": _object(SOURCE, oneOf=_exactly_one(("header", "jwt_claim", "attribute", "ip"))),
        "ip": _object(IP),
        "jwt": _object(JWT, oneOf=key_sources),
        "cost": _any_of({"type": "integer", "minimum": 0}, ref("attribute"), _object(COST)),
        "overrides": _any_of(
            {"type": "object", "additionalProperties": _any_of(ref("quotas"), plan)},
            {"type": "array", "items": _object(OVERRIDE, oneOf=_exactly_one(("quotas", "tier")))},
        ),
        "rule": _object(RULE, anyOf=[{"required": ["per", "quotas"]}, {"required": ["stop"], "properties": {"stop": {"const": True}}}]),
    }
