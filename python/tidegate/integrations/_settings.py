"""
What every integration can be told, once: the arguments of `Guard` as a type.
"""

from __future__ import annotations

import os  # noqa: TC003  # the annotations are read at run time
from collections.abc import Iterable  # noqa: TC003  # as above

from tidegate._options import StoreOptions
from tidegate.integrations._decider import Decider  # noqa: TC001  # as above
from tidegate.integrations._functions import Cost, Key  # noqa: TC001  # as above
from tidegate.rules import RuleSet  # noqa: TC001  # as above


class GuardOptions(StoreOptions, total=False):
    """
    By what to decide, for whom, and what to tell. All of it is explained at `Guard`; the store is that of `StoreOptions`.
    """

    rules: str | os.PathLike[str] | RuleSet | None
    """A rule file, a directory of them, or a rule set."""
    limiter: Decider | None
    """A limiter that exists already: `Limiter.from_rules(...)` or `tidegate.Client(...)`."""
    service: str | None
    """The address of a Tidegate service."""
    watch: bool
    """`rules`: whether changes of the files come into force by themselves."""
    key: Key | None
    """Makes of the framework's request who is counted; by default the address is."""
    cost: Cost | None
    """How much a request takes: a number, or a function of the framework's request."""
    exempt: Iterable[str]
    """Paths that are not limited, such as `/healthz` or `/static/*`."""
    headers: bool
    """Whether responses tell clients what is left."""
    trusted_proxies: Iterable[str]
    """Networks whose `X-Forwarded-For` is believed, and `unix` for a socket in the file system."""
    name: str | None
    """The name of the rule that quotas in the code become."""
