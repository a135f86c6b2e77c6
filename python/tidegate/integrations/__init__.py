"""
Tidegate in front of applications: one module for each framework, and nothing to import that is not there.

| module | for |
| --- | --- |
| `asgi` | every ASGI application: `RateLimit` |
| `starlette`, `fastapi` | single endpoints: `limit` |
| `wsgi` | every WSGI application: `RateLimit` |
| `flask`, `django` | applications, and single views: `limit` |
| `grpc` | servers of gRPC: `RateLimit`, `AsyncRateLimit` |
| `celery` | tasks: `limit` |
| `httpx`, `requests` | clients that keep to what servers tell them: `PacedTransport`, `PacedAdapter` |

What limits decides by a `Guard` (`_guard`), what keeps to limits by `tidegate.pacing`: modules differ only in how they ask and answer a
framework.
"""
