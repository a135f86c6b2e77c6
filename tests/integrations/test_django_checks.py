"""
System checks: each mistake in the settings has an id, and a hint that removes it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

if TYPE_CHECKING:
    from tests.integrations import django_site
else:
    import django_site

AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"
CACHE = "django.middleware.cache.UpdateCacheMiddleware"


def found(setting: Any, middleware: tuple[str, ...] = (django_site.MIDDLEWARE,)) -> list[str | None]:  # noqa: ANN401  # also what is no dictionary
    """
    The ids of what the checks find.
    """
    with override_settings(TIDEGATE=setting, MIDDLEWARE=list(middleware)):
        messages = run_checks(tags=["tidegate"])
    assert all(message.hint for message in messages)
    return [message.id for message in messages]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"QUOTAS": "100/minute"}, []),
        ({}, []),
        ("100/minute", ["tidegate.E001"]),
        ({"QUOTA": "100/minute"}, ["tidegate.E001"]),
        ({7: "100/minute"}, ["tidegate.E001"]),
        ({"QUOTAS": "100/minute", "KEY": "nobody.knows"}, ["tidegate.E002"]),
        ({"QUOTAS": "100/minute", "SERVICE": "http://localhost:8080"}, ["tidegate.E003"]),
        ({"QUOTAS": "often"}, ["tidegate.E004"]),
        ({"RULES": "/nowhere/rules.yaml"}, ["tidegate.E005"]),
        ({"QUOTAS": "100/minute", "STORE": "postgres://localhost"}, ["tidegate.E006"]),
        ({"QUOTAS": "100/minute", "EXEMPT": ["healthz"]}, ["tidegate.E006"]),
        ({"QUOTAS": "100/minute", "BUDGET": -1}, ["tidegate.E006"]),
    ],
)
def test_a_mistake_in_the_setting_is_found(setting: object, expected: list[str]) -> None:
    """
    Without asking a store or a service.
    """
    assert expected == found(setting)


def test_rules_that_are_wrong_are_found(tmp_path: Path) -> None:
    """
    With the problems that the linter would name.
    """
    (tmp_path / "rules.yaml").write_text("version: 1\nrules: [{name: a, quotas: often}]\n", encoding="utf-8")

    assert ["tidegate.E005"] == found({"RULES": str(tmp_path / "rules.yaml")})


@pytest.mark.parametrize(
    ("options", "middleware", "expected"),
    [
        ({}, (), ["tidegate.W001"]),
        ({"ENABLED": False}, (), []),
        ({}, (django_site.MIDDLEWARE, django_site.MIDDLEWARE), ["tidegate.W002"]),
        ({"KEY": repr}, (django_site.MIDDLEWARE, AUTHENTICATION), ["tidegate.W003"]),
        ({"KEY": repr}, (AUTHENTICATION, django_site.MIDDLEWARE), []),
        ({}, (CACHE, django_site.MIDDLEWARE), ["tidegate.W004"]),
        ({}, (django_site.MIDDLEWARE, CACHE), []),
    ],
)
def test_a_wrong_place_is_found(options: dict[str, Any], middleware: tuple[str, ...], expected: list[str]) -> None:
    """
    The middleware is missing, there twice, before those it needs or behind those that keep its words.
    """
    assert expected == found({"QUOTAS": "100/minute"} | options, middleware)


def test_the_command_finds_them_too() -> None:
    """
    `manage.py check` runs the checks because the app is installed.
    """
    code = "import django_site; from django.core.management import call_command; call_command('check')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        cwd=Path(__file__).parent,
        env=django_site.environment({"QUOTAS": "often"}),
    )

    assert 0 != done.returncode
    assert "tidegate.E004" in done.stderr
