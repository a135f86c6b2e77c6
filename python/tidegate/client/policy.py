"""
What is decided when the service cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.client.decision import RemoteDecision, RemoteQuotaStatus, retry_field
from tidegate.rule_limiter import RuleLimiter

if TYPE_CHECKING:
    from tidegate import Decision, QuotaStatus
    from tidegate.client.away import Reason
    from tidegate.client.facts import Question
    from tidegate.client.options import Checked

_NOWHERE = "unix:///dev/null/tidegate"
"""A store that is never there. A limiter on it decides as every limiter does whose store is away: each rule's `on_store_error` says how,
and `local` counts this process's share of what the quotas allow. A limiter in memory would let every process have all of it."""

_RETRY_NS = 1_000_000_000


class Policy:
    """
    Decides without the service.

    Args:
        options: What to do, and by which rules.

    Raises:
        RuleError: The rules are wrong.
    """

    def __init__(self, options: Checked) -> None:
        self._policy = options.policy
        self.local: RuleLimiter | None = None
        """Who counts here, if somebody does."""
        if options.fallback is not None:
            self.local = RuleLimiter(options.fallback, store=_NOWHERE, instances=options.instances, on_store_error="local")

    def decide(self, question: Question, reason: Reason) -> RemoteDecision:
        """
        Decides. Takes microseconds, and asks nobody.

        Args:
            question: What was asked of the service.
            reason: Why it did not answer.

        Returns:
            The decision, marked as degraded.
        """
        # The service is well, and would count the next request: whoever sends too much must not be free because of it.
        if reason == "request_too_large":
            return _answer(question, reason, allowed=False)
        if self.local is not None:
            return _of_local(question, reason, _ask(self.local, question))
        return _answer(question, reason, allowed=self._policy == "allow" or question.kind == "debit")

    def close(self) -> None:
        """
        Frees what was counted.
        """
        if self.local is not None:
            self.local.close()


def _ask(limiter: RuleLimiter, question: Question) -> Decision:
    if question.kind == "debit":
        return limiter.debit(question.facts, question.cost or 0)
    if question.kind == "peek":
        return limiter.peek(question.facts, question.cost)
    return limiter.check(question.facts, question.cost, lease=question.lease, max_delay=question.max_delay)


def _answer(question: Question, reason: Reason, *, allowed: bool) -> RemoteDecision:
    retry_after_ns = 0 if allowed else _RETRY_NS
    return RemoteDecision(
        allowed=allowed,
        cost=1 if question.cost is None else question.cost,
        remaining=None if allowed else 0,
        retry_after_ns=retry_after_ns,
        # Nobody knows when the service is back.
        retry_is_hint=not allowed,
        degraded=True,
        reason=reason,
        header_fields=retry_field(retry_after_ns, allowed=allowed),
        origin="policy",
        question=question,
    )


def _of_local(question: Question, reason: Reason, local: Decision) -> RemoteDecision:
    return RemoteDecision(
        allowed=local.allowed,
        cost=local.cost,
        limit=local.limit,
        remaining=local.remaining,
        retry_after_ns=local.retry_after_ns,
        retry_is_hint=local.retry_is_hint,
        reset_after_ns=local.reset_after_ns,
        delay_ns=local.delay_ns,
        degraded=True,
        reason=reason,
        lease=local.lease,
        generation=local.generation,
        rule=local.rule,
        rules=local.rules,
        shadowed=local.shadowed,
        quotas=tuple(map(_status, local.quotas)),
        header_fields=tuple(local.headers().items()),
        origin="local",
        question=question,
        local=local,
    )


def _status(status: QuotaStatus) -> RemoteQuotaStatus:
    return RemoteQuotaStatus(**{name: getattr(status, name) for name in RemoteQuotaStatus.__dataclass_fields__})
