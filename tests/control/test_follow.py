"""
From the database to a decision: two instances, files beside the database, a database that goes away and comes back.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tidegate import Limiter
from tidegate._options import engine_options
from tidegate.control import cache, members, quotas, rules
from tidegate.control.caller import Caller
from tidegate.control.database import Database
from tidegate.control.follow import Follower, Following
from tidegate.control.keys import Keys
from tidegate.control.models import StoredRule
from tidegate.control.quotas import Wanted
from tidegate.control.roles import Role
from tidegate.control.rules import Edit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.conftest import Eventually
    from tests.control.conftest import Clock
    from tests.control.controlling import bring_back, take_away
    from tidegate.rule_limiter import RuleLimiter
else:
    from controlling import bring_back, take_away

FILE = "version: 1\nrules:\n  - {name: everybody, per: global, quotas: 1000/minute}\n"


class Instance:
    """
    A data plane with a limiter of its own that follows a database.
    """

    def __init__(self, database: Database, clock: Clock, folder: Path, *, watch: bool = False) -> None:
        self.file = folder / "rules.yaml"
        self.file.write_text(FILE, encoding="utf-8")
        self.limiter: RuleLimiter = Limiter.from_rules(self.file, watch=watch)
        self.noted: list[str | None] = []
        self.following = Following(database, clock, limiter=self.limiter, cache=folder / "kept", note=self.noted.append)
        self.follower = Follower(self.following)

    def names(self) -> list[str]:
        """
        The rules that decide.
        """
        return [rule["rule"] for rule in self.limiter.explain({"client": "x", "path": "/"})["rules"]]

    def close(self) -> None:
        """
        Ends it.
        """
        self.follower.stop()
        self.limiter.close()


@pytest.fixture
def instances(database: Database, clock: Clock, tmp_path: Path) -> Iterator[tuple[Instance, Instance]]:
    """
    Two instances on one database, each with connections of its own.
    """
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(
            Instance(Database(str(database.url.render_as_string(hide_password=False))), clock, tmp_path / name, watch=name == "two")
        )
    yield made[0], made[1]
    for instance in made:
        instance.close()
        instance.following.database.close()


def put(database: Database, clock: Clock, name: str, quotas: str | None = "10/minute", base: int = 0) -> int:
    """
    Changes a rule.
    """
    caller = Caller("tester", Role.ADMIN, "test", clock())
    body = None if quotas is None else {"per": "client", "quotas": quotas}
    with rules.changing(database) as session:
        return rules.put(session, caller, Edit(name, body, base))


def test_every_instance_has_a_change_as_a_whole(
    database: Database, clock: Clock, instances: tuple[Instance, Instance], eventually: Eventually
) -> None:
    """Made by anybody, anywhere, it is in force everywhere, as one generation."""
    put(database, clock, "orders", "2/minute")
    for instance in instances:
        instance.follower.start()
        assert ["everybody", "orders"] == instance.names()

    generations = [instance.limiter.generation for instance in instances]
    with rules.changing(database) as session:
        caller = Caller("tester", Role.ADMIN, "test", clock())
        rules.put(session, caller, Edit("orders", {"per": "client", "quotas": "1/minute"}, 1))
        rules.put(session, caller, Edit("more", {"per": "client", "quotas": "5/minute"}, 0))
    eventually(lambda: all(["everybody", "more", "orders"] == instance.names() for instance in instances))

    assert [generation + 1 for generation in generations] == [instance.limiter.generation for instance in instances]
    # A follower says so when all of it is in force, a moment later.
    eventually(lambda: [database.number()] * 2 == [instance.follower.number for instance in instances])
    assert [True, False] == [instances[0].limiter.allow({"client": "x"}) for _ in range(2)]


def test_files_and_the_database_do_not_overwrite_each_other(
    database: Database, clock: Clock, instances: tuple[Instance, Instance], eventually: Eventually
) -> None:
    """Whichever of the two changes, the other one stays in force."""
    instance = instances[1]
    put(database, clock, "orders")
    instance.follower.start()
    instance.file.write_text(FILE + "  - {name: login, per: ip, quotas: 5/minute}\n", encoding="utf-8")
    eventually(lambda: ["everybody", "login", "orders"] == instance.names())

    put(database, clock, "more")
    eventually(lambda: ["everybody", "login", "more", "orders"] == instance.names())

    instance.file.write_text("version: 1\nrules: [", encoding="utf-8")
    eventually(lambda: instance.limiter.watcher is not None and instance.limiter.watcher.problem is not None)
    put(database, clock, "orders", None, 1)
    eventually(lambda: ["everybody", "login", "more"] == instance.names())

    instance.file.write_text(FILE, encoding="utf-8")
    eventually(lambda: ["everybody", "more"] == instance.names())


def test_a_file_that_takes_the_name_of_a_stored_rule_wins_and_it_is_told(
    database: Database, clock: Clock, instances: tuple[Instance, Instance], eventually: Eventually
) -> None:
    """The rule is in force once, as the file says it, until the file gives the name back."""
    instance = instances[1]
    put(database, clock, "orders")
    instance.follower.start()
    instance.file.write_text(FILE + "  - {name: orders, per: global, quotas: 5/minute}\n", encoding="utf-8")

    eventually(lambda: instance.noted[-1:] != [] and "`orders` is left out" in str(instance.noted[-1]))
    assert ["everybody", "orders"] == instance.names()
    assert ["global", "global"] == ["global" if not rule.per else "client" for rule in instance.limiter.rule_set.rules]

    instance.file.write_text(FILE, encoding="utf-8")
    eventually(lambda: instance.noted[-1] is None)
    assert ("client",) == instance.limiter.rule_set.rules[1].per


def test_a_database_that_goes_away_changes_nothing_and_heals_by_itself(clock: Clock, tmp_path: Path, eventually: Eventually) -> None:
    """Decisions go on by the last good rules, health says why nothing changes, and what was missed is taken when it is back."""
    database = Database(f"sqlite:///{tmp_path}/tidegate.db")
    database.migrate()
    put(database, clock, "orders", "1/minute")
    instance = Instance(database, clock, tmp_path)
    instance.follower.start()
    take_away(tmp_path / "tidegate.db")
    database.close()

    eventually(lambda: "the database is away" in (instance.follower.problem or ""))
    assert [True, False] == [instance.limiter.allow({"client": "x"}) for _ in range(2)]
    # A follower says so a moment after it knows.
    eventually(lambda: "the database is away" in str(instance.noted[-1:]))

    bring_back(tmp_path / "tidegate.db")
    put(database, clock, "more")
    eventually(lambda: ["everybody", "more", "orders"] == instance.names())
    eventually(lambda: instance.noted[-1] is None)
    instance.close()
    database.close()


def test_a_server_that_stops_and_comes_back(
    database: Database, clock: Clock, instances: tuple[Instance, Instance], eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that are cut, also the one that listens, are made anew."""
    if not database.is_postgresql:
        pytest.skip("only a server has connections to cut")
    instance = instances[0]
    instance.follower.start()
    with database.session() as session:
        from sqlalchemy import text  # noqa: PLC0415  # used once

        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        session.execute(text(cut))
    put(database, clock, "orders")

    eventually(lambda: ["everybody", "orders"] == instance.names())
    eventually(lambda: instance.follower.problem is None)


def test_a_start_without_the_database_uses_what_was_kept(database: Database, clock: Clock, tmp_path: Path, eventually: Eventually) -> None:
    """The rules of before are in force from the first request on, and those of now when the database is there."""
    put(database, clock, "orders", "1/minute")
    first = Instance(database, clock, tmp_path)
    first.follower.start()
    first.close()
    second = Instance(database, clock, tmp_path)
    real, gone = database, _Gone(database)
    second.follower = Follower(replace(second.following, database=gone))  # type: ignore[arg-type]  # a database that fails
    second.follower.start()

    assert ["everybody", "orders"] == second.names()
    assert "the database is away" in str(second.noted[-1])

    put(real, clock, "more")
    gone.is_gone = False
    eventually(lambda: ["everybody", "more", "orders"] == second.names())
    eventually(lambda: second.follower.problem is None)
    second.close()


class _Gone:
    """
    A database that does not answer until it is back.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_gone = True

    def __getattr__(self, name: str) -> object:
        if self.is_gone and name in {"reading", "session", "number"}:
            return Database("sqlite:////nowhere/at/all.db").__getattribute__(name)
        return getattr(self._database, name)


def test_what_was_kept_is_used_only_if_it_is_whole(tmp_path: Path) -> None:
    """Half a file, another format and another database are no state."""
    path = tmp_path / "kept"
    state = cache.State(7, (StoredRule(rule_id="a", revision=1, body={"per": "ip"}),), (), '{"keys":{}}')
    cache.write(path, "sqlite:///x", state)
    found = cache.read(path, "sqlite:///x")
    whole = path.read_bytes()

    assert found is not None
    assert (7, "a", {"per": "ip"}, '{"keys":{}}') == (found.number, found.stored[0].rule_id, found.stored[0].body, found.members)
    assert 0o600 == path.stat().st_mode & 0o777
    assert [path] == list(tmp_path.iterdir())
    assert cache.read(path, "sqlite:///other") is None
    for broken in (b"", whole[:-1], whole.replace(b'"a"', b'"b"'), b"\xff\n{}"):
        path.write_bytes(broken)
        assert cache.read(path, "sqlite:///x") is None
    assert cache.read(tmp_path / "missing", "sqlite:///x") is None


def test_what_cannot_be_kept_is_told_and_stops_nothing(database: Database, clock: Clock, tmp_path: Path) -> None:
    """A full disk, or a folder that is not there."""
    put(database, clock, "orders")
    instance = Instance(database, clock, tmp_path)
    instance.follower = Follower(replace(instance.following, cache=tmp_path / "missing" / "kept"))
    instance.follower.start()

    assert ["everybody", "orders"] == instance.names()
    assert "cannot be kept" in str(instance.noted[-1])
    instance.close()


def test_plans_that_begin_and_end_by_themselves_are_taken_at_their_time(database: Database, clock: Clock, tmp_path: Path) -> None:
    """Nothing is written to the database at that moment, and yet another document is in force; also if the clock is set back."""
    begins = clock()
    clock.advance(seconds=-10)
    taken: list[str] = []

    def members(_session: Session, now: datetime) -> tuple[str, datetime | None]:
        return ("begun", None) if now >= begins else ("not yet", begins)

    class Noting(Follower):
        def _put_members(self, document: str) -> None:
            taken.append(document)

    instance = Instance(database, clock, tmp_path)
    follower = Noting(replace(instance.following, members=members))
    for seconds in (0, 9.9, -3600, 3600, 0.1, 1):
        clock.advance(seconds=seconds)
        follower.look()

    assert ["not yet", "begun"] == taken
    instance.limiter.close()


def test_a_clock_that_jumps_around_a_plan_gives_it_for_its_time_only(database: Database, clock: Clock, tmp_path: Path) -> None:
    """Forward over its beginning, back before it, over its end, and back into it after a change: real decisions by real overrides."""
    begins, key = clock() + timedelta(hours=1), Keys(engine_options()["secret"]).read("vip")
    wanted = Wanted(quotas={"calls": ["0/minute"]}, effective_at=begins, expires_at=begins + timedelta(hours=1))
    with database.session() as session:
        quotas.put(session, Caller("tester", Role.ADMIN, "test", clock()), key, wanted)
        database.changed(session)
    instance = Instance(database, clock, tmp_path)
    instance.file.write_text("version: 1\nrules: [{name: calls, per: client, quotas: 1000/minute}]\n", encoding="utf-8")
    instance.limiter.load(instance.file)
    follower = Follower(replace(instance.following, members=members.document))

    def passes(minutes: float) -> bool:
        clock.at = begins + timedelta(minutes=minutes)
        follower.look()
        return instance.limiter.allow({"client": "vip"})

    assert [True, False] == [passes(-1), passes(0)]
    # What has begun stays until something changes: a clock that is set back by an hour does not take a plan away.
    assert [False, False, True] == [passes(-30), passes(59.9), passes(60)]
    with database.session() as session:
        database.changed(session)
    assert [False, True, True] == [passes(30), passes(60), passes(90)]
    instance.close()


def test_a_thousand_stored_rules_come_into_force(database: Database, clock: Clock, tmp_path: Path) -> None:
    """And a change of one of them is one generation more."""
    caller = Caller("tester", Role.ADMIN, "test", clock())
    with rules.changing(database) as session:
        for number in range(1000):
            body = {"match": {"path": f"/api/{number}/**"}, "per": "client", "quotas": "10/minute"}
            rules.put(session, caller, Edit(f"rule-{number:04}", body, 0))
    instance = Instance(database, clock, tmp_path)
    instance.follower.start()
    generation = instance.limiter.generation

    assert ("everybody", "rule-0717") == instance.limiter.check({"client": "x", "path": "/api/717/a"}).rules
    put(database, clock, "rule-0717", "1/minute", 1)
    instance.follower.look()
    assert generation + 1 == instance.limiter.generation
    assert ("everybody", "rule-0717") == instance.limiter.check({"client": "x", "path": "/a"}).rules
    instance.close()
