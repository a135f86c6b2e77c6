"""
Addresses and options: what makes no sense is told at once, with what to write instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidegate import Client, rules
from tidegate.client.address import Address
from tidegate.errors import ConfigError, RuleError, TidegateError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://localhost", Address("http", "localhost", 8080)),
        ("http://localhost:80/", Address("http", "localhost", 80)),
        ("https://limits.example:443", Address("http", "limits.example", 443, is_tls=True)),
        ("http://[::1]:9", Address("http", "::1", 9)),
        ("grpc://10.0.0.1", Address("grpc", "10.0.0.1", 8081)),
        ("grpcs://limits.example", Address("grpc", "limits.example", 8081, is_tls=True)),
        ("unix:///run/tidegate.sock", Address("http", path="/run/tidegate.sock")),
        ("grpc+unix:///run/tidegate.sock", Address("grpc", path="/run/tidegate.sock")),
    ],
)
def test_addresses(text: str, expected: Address) -> None:
    """
    All forms, and what is shown of them is an address again.
    """
    assert expected == Address.parse(text)
    assert expected == Address.parse(str(expected))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:8080",
        "redis://localhost",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://host/path",
        "http://host?x=y",
        "http://host#x",
        "http://host\r\nx: y",
        "http://[::1",
        "unix://run/x",
        "unix:///",
    ],
)
def test_what_is_no_address(text: str) -> None:
    """
    Is refused with examples.
    """
    with pytest.raises(ConfigError, match=r"http://|unix://"):
        Address.parse(text)


def test_a_password_in_an_address_is_not_repeated() -> None:
    """
    It belongs elsewhere, and not into a log.
    """
    with pytest.raises(ConfigError, match="token=") as caught:
        Client("http://user:geheim@localhost")

    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "options", "words"),
    [
        ("http://h", {"budget": 0}, "budget"),
        ("http://h", {"budget": True}, "budget"),
        ("http://h", {"budget": float("nan")}, "budget"),
        ("http://h", {"instances": 0}, "instances"),
        ("http://h", {"connections": 0}, "connections"),
        ("http://h", {"on_service_error": "panic"}, "local, allow, deny"),
        ("http://h", {"on_service_error": "local"}, "fallback="),
        ("http://h", {"on_service_error": "allow", "fallback": "rules.yaml"}, "fallback="),
        ("http://h", {"token": "two words"}, "token"),
        ("http://h", {"token": "a\r\nb"}, "token"),
        ("http://h", {"ca": "x.pem"}, "https://"),
        ("https://h", {"ca": "/nowhere/x.pem"}, "PEM"),
        ("grpcs://h", {"ca": "/nowhere/x.pem"}, "PEM"),
        ("http://h", {"domain": "x"}, "grpc://"),
        ("grpc://h", {"token": "x"}, "http://"),
        (5, {}, "http://"),
    ],
)
def test_options_that_make_no_sense(address: Any, options: dict[str, Any], words: str) -> None:  # noqa: ANN401  # anything
    """
    Are refused when the client is made.
    """
    with pytest.raises(TidegateError, match=words):
        Client(address, **options)


def test_an_unknown_option_is_named() -> None:
    """
    With those that there are.
    """
    with pytest.raises(TypeError, match=r"'timeout'.*budget"):
        Client("http://h", timeout=3)  # type: ignore[call-arg]  # that is the test


def test_wrong_rules_of_the_fallback_are_told_at_once(tmp_path: Path) -> None:
    """
    And not when the service is away for the first time.
    """
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: [{name: a, quotas: many}]\n", encoding="utf-8")
    with pytest.raises(RuleError):
        Client("http://h", fallback=tmp_path / "rules.yaml")
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: [{name: a, per: client, quotas: 5/hour}]\n", encoding="utf-8")
    with Client("http://h", fallback=rules.load(tmp_path / "rules.yaml")) as client:
        assert "ok" == client.health().status
