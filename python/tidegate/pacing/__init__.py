"""
Clients that behave: they keep to what servers say about their limits, wait instead of being refused, and retry with care.

Nothing here knows an HTTP library. `tidegate.integrations.httpx` and `tidegate.integrations.requests` do.
"""

from tidegate.pacing.exchange import Call, View, run, run_async
from tidegate.pacing.fields import Limit, Told, read
from tidegate.pacing.options import PaceOptions
from tidegate.pacing.pacer import Pacer
from tidegate.pacing.refusal import LOCAL_FIELD, Refusal

__all__ = ["LOCAL_FIELD", "Call", "Limit", "PaceOptions", "Pacer", "Refusal", "Told", "View", "read", "run", "run_async"]
