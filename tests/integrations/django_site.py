"""
A Django site, for tests in this process and for real servers: `django_site:wsgi` and `django_site:asgi`. Its views are in `django_urls`.

Settings exist once in a process, so this file is the only one that configures Django. `TIDEGATE` is what the variable of that name says, as
JSON; tests in this process override it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

import tidegate

MIDDLEWARE = "tidegate.integrations.django.RateLimitMiddleware"

settings.configure(
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "rest_framework", "tidegate.integrations.django"],
    LOGGING_CONFIG=None,
    MIDDLEWARE=[MIDDLEWARE] if os.environ.get("MIDDLEWARE", "1") == "1" else [],
    REST_FRAMEWORK={"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": []},
    ROOT_URLCONF="django_urls",
    SECRET_KEY="no secret",
    TIDEGATE=json.loads(os.environ.get("TIDEGATE", "{}")),
)
django.setup()


def __getattr__(name: str) -> object:
    # Made when a server asks for it: a test in this process makes its own, after it has set `TIDEGATE`.
    if name == "wsgi":
        return get_wsgi_application()
    if name == "asgi":
        return get_asgi_application()
    raise AttributeError(name)


def environment(setting: dict[str, Any], **variables: str) -> dict[str, str]:
    """
    The environment of a process that runs this site with a setting of its own.
    """
    path = str(Path(tidegate.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": path, "TIDEGATE": json.dumps(setting), **variables}
