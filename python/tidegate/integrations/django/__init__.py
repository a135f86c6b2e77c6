"""
Tidegate in Django: a middleware for the whole site, a decorator for views, a throttle class for Django REST framework, and system checks.

```text
INSTALLED_APPS = [..., "tidegate.integrations.django"]                      # the system checks
MIDDLEWARE = ["tidegate.integrations.django.RateLimitMiddleware", ...]
TIDEGATE = {"QUOTAS": "100/minute", "STORE": "redis://localhost:6379"}
```

The throttle class is in `tidegate.integrations.django.rest_framework`.
"""

from tidegate.integrations.django._decorator import limit
from tidegate.integrations.django._middleware import RateLimitMiddleware

__all__ = ["RateLimitMiddleware", "limit"]
