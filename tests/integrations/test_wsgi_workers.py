"""
WSGI applications under gunicorn and granian with workers that share one store: exact counts, and slots that come back.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from tests.conftest import Eventually
    from tests.integrations.serving import Child, left
    from tests.integrations.wsgi_serving import Program
    from tests.servers import Single
else:
    from servers import Single
    from serving import Child, left
    from wsgi_serving import Program

WORKERS = 4
LIMIT = 60
VIEW_LIMITS = {"wsgi_sites:flask": 2, "django_site:wsgi": 2}
"""What the view `few` of a site allows in a minute, in all of its workers together."""


@pytest.fixture
def store() -> Iterator[Single]:
    """
    A server whose counters are those of one test.
    """
    with Single() as server:
        yield server


def gunicorn(application: str, quotas: str, store: Single) -> Program:
    """
    Four workers of an application.
    """
    setting = json.dumps({"QUOTAS": quotas, "STORE": store.url(), "BUDGET": 5.0})
    env = {"QUOTAS": quotas, "STORE": store.url(), "TIDEGATE": setting, "DJANGO_SETTINGS_MODULE": ""}
    return Program.gunicorn(application, workers=WORKERS, env=env)


@pytest.mark.parametrize("application", ["wsgi_sites:plain", "wsgi_sites:flask", "wsgi_sites:pyramid", "django_site:wsgi"])
def test_four_workers_admit_exactly_what_is_allowed(application: str, store: Single) -> None:
    """
    Whichever of them is asked, from many connections at once: by the site, and by a view with a limit of its own.
    """
    with gunicorn(application, f"{LIMIT}/hour", store) as site:
        few = site.statuses(12, "/few", at_once=6) if application != "wsgi_sites:plain" else []
        statuses = site.statuses(LIMIT + 40, at_once=12)
        denied = site.ask()

    by_view = few.count(200)
    assert by_view == VIEW_LIMITS.get(application, len(few))
    assert (LIMIT - by_view, 40 + by_view) == (statuses.count(200), statuses.count(429))
    assert 0 == denied.left["limit"]["r"]
    assert {"limit": {"q": LIMIT, "w": 3600}} == denied.policies


@pytest.mark.parametrize("application", ["plain", "flask"])
def test_granian_admits_exactly_what_is_allowed(application: str, store: Single, eventually: Eventually) -> None:
    """
    Two workers, on a socket in the file system: nobody there has an address, and all are counted together.
    """
    env = {"QUOTAS": f"{LIMIT}/hour", "STORE": store.url()}
    with Child("granian wsgi", application, workers=2, env=env) as site, ThreadPoolExecutor(8) as pool:
        # Also the second one: granian does not end if it is told to while a worker still starts.
        eventually(lambda: site.log.count("Started worker") == 2, 30)
        answers = list(pool.map(lambda _: site.ask("/"), range(LIMIT + 20)))

    admitted = [answer for answer in answers if answer.status == 200]
    assert (LIMIT, 20) == (len(admitted), [answer.status for answer in answers].count(429))
    assert list(range(LIMIT)) == sorted(left(answer)["limit"] for answer in admitted)


@pytest.mark.parametrize(
    ("application", "path", "quotas"),
    [
        ("wsgi_sites:plain", "/stream", "3 concurrent"),
        ("wsgi_sites:flask", "/own", "1000/hour"),
        ("django_site:wsgi", "/stream", "3 concurrent"),
    ],
)
def test_clients_that_go_away_give_slots_back(application: str, path: str, quotas: str, store: Single, eventually: Eventually) -> None:
    """
    Three streams hold all slots of all workers, of the site or of a view; when their clients have gone, three others can.
    """
    with gunicorn(application, quotas, store) as site:
        for _ in range(2):
            streams: list[socket.socket] = []

            def one_more(streams: list[socket.socket] = streams) -> bool:
                connection = site.open(path)
                if connection.recv(12).endswith(b"200"):
                    streams.append(connection)
                    return True
                connection.close()
                return False

            for _ in range(3):
                eventually(one_more, within=20)
            assert not one_more()
            for connection in streams:
                connection.close()
