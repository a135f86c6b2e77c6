"""
A Django site in one file, with limits for the site, for a view and for an API of Django REST framework.

A real site has its settings, views and URLs in files of their own. Here it is called without a server.
"""

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["tidegate.integrations.django"],
    MIDDLEWARE=["tidegate.integrations.django.RateLimitMiddleware"],
    REST_FRAMEWORK={"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": []},
    ROOT_URLCONF=__name__,
    SECRET_KEY="only for this example",
    TIDEGATE={"QUOTAS": "100/minute", "EXEMPT": ["/healthz"]},
)
django.setup()

from rest_framework.request import Request  # noqa: E402  # it reads the settings
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from tidegate.integrations.django import limit  # noqa: E402
from tidegate.integrations.django.rest_framework import TidegateThrottle  # noqa: E402


def index(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("hello")


@limit("2/minute", key=lambda request: request.headers.get("x-api-key"))
async def search(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("found")


class Burst(TidegateThrottle):
    quotas = "1/minute, 10/hour"


class Orders(APIView):
    throttle_classes = (Burst,)

    def get(self, _request: Request) -> Response:
        return Response({"orders": []})


urlpatterns = [path("", index), path("healthz", index), path("search", search), path("orders", Orders.as_view())]


def main() -> None:
    from django.core.management import call_command  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    call_command("check")
    client = Client()
    statuses = []
    for where in ("/", "/healthz", "/search", "/search", "/search", "/orders", "/orders"):
        answer = client.get(where, headers={"x-api-key": "abc"})
        statuses.append(answer.status_code)
        print(f"{where:<9} {answer.status_code}  {answer.headers.get('RateLimit')}")
    assert statuses == [200, 200, 200, 200, 429, 200, 429]


if __name__ == "__main__":
    main()
