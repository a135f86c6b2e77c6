"""
Decisions that a service took, or that were taken because it did not: they look like those of a limiter in this process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from tidegate import Decision
    from tidegate.client.facts import Question

Origin: TypeAlias = Literal["service", "local", "policy"]
"""Who decided: the service; the fallback in this process; or nobody, by `on_service_error`."""

_SECOND = 1_000_000_000


class _Waits:
    """
    Times in seconds, for those who have them in nanoseconds.
    """

    __slots__ = ()

    retry_after_ns: int | None
    reset_after_ns: int
    delay_ns: int

    @property
    def retry_after(self) -> float | None:
        """`retry_after_ns` in seconds."""
        return None if self.retry_after_ns is None else self.retry_after_ns / _SECOND

    @property
    def reset_after(self) -> float:
        """`reset_after_ns` in seconds."""
        return self.reset_after_ns / _SECOND

    @property
    def delay(self) -> float:
        """`delay_ns` in seconds."""
        return self.delay_ns / _SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteQuotaStatus(_Waits):
    """
    What one quota said in a decision: as `tidegate.QuotaStatus`.

    Args:
        name: Its name, safe in headers and metrics.
        quota: Its canonical text.
        rule: The rule that it belongs to.
        mode: `enforce` or `shadow`.
        algorithm: The algorithm that decided.
        allowed: Whether it had room.
        limit: The most that can be taken at once; `None` is unlimited.
        remaining: The largest cost that would be admitted now; `None` is unlimited.
        retry_after_ns: The smallest wait until the same cost is admitted; `None` is never.
        reset_after_ns: The wait until nothing is used any more.
        delay_ns: How long the admitted request has to wait before it starts.
    """

    name: str
    quota: str
    rule: str | None = None
    mode: str = "enforce"
    algorithm: str = ""
    allowed: bool = True
    limit: int | None = None
    remaining: int | None = None
    retry_after_ns: int | None = 0
    reset_after_ns: int = 0
    delay_ns: int = 0

    def __repr__(self) -> str:
        left = "unlimited" if self.remaining is None else f"{self.remaining} left"
        return f"QuotaStatus({self.quota!r}, {'allowed' if self.allowed else 'denied'}, {left})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RemoteDecision(_Waits):
    """
    The answer of a service: as `tidegate.Decision`, with the same names and meanings.

    It is also what `release` and `renew` ask for, of the client that gave it.

    Args:
        allowed: Whether the request may pass.
        cost: The cost that was asked for.
        limit: The limit of the binding quota; `None` is unlimited.
        remaining: The largest cost that every quota would admit now; `None` is unlimited.
        retry_after_ns: Nanoseconds after which the same call is admitted if nothing else happens; `None` is never.
        retry_is_hint: Whether that is only an upper estimate.
        reset_after_ns: Nanoseconds until nothing is used any more.
        delay_ns: Nanoseconds to wait before the admitted request starts.
        degraded: Whether it was decided without the store, or without the service.
        reason: Why.
        lease: The id of the slots that were taken.
        generation: The generation of the rules that decided; 0 if none did.
        rule: The rule of the binding quota.
        rules: Names of the rules that apply.
        shadowed: Names of the rules in shadow that would have denied the request.
        quotas: What each quota said.
        header_fields: Header fields for the response.
        origin: Who decided.
        question: What was asked: what a slot is given back with.
        local: The decision of the fallback, which is its receipt.
    """

    allowed: bool
    cost: int = 1
    limit: int | None = None
    remaining: int | None = None
    retry_after_ns: int | None = 0
    retry_is_hint: bool = False
    reset_after_ns: int = 0
    delay_ns: int = 0
    degraded: bool = False
    reason: str | None = None
    lease: str | None = None
    generation: int = 0
    rule: str | None = None
    rules: tuple[str, ...] = ()
    shadowed: tuple[str, ...] = ()
    quotas: tuple[RemoteQuotaStatus, ...] = ()
    header_fields: tuple[tuple[str, str], ...] = ()
    origin: Origin = "service"
    question: Question | None = field(default=None, repr=False)
    local: Decision | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def quota(self) -> RemoteQuotaStatus | None:
        """The binding quota: the first enforced one of the rule that decided and has its limit; `None` if no rule decides."""
        of_rule = [status for status in self.quotas if status.rule == self.rule and status.mode == "enforce"]
        return next((status for status in of_rule if _is_binding(self, status)), of_rule[0] if of_rule else None)

    def headers(self) -> dict[str, str]:
        """
        The header fields for a response, as the service would send them itself.

        Returns:
            `RateLimit-Policy`, `RateLimit` and, when denied with a finite wait, `Retry-After`; and what else the service is told to send.
        """
        return dict(self.header_fields)

    def header_pairs(self) -> list[tuple[bytes, bytes]]:
        """
        The same as ASGI writes it.

        Returns:
            Names in lower case and values, as bytes.
        """
        return [(name.lower().encode(), value.encode()) for name, value in self.header_fields]

    def __repr__(self) -> str:
        answer = "allowed" if self.allowed else "denied"
        if self.degraded:
            return f"Decision({answer}, degraded: {self.reason})"
        if self.rule is None:
            return f"Decision({answer}, no rule decides)"
        left = "unlimited" if self.remaining is None else f"{self.remaining} of {self.limit} left"
        return f"Decision({answer}, {left}, rule={self.rule!r})"


def as_decision(decision: RemoteDecision) -> Decision:
    """
    Gives a decision the type that code has names for which was written for a limiter in this process.

    The compiled class can be made by the compiled module only. This one has every attribute of it, which a test compares, and so code that
    moves to a service need not change what it says about types.

    Args:
        decision: The decision.

    Returns:
        The same.
    """
    return cast("Decision", decision)


def retry_field(retry_after_ns: int | None, *, allowed: bool) -> tuple[tuple[str, str], ...]:
    """
    `Retry-After` for a decision of which nothing else is known.

    Args:
        retry_after_ns: The wait; `None` is never.
        allowed: Whether there is nothing to wait for.

    Returns:
        The field, if there is one: whole seconds, rounded up so that it is true.
    """
    if allowed or retry_after_ns is None:
        return ()
    return (("Retry-After", str(max(1, -(-retry_after_ns // _SECOND)))),)


def _is_binding(decision: RemoteDecision, status: RemoteQuotaStatus) -> bool:
    return status.limit == decision.limit and status.allowed == decision.allowed and status.retry_after_ns == decision.retry_after_ns
