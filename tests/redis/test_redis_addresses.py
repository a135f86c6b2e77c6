"""
Every kind of wrong address is refused at once, with what to write instead, and no message shows a password.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Limiter, rules
from tidegate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.redis.conftest import Make
    from tests.servers import Login, Single
else:
    from servers import Login, Single

SECRET = "hunter2"

WRONG = {
    # What it is, and a part of what is said to do.
    "empty": ("", "write memory://, or redis://host:6379"),
    "a host": ("localhost:6379", "write memory://, or redis://host:6379"),
    "a password and a host": ("hunter2@host:6379", "write memory://, or redis://host:6379"),
    "one slash": ("redis:/host", "write memory://, or redis://host:6379"),
    "no colon": ("redis//u:hunter2@host", "write memory://, or redis://host:6379"),
    "another scheme": ("http://u:hunter2@host", "one of redis://"),
    "scheme in capitals": ("REDIS://u:hunter2@host", "redis://"),
    "password in the scheme": ("user:hunter2://host", "write memory://, or redis://host:6379"),
    "memory with an address": ("memory://u:hunter2@host", "write memory://"),
    "no host": ("redis://", "write redis://host:6379/0"),
    "no host after the password": ("redis://:hunter2@", "write redis://host:6379/0"),
    "user without password": ("redis://hunter2@host", "redis://:password@host"),
    "port of letters": ("redis://u:hunter2@host:port", "a number from 1 to 65535|no number from 1 to 65535"),
    "password as the port": ("redis://user:hunter2", "redis://user:password@host"),
    "port 0": ("redis://u:hunter2@host:0", "no number from 1 to 65535"),
    "port 65536": ("redis://u:hunter2@host:65536", "no number from 1 to 65535"),
    "database of letters": ("redis://u:hunter2@host/x", "no number from 0 to 2147483647"),
    "database below 0": ("redis://u:hunter2@host/-1", "no number from 0 to 2147483647"),
    "database twice": ("redis://u:hunter2@host/1?db=2", "write it after the host, or as db="),
    "too long a path": ("redis://u:hunter2@host/0/1", "write redis://host:6379/0"),
    "slash in the password": ("redis://u:hun/hunter2@host", "%2F"),
    "hash in the password": ("redis://u:hun#hunter2@host", "%23"),
    "question mark in the password": ("redis://u:hun?hunter2@host", "%3F"),
    "at sign in the password": ("redis://u:hunter2@hunter2@host", "%40"),
    "space in the password": ("redis://u:hun hunter2@host", "a space as %20"),
    "percent sign in the password": ("redis://u:hun%zzhunter2@host", "%25"),
    "space in the host": ("redis://u:hunter2@ho st", "a space as %20"),
    "line break": ("redis://u:hunter2@host\n", "percent-encoded"),
    "NUL": ("redis://u:hunter2@host\0", "percent-encoded"),
    "half a bracket": ("redis://u:hunter2@[::1", r"redis://\[::1\]:6379"),
    "IPv6 without brackets": ("redis://u:hunter2@::1:6379", r"redis://\[::1\]:6379"),
    "host of other letters": ("redis://u:hunter2@höst", "write a name"),
    "several hosts": ("redis://u:hunter2@a,b", r"redis\+cluster://"),
    "sentinel without a name": ("redis+sentinel://u:hunter2@a", r"redis\+sentinel://host:26379/mymaster"),
    "sentinel database": ("redis+sentinel://u:hunter2@a/m/x", "no number from 0 to 2147483647"),
    "database on a cluster": ("redis+cluster://u:hunter2@a/1", "leave it out"),
    "unknown parameter": ("redis://u:hunter2@host?max_connections=1", "known are db, prefix"),
    "parameter without a value": ("redis://u:hunter2@host?db", "write db="),
    "parameter twice": ("redis://u:hunter2@host?prefix=a&prefix=b", "write it once"),
    "prefix with braces": ("redis://u:hunter2@host?prefix={a}", "without spaces and braces"),
    "empty prefix": ("redis://u:hunter2@host?prefix=", "write prefix="),
    "timeout without a unit": ("redis://u:hunter2@host?connect_timeout=5", "connect_timeout=500ms"),
    "sentinel password elsewhere": ("redis://u:x@host?sentinel_password=hunter2", "only belongs to"),
    "TLS parameter without TLS": ("redis://u:hunter2@host?tls_ca=/x", "rediss://"),
    "file that is not there": ("rediss://u:hunter2@host?tls_ca=/nowhere.pem", "/nowhere.pem.* cannot be read"),
    "certificate without a key": ("rediss://u:hunter2@host?tls_cert=/x", "belong together"),
    "socket without a path": ("unix://", "unix:///run/redis.sock"),
    "socket by a relative path": ("unix://run/redis.sock", "unix:///run/redis.sock"),
    "too long": ("redis://u:hunter2@" + "h," * 3_000 + "h", "may have 4096"),
}


@pytest.mark.parametrize(("address", "hint"), WRONG.values(), ids=WRONG)
def test_a_wrong_address_is_refused_with_what_to_write(address: str, hint: str) -> None:
    """
    By limiters of both kinds, before anything is connected.
    """
    with pytest.raises(ConfigError, match=hint) as caught:
        Limiter("5/minute", store=address)
    with pytest.raises(ConfigError, match=hint):
        Limiter.from_rules(rules.load("rules.yaml", text="version: 1\nrules: []"), store=address)

    # The line of this test that is quoted in a traceback shows no address either.
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("address", [None, 5, b"redis://host", ["redis://host"], object()], ids=repr)
def test_what_is_no_text_is_refused(address: Any) -> None:  # noqa: ANN401  # anything
    """
    With the type that it has.
    """
    with pytest.raises(UsageError, match=f"the store is a text such as .*, not {type(address).__name__}"):
        Limiter("5/minute", store=address)


def test_a_file_without_a_certificate_is_refused(tmp_path: Path) -> None:
    """
    With its name, and how such a file begins.
    """
    path = tmp_path / "empty.pem"
    path.write_text("nothing")
    with pytest.raises(ConfigError, match=rf"{path.name}.* has no certificate in it.*BEGIN CERTIFICATE"):
        Limiter("5/minute", store=f"rediss://host?tls_ca={path}")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"budget": 0}, "the budget is a number of seconds above 0"),
        ({"budget": -1}, "the budget is a number of seconds above 0"),
        ({"budget": float("nan")}, "the budget is a number of seconds above 0"),
        ({"budget": 61}, "up to 60"),
        ({"budget": "5ms"}, "the budget is a number of seconds above 0"),
        ({"budget": True}, "the budget is a number of seconds above 0"),
        ({"secret": 5}, "the secret is a text or bytes, not int"),
        ({"deny_cache": -1}, "from 0 to 16,777,216"),
        ({"deny_cache": 1.5}, "from 0 to 16,777,216"),
        ({"deny_cache": True}, "from 0 to 16,777,216"),
        ({"instances": 0}, "from 1 up"),
        ({"instances": "2"}, "from 1 up"),
        ({"max_keys": 0}, "from 1 up"),
        ({"on_store_error": "panic"}, "local"),
        ({"on_store_error": None}, "local"),
    ],
    ids=str,
)
def test_a_wrong_option_is_refused(options: dict[str, Any], hint: str) -> None:
    """
    With what it may be.
    """
    with pytest.raises(UsageError, match=hint):
        Limiter("5/minute", store="redis://127.0.0.1:1", **options)


def test_an_unknown_option_is_refused() -> None:
    """
    With the names of those that there are.
    """
    with pytest.raises(TypeError, match="unknown option 'stores': the options are store, "):
        Limiter("5/minute", stores="redis://127.0.0.1:1")  # type: ignore[call-arg]


PASSWORDS = ["p@ss", "a/b", "a:b:c", "100%", "%41", "a b", "pässwörd", "東京", "#?&=+,;", "{}[]<>|^~`'$!*()", "x" * 300]


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_may_have_every_character(password: str, make: Make) -> None:
    """
    Percent-encoded, with a user and without one; and it is shown nowhere.
    """
    with Single(password=password) as server:
        limiter = make("5/minute", store=server.url())

        assert (True, False) == ((decision := limiter.check("key")).allowed, decision.degraded)
        assert password not in repr(limiter.health()) + repr(limiter)


@pytest.mark.parametrize("password", ["p@ss/w:rd%", "東京"])
def test_a_user_may_have_every_character_too(password: str, make: Make) -> None:
    """
    Users of an access list.
    """
    user = "us@r:ü%"
    with Single(acl=["user default off", f"user {user} on >{password} ~tg:* +@all"]) as server:
        limiter = make("5/minute", store=server.url(login=Login(password, user)))

        assert not limiter.check("key").degraded
        assert password not in repr(limiter.health())


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_both_names_mean_the_same(scheme: str, server: Single, prefix: str, make: Make) -> None:
    """
    Whichever server it is.
    """
    limiter = make("5/minute", store=f"{scheme}://127.0.0.1:{server.port}/0?prefix={prefix}")

    assert not limiter.check("key").degraded
