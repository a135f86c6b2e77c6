"""
Tokens: made once, shown once, ended at once.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Event, Thread
from typing import TYPE_CHECKING

from sqlalchemy import select, text

from tidegate.control import tokens
from tidegate.control.caller import Caller
from tidegate.control.database import Database
from tidegate.control.models import Token
from tidegate.control.roles import Role

if TYPE_CHECKING:
    from tests.control.controlling import Clients, Clock, token_of
    from tidegate.control.control import Control
else:
    from controlling import token_of


TOKENS = "/admin/v1/tokens"


def test_a_token_is_shown_once(client: Clients) -> None:
    """
    When it is made; neither the list nor the audit log nor the database has it.
    """
    made = client.admin.post("/admin/v1/tokens", json={"name": "ci", "role": "editor"})
    secret = made.json()["token"]

    assert 201 == made.status_code, made.text
    assert secret.startswith("tg_")
    assert len(secret) >= 43
    for path in ("/admin/v1/tokens", "/admin/v1/audit"):
        assert secret not in client.admin.get(path).text
    with client.control.database.reading() as session:
        row = session.scalars(select(Token).where(Token.name == "ci")).one()
        kept = session.execute(text("SELECT * FROM tokens")).all()
    assert hashlib.sha256(secret.encode()).hexdigest() == row.digest
    assert secret not in str(kept)


def test_a_token_opens_what_its_role_may(client: Clients) -> None:
    """
    As soon as it is made.
    """
    secret = client.admin.post("/admin/v1/tokens", json={"name": "ci", "role": "editor"}).json()["token"]
    me = client.with_token(secret).get("/api/v1/session").json()

    assert {"name": "ci", "role": "editor"} == {key: me[key] for key in ("name", "role")}
    assert me["csrf"] is None


def test_a_revoked_token_opens_nothing_at_once(client: Clients) -> None:
    """
    Also on a connection that was opened with it.
    """
    made = client.admin.post("/admin/v1/tokens", json={"name": "ci", "role": "viewer"}).json()
    program = client.with_token(made["token"])
    before = program.get("/admin/v1/audit").status_code
    revoked = client.admin.delete(f"/admin/v1/tokens/{made['id']}", params={"reason": "left"})
    after = program.get("/admin/v1/audit")

    assert (200, 401) == (before, after.status_code)
    assert "application/problem+json" == after.headers["content-type"]
    assert after.headers["www-authenticate"].startswith("Bearer")
    assert revoked.json()["revoked_at"] is not None
    assert revoked.json()["is_good"] is False


def test_a_token_that_is_revoked_while_it_is_used_opens_nothing_afterwards(client: Clients) -> None:
    """
    Many requests are under way when it is revoked: each is answered whole or refused, and from then on every one is refused.
    """
    created = client.admin.post(TOKENS, json={"name": "busy", "role": "editor"}).json()
    user, is_revoked = client.with_token(created["token"]), Event()

    def use(number: int) -> list[tuple[bool, int]]:
        answers: list[tuple[bool, int]] = []
        while not answers or answers[-1][1] != 401:
            was_revoked = is_revoked.is_set()
            body = {"quotas": {"everybody": f"{number + 1}/minute"}}
            answers.append((was_revoked, user.put(f"/admin/v1/tiers/tier-{number}", json=body).status_code))
        return answers

    with ThreadPoolExecutor(4) as pool:
        used = [pool.submit(use, number) for number in range(4)]
        client.admin.delete(f"{TOKENS}/{created['id']}")
        is_revoked.set()
        answers = [answer for one in used for answer in one.result()]

    assert {200, 401} >= {status for _, status in answers}
    assert {401} >= {status for was_revoked, status in answers if was_revoked}


def test_a_token_can_be_revoked_twice(client: Clients) -> None:
    """
    The second time changes nothing, and is not in the audit log.
    """
    number = client.admin.post("/admin/v1/tokens", json={"name": "ci", "role": "viewer"}).json()["id"]
    first, second = (client.admin.delete(f"/admin/v1/tokens/{number}").json() for _ in range(2))
    entries = client.admin.get("/admin/v1/audit", params={"action": "token.revoke"}).json()["entries"]

    assert first == second
    assert 1 == len(entries)


def test_a_token_ends_when_it_was_said(client: Clients, clock: Clock) -> None:
    """
    Not a moment later.
    """
    ends = clock.at + timedelta(hours=1)
    made = client.admin.post("/admin/v1/tokens", json={"name": "guest", "role": "viewer", "expires_at": ends.isoformat()})
    guest = client.with_token(made.json()["token"])
    clock.advance(minutes=59, seconds=59)
    before = guest.get("/api/v1/session").status_code
    clock.advance(seconds=1)
    after = guest.get("/api/v1/session").status_code

    assert (200, 401) == (before, after)


def test_a_clock_that_goes_back_opens_no_revoked_token(client: Clients, clock: Clock) -> None:
    """
    What was revoked stays so.
    """
    made = client.admin.post("/admin/v1/tokens", json={"name": "ci", "role": "viewer"}).json()
    client.admin.delete(f"/admin/v1/tokens/{made['id']}")
    clock.advance(days=-1)

    assert 401 == client.with_token(made["token"]).get("/api/v1/session").status_code


WRONG: list[object] = [
    {"name": "x", "role": "king"},
    {"name": "", "role": "viewer"},
    {"name": "x" * 129, "role": "viewer"},
    {"name": "a\nb", "role": "viewer"},
    {"name": "x\0y", "role": "viewer"},
    {"name": "x", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"},
    {"name": "x", "role": "viewer", "expires_at": "2099-01-01T00:00:00"},
    {"name": "x", "role": "viewer", "more": 1},
    {"name": "x"},
    [],
]


def test_a_wrong_token_is_not_made(client: Clients) -> None:
    """
    And the answer says what is wrong with it.
    """
    before = len(client.admin.get("/admin/v1/tokens").json())
    answers = [client.admin.post("/admin/v1/tokens", json=body) for body in WRONG]

    assert [422] * len(WRONG) == [answer.status_code for answer in answers]
    assert all(answer.json()["detail"] for answer in answers)
    assert before == len(client.admin.get("/admin/v1/tokens").json())


def test_names_are_never_given_twice(client: Clients) -> None:
    """
    Not even after the first one was revoked: the audit log goes by them.
    """
    made = client.admin.post("/admin/v1/tokens", json={"name": "<b>alice</b>", "role": "viewer"}).json()
    client.admin.delete(f"/admin/v1/tokens/{made['id']}")

    assert 409 == client.admin.post("/admin/v1/tokens", json={"name": "<b>alice</b>", "role": "viewer"}).status_code


def test_a_made_up_token_opens_nothing(client: Clients) -> None:
    """
    Whatever it is.
    """
    for shown in ("x", "tg_", "tg_" + "x" * 10_000, "ümlaut", "' OR 1=1 --"):
        answer = client.nobody.get("/api/v1/session", headers={b"authorization": b"Bearer " + shown.encode()})

        assert 401 == answer.status_code


def test_the_use_of_a_token_is_noted(control: Control, client: Clients, clock: Clock) -> None:
    """
    About: a minute is exact enough, and reading does not write each time.
    """
    secret = token_of(control, Role.VIEWER, "seen")
    program = client.with_token(secret)

    def used() -> object:
        with control.database.reading() as session:
            return session.scalars(select(Token.used_at).where(Token.name == "seen")).one()

    assert used() is None
    first = clock.at
    program.get("/api/v1/session")
    clock.advance(seconds=30)
    program.get("/api/v1/session")
    assert used() == first
    clock.advance(seconds=31)
    program.get("/api/v1/session")
    assert used() == clock.at


def test_of_several_processes_one_makes_the_first_token(database: Database, clock: Clock) -> None:
    """
    And nobody after them.
    """
    made: list[str | None] = []
    together = Barrier(4)

    def start() -> None:
        own = Database(database.url.render_as_string(hide_password=False))
        together.wait()
        made.append(tokens.create_first(own, Caller("tidegate", Role.ADMIN, "local", clock())))
        own.close()

    threads = [Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == sum(secret is not None for secret in made)
    assert tokens.create_first(database, Caller("tidegate", Role.ADMIN, "local", clock())) is None
