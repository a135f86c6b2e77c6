"""
Django on uvicorn: whatever ends a request gives its slots back, and a store that is frozen does not stop the event loop.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.integrations.wsgi_serving import Program
    from tests.servers import Single
else:
    from servers import Single
    from wsgi_serving import Program

SLOTS = 2


def uvicorn(quotas: str, *, middleware: bool = True, **setting: Any) -> Program:  # noqa: ANN401  # whatever the setting has
    """
    The site in a process of its own.
    """
    whole = {"QUOTAS": quotas, "EXEMPT": ["/held", "/healthz"], **setting}
    return Program.uvicorn("django_site:asgi", env={"TIDEGATE": json.dumps(whole), "MIDDLEWARE": str(int(middleware))})


@pytest.fixture(scope="module", params=["middleware", "views"])
def site(request: pytest.FixtureRequest) -> Iterator[Program]:
    """
    Slots by the middleware and by views, or by views alone.
    """
    with uvicorn(f"{SLOTS} concurrent", middleware=request.param == "middleware") as site:
        yield site


@pytest.fixture
def nothing_held(site: Program, eventually: Eventually) -> Iterator[None]:
    """
    After the test the site says that it holds nothing.
    """
    yield
    eventually(lambda: held(site) == 0, within=20)


def held(site: Program) -> int:
    """
    How many slots the process holds.
    """
    return int(site.ask("GET", "/held").body)


@pytest.mark.usefixtures("nothing_held")
@pytest.mark.parametrize("path", ["/own_stream_async", "/own_forever"])
def test_a_client_that_goes_away_gives_its_slots_back(site: Program, path: str, eventually: Eventually) -> None:
    """
    While the view runs, or while its response is streamed.
    """
    connection = site.open(path)
    eventually(lambda: held(site) > 0, within=20)
    assert 429 == site.ask("GET", path).status
    connection.close()
    eventually(lambda: held(site) == 0, within=20)


@pytest.mark.usefixtures("nothing_held")
@pytest.mark.parametrize("path", ["/own_torn", "/own_torn_async", "/own_broken"])
def test_a_response_that_breaks_gives_its_slots_back(site: Program, path: str, eventually: Eventually) -> None:
    """
    Django closes nothing then, and the slot comes back all the same.
    """
    for _ in range(SLOTS + 1):
        with site.open(path) as connection:
            assert b"429" not in connection.recv(12)
            while connection.recv(65536):
                pass
        eventually(lambda: held(site) == 0, within=20)


def test_fields_are_read_by_a_library_for_them(server: Single) -> None:
    """
    And a path in another alphabet is one path.
    """
    with uvicorn("3/hour", STORE=server.url(), BUDGET=5.0, SECRET="fields") as site:
        answers = [site.ask("GET", "/gr%C3%B6%C3%9Fe") for _ in range(4)]

    assert [200, 200, 200, 429] == [answer.status for answer in answers]
    assert [2, 1, 0, 0] == [answer.left["limit"]["r"] for answer in answers]
    assert {"limit": {"q": 3, "w": 3600}} == answers[0].policies


def test_a_frozen_store_does_not_stop_the_site() -> None:
    """
    Each request waits for its budget at most, and is then decided here.
    """
    with Single() as store, uvicorn("1000/hour", STORE=store.url(), BUDGET=1.0) as site:
        before = site.ask()
        store.freeze()
        try:
            during = site.statuses(20, at_once=10)
            free = site.ask("GET", "/healthz").status
        finally:
            store.thaw()

    assert (200, 999) == (before.status, before.left["limit"]["r"])
    assert ([200] * 20, 200) == (during, free)
