"""
The command `tidegate top` against a real service.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tidegate.cli.top.page import Page
from tidegate.cli.top.picture import picture
from tidegate.cli.top.reading import Key, Reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Eventually, Run
    from tests.service.running import ask, here
    from tidegate.service import Service
else:
    from service.running import ask, here

RULES = """
version: 1
rules:
  - {name: strict, per: client, quotas: 1/hour}
  - {name: quiet, per: client, quotas: 1000/second, mode: shadow}
"""
SECOND = 1_000_000_000


def url(service: Service) -> str:
    """
    Where it is.
    """
    return f"http://{service.addresses['http']}"


def check(service: Service, client: str, headers: dict[str, str] | None = None) -> None:
    """
    One request.
    """
    assert 200 == ask(url(service), "POST", "/api/v1/rate-limit/check", {"client_id": client}, headers).status


@pytest.fixture
def busy() -> Iterator[Service]:
    """
    A service that somebody asks all the time.
    """
    with here(RULES) as service:
        is_over = threading.Event()
        # The one that is allowed is over before anybody looks.
        check(service, "somebody-with-a-name")

        def load() -> None:
            while not is_over.is_set():
                check(service, "somebody-with-a-name")

        thread = threading.Thread(target=load)
        thread.start()
        yield service
        is_over.set()
        thread.join()


def test_one_picture_has_rates_rules_and_keys(cli: Run, busy: Service, eventually: Eventually) -> None:
    """For scripts, as plain text."""
    pictures = []

    lines = (
        r"^decisions +[1-9][\d,.]*/s: 0\.\d/s allowed, [1-9][\d,.]*/s denied",
        r"^latency +p50 \d+ µs|^latency +p50 \d",
        r"^  strict +\S+ +[1-9]\S* +0\.0 +[1-9]",
        r"^  strict +client=some… +[1-9]",
    )

    def has_denied() -> bool:
        code, output, errors = cli("top", "--url", url(busy), "--once", "--interval", "0.3")
        assert (0, "") == (code, errors)
        pictures.append(output)
        # On a machine with too much to do nobody may be denied in such an interval, or only while the counters were read and not the keys.
        return all(re.search(line, output, re.MULTILINE) for line in lines)

    eventually(has_denied, within=30)

    assert "\x1b" not in pictures[-1]


def test_json_says_the_same(cli: Run, busy: Service, eventually: Eventually) -> None:
    """Numbers for scripts."""
    shown: dict[str, Any] = {}

    def has_denied() -> bool:
        code, output, _ = cli("top", "--url", url(busy), "--json", "--interval", "300ms")
        assert 0 == code
        shown.update(json.loads(output))
        # As above.
        return bool(shown["denied"] > 0 and shown["p50"] and shown["limited"] and shown["limited"][0]["denied_rate"] > 0)

    eventually(has_denied, within=30)

    assert 0 < shown["p50"] <= shown["p99"]
    assert ["strict", "quiet"] == [rule["rule"] for rule in shown["rules"]]
    assert "client=some…" == shown["limited"][0]["key"]


def test_a_token_is_shown(cli: Run) -> None:
    """Without it there is an error that says so."""
    with here(RULES, {"http.token": "open-sesame"}) as service:
        refused = cli("top", "--url", url(service), "--once", "--interval", "50ms")
        taken = cli("top", "--url", url(service), "--once", "--interval", "50ms", "--token", "open-sesame")

    assert 2 == refused[0]
    assert "answers 401" in refused[2]
    assert "--token" in refused[2]
    assert 0 == taken[0]


def test_nobody_listens(cli: Run) -> None:
    """A clear error, and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        code, output, errors = cli("top", "--url", f"http://127.0.0.1:{taken.getsockname()[1]}", "--once")

    assert (2, "") == (code, output)
    assert "does not answer" in errors
    assert "hint: start it with `tidegate serve`" in errors


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(("--url", "127.0.0.1:8080"), "is no address"), (("--interval", "0"), "--interval"), (("--interval", "soon"), "--interval")],
    ids=["no scheme", "no time", "no duration"],
)
def test_wrong_options_are_refused(cli: Run, arguments: tuple[str, ...], complaint: str) -> None:
    """Before anything is asked."""
    code, _, errors = cli("top", "--once", *arguments)

    assert 2 == code
    assert complaint in errors


def test_something_else_is_not_taken_for_a_service(cli: Run) -> None:
    """What answers, but has other metrics or none."""
    with here(RULES) as service:
        code, _, errors = cli("top", "--url", url(service) + "/elsewhere", "--once")

    assert 2 == code
    assert "answers 404" in errors


def test_a_terminal_shows_it_live_until_ctrl_c(busy: Service, eventually: Eventually) -> None:
    """A second picture follows the first, and the end is in peace."""
    master, slave = pty.openpty()
    # A shell without job control lets its background jobs ignore Ctrl-C, and this test may be one.
    heed = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('tidegate', run_name='__main__')"
    )
    words = [sys.executable, "-c", heed, "top", "--url", url(busy), "--interval", "100ms"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    with subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True) as process:
        os.close(slave)
        seen = bytearray()

        def read() -> None:
            # Also to the end: who writes to a terminal that nobody reads waits for ever.
            with contextlib.suppress(OSError):
                if select.select([master], [], [], 0.05)[0]:
                    seen.extend(os.read(master, 65536))

        def has_two_pictures() -> bool:
            read()
            return seen.count(b"Tidegate at") >= 2 and b"client=some" in seen

        def has_ended() -> bool:
            read()
            return process.poll() is not None

        eventually(has_two_pictures, within=40)
        process.send_signal(signal.SIGINT)
        eventually(has_ended, within=30)
        assert 0 == process.returncode
    os.close(master)


def reading(at_s: int, started: int, keys: list[Key], **counts: int) -> Reading:
    """
    A reading with a few numbers.
    """
    lines = [
        f"process_start_time_seconds {started}",
        f'ratelimit_checks_total{{protocol="grpc",outcome="allowed"}} {counts.get("allowed", 0)}',
        f'ratelimit_check_duration_seconds_bucket{{protocol="grpc",le="0.001"}} {counts.get("fast", 0)}',
        f'ratelimit_check_duration_seconds_bucket{{protocol="grpc",le="0.002"}} {counts.get("all", 0)}',
        f'ratelimit_check_duration_seconds_bucket{{protocol="grpc",le="+Inf"}} {counts.get("all", 0)}',
    ]
    return Reading(at_s * SECOND, Page("\n".join(lines)), keys)


def test_rates_are_of_the_time_between_two_readings() -> None:
    """And a service that was started anew has no past."""
    before = reading(0, 7, [], allowed=100)

    assert 25 == picture(before, reading(4, 7, [], allowed=200)).allowed
    assert 5 == picture(before, reading(4, 8, [], allowed=20)).allowed


def test_quantiles_are_worked_out_as_prometheus_does() -> None:
    """Evenly spread within a bucket, and only of what is new."""
    before = reading(0, 7, [], fast=1000, all=1000)
    shown = picture(before, reading(1, 7, [], fast=1050, all=1100))

    assert pytest.approx(0.001) == shown.p50
    assert pytest.approx(0.00198) == shown.p99
    assert picture(before, before).p50 is None


def test_a_key_that_was_not_listed_counts_for_what_is_certain() -> None:
    """It took over the counter of another."""
    old = Key("strict", "a", denied=10, error=0, last_seen=0)
    new = [Key("strict", "a", denied=14, error=0, last_seen=1), Key("strict", "b", denied=13, error=10, last_seen=1)]
    shown = picture(reading(0, 7, [old]), reading(1, 7, new))

    assert [("a", 4), ("b", 3)] == [(key.key, key.denied_rate) for key in shown.limited]


def test_labels_are_read_with_their_escapes() -> None:
    """Quotes, braces, backslashes and line feeds in a value are a part of it."""
    page = Page('a{rule="x\\"}\\\\\\ny",other="z"} 3\n# HELP a b\na 4\nnonsense\n')

    assert [({"rule": 'x"}\\\ny', "other": "z"}, 3.0), ({}, 4.0)] == list(page.samples("a"))
    assert 3 == page.total("a", other="z")
