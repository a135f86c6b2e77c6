"""
The OpenAPI document of the control plane is what it does: what it allows or forbids gets an answer that it names, never a 500.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import content_type_conformance, not_a_server_error, response_schema_conformance, status_code_conformance

from tidegate.control.control import Control
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.control.controlling import settings_for, token_of
else:
    from controlling import settings_for, token_of

EXAMPLES = 8
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def plane(sqlite_template: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Control, str]]:  # noqa: ANN401  # a path
    """
    A control plane, and the token of its admin.
    """
    folder = tmp_path_factory.mktemp("plane")
    address = f"sqlite:///{folder}/tidegate.db"
    (folder / "tidegate.db").write_bytes(sqlite_template.read_bytes())
    with Control(settings_for(address, folder, {"admin.cache": "off"})) as control:
        yield control, token_of(control, Role.ADMIN)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"])
@pytest.mark.timeout(300)
def test_every_operation_answers_as_the_document_says(mode: GenerationMode, plane: tuple[Control, str]) -> None:
    """Statuses, media types and bodies, of every operation."""
    control, token = plane
    base = f"http://{control.address}"
    with requests.Session() as session:
        session.headers["authorization"] = f"Bearer {token}"
        document: dict[str, Any] = session.get(f"{base}/openapi.json", timeout=30).json()
        operations = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
        schema = schemathesis.openapi.from_dict(document)

        assert len(operations) > 40

        for method, path in operations:
            # Without its token the test ends.
            if path.startswith("/admin/v1/tokens/"):
                continue
            try_all(schema[path][method].as_strategy(generation_mode=mode), base, session)


def try_all(cases: Any, base: str, session: requests.Session) -> None:  # noqa: ANN401  # a strategy of schemathesis
    """
    Sends many requests of one operation.
    """

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def each(case: schemathesis.Case[Any]) -> None:
        response = case.call(base_url=base, session=session)
        # What is made up for a path can lead to where nothing is.
        checks = [not_a_server_error] if response.status_code in {404, 405} else CHECKS
        case.validate_response(response, checks=checks)

    # There is nothing wrong to say to an operation that takes nothing.
    with contextlib.suppress(Unsatisfiable):
        each()
