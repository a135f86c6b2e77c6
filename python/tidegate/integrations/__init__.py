"""
Tidegate in front of applications: one module for each framework, and nothing to import that is not there.

| module | for |
| --- | --- |
| `asgi` | every ASGI application: `RateLimit` |
| `starlette`, `fastapi` | single endpoints: `limit` |

All of them decide by a `Guard` (`_guard`), so that they differ only in how a framework is asked and answered.
"""
