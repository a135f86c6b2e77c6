"""
The throttle class of Django REST framework.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, override_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.integrations import django_site, django_urls
    from tests.service.running import here
else:
    import django_site
    import django_urls
    from service.running import here

from tidegate.errors import ConfigError
from tidegate.integrations.django._settings import state


@pytest.fixture(autouse=True, params=["with middleware", "alone"])
def _site(request: pytest.FixtureRequest, eventually: Eventually) -> Iterator[None]:
    """
    A site whose API limits itself, with the middleware and without it. Afterwards nothing is held.
    """
    middleware = [django_site.MIDDLEWARE] if request.param == "with middleware" else []
    with override_settings(TIDEGATE={}, MIDDLEWARE=middleware):
        yield
        django_urls.may_end.set()
        eventually(lambda: not any(guard.held for guard in state().routes._guards.values()))
        django_urls.may_end.clear()


def ask(path: str, **headers: str) -> Any:  # noqa: ANN401  # Django's response, with what its client adds
    """
    One request.
    """
    return Client().get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def statuses(*paths: str, **headers: str) -> list[int]:
    """
    The statuses of requests, one after the other.
    """
    return [ask(path, **headers).status_code for path in paths]


def test_responses_tell_what_is_left() -> None:
    """
    And a denial says when to come back: the framework's own body and the header agree.
    """
    answers = [ask("/api") for _ in range(3)]

    assert [200, 200, 429] == [answer.status_code for answer in answers]
    assert ['"2-per-minute";r=1;t=60', '"2-per-minute";r=0;t=60'] == [answer.headers["RateLimit"] for answer in answers[:2]]
    denied = answers[-1]
    assert denied.headers["RateLimit"].startswith('"2-per-minute";r=0;t=')
    assert f"in {denied.headers['Retry-After']} seconds" in denied.json()["detail"]


def test_views_of_one_class_are_counted_together() -> None:
    """
    As the framework's own throttles do it.
    """
    assert [200, 200, 429, 429] == statuses("/api", "/other_api", "/api", "/other_api")


def test_clients_are_counted_by_key() -> None:
    """
    And those without one by address.
    """
    assert [200, 200, 429] == statuses("/api", "/api", "/api", x_user="a")
    assert [200] == statuses("/api", x_user="b")
    assert [200, 200, 429] == statuses("/api", "/api", "/api")


def test_a_key_that_cannot_be_found_counts_by_address(caplog: pytest.LogCaptureFixture) -> None:
    """
    That nobody is logged in is no news; an error is, once and without its message.
    """
    with caplog.at_level(logging.WARNING, logger="tidegate"):
        assert [200] == statuses("/api")
        assert not [record for record in caplog.records if record.name.startswith("tidegate")]
        assert [200, 429] == statuses("/api", "/api", x_error="secret")

    assert 1 == len([record for record in caplog.records if record.name.startswith("tidegate")])
    assert "secret" not in caplog.text


def test_what_one_throttle_denies_is_not_charged_by_another() -> None:
    """
    The framework asks all of them in any case.
    """
    assert [200, 429, 429, 429] == statuses(*["/own_api"] * 4)
    assert [200, 429] == statuses("/api", "/api")


def test_a_class_without_quotas_is_a_mistake() -> None:
    """
    It says what to write.
    """
    with pytest.raises(ImproperlyConfigured, match="throttle_quotas"):
        ask("/empty_api")


def test_slots_are_held_until_the_response_has_ended() -> None:
    """
    A stream holds one as long as it runs.
    """
    running = ask("/slot_api")
    denied = ask("/slot_api")
    running.close()
    after = ask("/slot_api")
    after.close()

    assert [200, 429, 200] == [running.status_code, denied.status_code, after.status_code]


def test_everything_can_be_switched_off() -> None:
    """
    For tests of the site.
    """
    with override_settings(TIDEGATE={"ENABLED": False}):
        assert [200] * 3 == statuses("/api", "/api", "/api")


def test_with_a_service_the_throttle_needs_a_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Its quotas are in the code, and a service counts by its own rules. Then both count, each its own.
    """
    # The budget of a client is shorter than a busy machine may take.
    monkeypatch.setattr("tidegate.client.options.BUDGET", 10.0)
    is_asked = "with middleware" in request.node.name
    with here("{version: 1, rules: [{name: all, per: global, quotas: 3/hour}]}") as service:
        setting = {"SERVICE": f"http://{service.addresses['http']}"}
        with override_settings(TIDEGATE=setting), pytest.raises(ConfigError, match="store="):
            ask("/api")
        with override_settings(TIDEGATE={**setting, "STORE": "memory://"}):
            answers = [ask("/api", x_user=user) for user in ("a", "a", "a", "b")]

    # The request that found no store was one for the service too.
    assert ([200, 200, 429, 429] if is_asked else [200, 200, 429, 200]) == [answer.status_code for answer in answers]
    assert is_asked == ('"all";r=1' in answers[0].headers["RateLimit"])
