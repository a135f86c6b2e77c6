"""
The OpenAPI document is what the port of HTTP does: what it allows is answered as it says, and what it does not allow is refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import CheckFunction

    from tests.service.running import ask, here
else:
    from running import ask, here

RULES = """
version: 1
identity: [{header: x-api-key}, {ip: {}}]
rules:
  - {name: per_client, per: client, quotas: [100/minute, 20 concurrent]}
  - {name: paced, match: {method: POST}, per: ip, quotas: 10/second queue 2s}
  - {name: tried, per: global, quotas: 5/minute, mode: shadow}
"""
EXAMPLES = 25


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """
    A service with rules of many kinds.
    """
    with here(RULES) as service:
        yield f"http://{service.addresses['http']}"


@pytest.fixture(scope="module")
def document(address: str) -> dict[str, Any]:
    """
    The document that the service shows.
    """
    shown: dict[str, Any] = ask(address, "GET", "/openapi.json").json
    return shown


OPERATIONS = [
    ("POST", "/api/v1/rate-limit/check"),
    ("POST", "/api/v1/rate-limit/check/batch"),
    ("POST", "/api/v1/rate-limit/peek"),
    ("POST", "/api/v1/rate-limit/usage"),
    ("POST", "/api/v1/rate-limit/debit"),
    ("POST", "/api/v1/rate-limit/release"),
    ("POST", "/api/v1/rate-limit/renew"),
    ("POST", "/api/v1/rate-limit/reset"),
    ("GET", "/api/v1/rate-limit/forward-auth"),
    ("POST", "/api/v1/rate-limit/forward-auth"),
    ("POST", "/json"),
    ("GET", "/api/v1/rate-limit/top"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
]


REFUSING = [
    ("POST", "/api/v1/rate-limit/check"),
    ("POST", "/api/v1/rate-limit/peek"),
    ("POST", "/api/v1/rate-limit/usage"),
    ("POST", "/api/v1/rate-limit/debit"),
    ("POST", "/api/v1/rate-limit/release"),
    ("POST", "/api/v1/rate-limit/renew"),
    ("POST", "/api/v1/rate-limit/reset"),
    ("GET", "/api/v1/rate-limit/top"),
    ("POST", "/json"),
]
"""Those that take something. A batch is missing: in its place each wrong check is answered on its own."""

CHECKS = [status_code_conformance, content_type_conformance, response_headers_conformance, response_schema_conformance]


def test_every_operation_is_tried(document: dict[str, Any]) -> None:
    """
    The list above is the document's.
    """
    described = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]

    assert sorted(OPERATIONS) == sorted(described)


IDS = [f"{method} {path}" for method, path in OPERATIONS]


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=IDS)
def test_what_the_document_allows_is_answered_as_it_says(method: str, path: str, address: str, document: dict[str, Any]) -> None:
    """
    Statuses, media types, headers and bodies.
    """
    # A denial has the status that the request asks for.
    checks = CHECKS if path.endswith("forward-auth") else [*CHECKS, positive_data_acceptance]
    try_all(document, address, (method, path), GenerationMode.POSITIVE, checks)


@pytest.mark.parametrize(("method", "path"), REFUSING, ids=[path for _, path in REFUSING])
def test_what_the_document_does_not_allow_is_refused(method: str, path: str, address: str, document: dict[str, Any]) -> None:
    """
    With a problem, and not with an answer to something that was not asked.
    """
    try_all(document, address, (method, path), GenerationMode.NEGATIVE, [*CHECKS, negative_data_rejection])


def try_all(document: dict[str, Any], address: str, operation: tuple[str, str], mode: GenerationMode, checks: list[CheckFunction]) -> None:
    """
    Sends many requests of one operation, on one connection.
    """
    method, path = operation
    cases = schemathesis.openapi.from_dict(document)[path][method].as_strategy(generation_mode=mode)
    with requests.Session() as session:

        @settings(max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=cases)
        def each(case: schemathesis.Case[Any]) -> None:
            response = case.call(base_url=address, session=session)
            case.validate_response(response, checks=checks)

        each()


WITH_EXAMPLES = [path for method, path in OPERATIONS if method == "POST" and not path.endswith("forward-auth")]


@pytest.mark.parametrize("path", WITH_EXAMPLES)
def test_examples_of_the_document_are_answered(path: str, address: str, document: dict[str, Any]) -> None:
    """
    Who copies an example gets an answer of the shape that is described beside it.
    """
    operation = document["paths"][path]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    answer = ask(address, "POST", path, example)

    assert answer.status == 200
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(json.loads(answer.body))
