"""
The data plane: the one place where Python meets Rust.

Import names from `tidegate`; this module is private and only a few files of the package may use it (`pyproject.toml`, TID251).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeAlias, final

__version__: str

_Attributes: TypeAlias = Mapping[str, str | int | Mapping[str, str] | None]

@final
class QuotaStatus:
    """
    What one quota said in a decision.

    All durations are seconds as `float`; the `_ns` twins are exact integers in nanoseconds.
    """

    @property
    def name(self) -> str:
        """The quota's name, or its text in a form that is safe in headers and metrics (`100/minute-burst-20`)."""
    @property
    def quota(self) -> str:
        """The quota as canonical text, such as `100/minute burst 20`."""
    @property
    def rule(self) -> str | None:
        """The rule that the quota belongs to; `None` without rules."""
    @property
    def mode(self) -> str:
        """`enforce`, or `shadow` if it only says what it would have said."""
    @property
    def algorithm(self) -> str:
        """The algorithm that decided, such as `gcra`; `unlimited` where there is none."""
    @property
    def allowed(self) -> bool:
        """Whether this quota had room."""
    @property
    def limit(self) -> int | None:
        """The most that can be taken at once when nothing is used (burst for `gcra`); `None` is unlimited."""
    @property
    def remaining(self) -> int | None:
        """The largest cost that would be admitted now; `None` is unlimited."""
    @property
    def retry_after(self) -> float | None:
        """The smallest wait until the same cost is admitted; 0 when it was; `None` means never."""
    @property
    def retry_after_ns(self) -> int | None:
        """`retry_after` in nanoseconds, exact."""
    @property
    def reset_after(self) -> float:
        """The wait until nothing is used any more."""
    @property
    def reset_after_ns(self) -> int:
        """`reset_after` in nanoseconds, exact."""
    @property
    def delay(self) -> float:
        """`leaky_bucket`: how long the admitted request has to wait before it starts."""
    @property
    def delay_ns(self) -> int:
        """`delay` in nanoseconds, exact."""

@final
class Decision:
    """
    The answer to a check: whether the request may pass, and everything a client can be told about it.

    A decision is a value: it never changes and is truthy when the request may pass. It is also the receipt that `refund`, `settle`,
    `renew` and `release` ask for.
    """

    def __bool__(self) -> bool: ...
    @property
    def allowed(self) -> bool:
        """Whether the request may pass."""
    @property
    def cost(self) -> int:
        """The cost that was asked for."""
    @property
    def limit(self) -> int | None:
        """The limit of the binding quota; `None` is unlimited."""
    @property
    def remaining(self) -> int | None:
        """The largest cost that every quota would admit now; `None` is unlimited."""
    @property
    def retry_after(self) -> float | None:
        """
        Seconds after which the same call is admitted if nothing else happens, and one tick earlier it is not.

        0 when the request was allowed; `None` means never (the cost is above the capacity). See `retry_is_hint` for the one exception.
        """
    @property
    def retry_after_ns(self) -> int | None:
        """`retry_after` in nanoseconds, exact."""
    @property
    def retry_is_hint(self) -> bool:
        """Whether `retry_after` is only an upper estimate: slots in flight come free when their holders finish."""
    @property
    def reset_after(self) -> float:
        """Seconds until nothing is used any more in any quota."""
    @property
    def reset_after_ns(self) -> int:
        """`reset_after` in nanoseconds, exact."""
    @property
    def delay(self) -> float:
        """Seconds to wait before the admitted request starts (`leaky_bucket`); 0 otherwise."""
    @property
    def delay_ns(self) -> int:
        """`delay` in nanoseconds, exact."""
    @property
    def degraded(self) -> bool:
        """Whether the decision was taken without the store."""
    @property
    def reason(self) -> str | None:
        """Why the decision is degraded, such as `store_full`."""
    @property
    def lease(self) -> str | None:
        """The 128-bit id, in hexadecimal, of the slots that were taken; `None` without a `concurrent` quota."""
    @property
    def generation(self) -> int:
        """The generation of the quotas that decided: 1 at first, one more with each `load`."""
    @property
    def quota(self) -> QuotaStatus | None:
        """
        The binding quota: the one with the longest wait, or, when allowed, with the smallest share left.

        `None` only with rules, when no rule that is enforced applies.
        """
    @property
    def rule(self) -> str | None:
        """The rule of the binding quota; `None` without rules, or if none is enforced."""
    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that apply to the request, in the order in which they were looked at."""
    @property
    def shadowed(self) -> tuple[str, ...]:
        """Names of the rules in shadow that would have denied the request."""
    @property
    def quotas(self) -> tuple[QuotaStatus, ...]:
        """What each quota said, in the order in which they were given."""
    def headers(self) -> dict[str, str]:
        """
        Returns:
            `RateLimit-Policy`, `RateLimit` and, when denied with a finite wait, `Retry-After`, rounded so that they stay true.
        """
    def header_pairs(self) -> list[tuple[bytes, bytes]]:
        """The same as ASGI writes it: names in lower case and values, as bytes."""

@final
class ManualClock:
    """
    A clock that stands still until it is told to move, for tests that need no sleep.

    Limiters that share one clock share its time. It starts at an arbitrary but fixed instant, a full day in UTC.

    Args:
        start: Seconds since the epoch.
    """

    def __new__(cls, start: float | None = None) -> Self: ...
    def advance(self, seconds: float) -> None:
        """Moves forward; a negative number moves back, as a real clock does when it is corrected."""
    def advance_ns(self, nanoseconds: int) -> None:
        """Moves by an exact number of nanoseconds."""
    def time(self) -> float:
        """
        Returns:
            Seconds since the epoch.
        """
    def time_ns(self) -> int:
        """
        Returns:
            Nanoseconds since the epoch.
        """

@final
class Stats:
    """What a limiter has done since it was made."""

    @property
    def allowed(self) -> int:
        """Checks that were allowed."""
    @property
    def denied(self) -> int:
        """Checks that were denied."""
    @property
    def degraded(self) -> int:
        """Checks that were decided without the store (they are in `allowed` or `denied` as well)."""
    @property
    def degraded_by(self) -> dict[str, int]:
        """The same by reason, such as `store_timeout`."""
    @property
    def keys(self) -> int:
        """States held now: one for each pair of quota and key that is not at full credit."""
    @property
    def bytes(self) -> int:
        """Memory held for them, in bytes."""
    @property
    def expired(self) -> int:
        """States dropped because they were back at full credit."""
    @property
    def evicted(self) -> int:
        """States dropped early because `max_keys` was reached."""
    @property
    def generation(self) -> int:
        """The generation of the quotas in force."""

@final
class Mailbox:
    """
    Where one event loop finds the decisions that it waits for.
    """

    def __new__(cls) -> Self: ...
    def fileno(self) -> int:
        """What the event loop watches: readable when there is something to take."""
    @property
    def has_unsent(self) -> bool:
        """Whether questions were collected that have to be sent."""
    def send(self) -> None:
        """Sends the questions that were collected."""
    @property
    def patience(self) -> float | None:
        """The seconds until somebody has to `hurry` the question that is alone; `None` without one."""
    def hurry(self) -> None:
        """Leaves the question that is alone to the store's thread, if it has waited long enough."""
    def take(self) -> list[tuple[int, Decision]]:
        """All decisions that have come, each with its number."""

def forked() -> None:
    """To be called in a forked child before anything else: what reaches a shared store has to be made anew there."""

class Engine:
    """
    Quotas and counters behind a `Limiter`.

    Args:
        quotas: One mapping of parameters for each quota, in the object form of `parse_quotas`.
        options: `store`, `on_store_error`, `max_keys`; `clock` for the memory store; `budget_ns`, `secret`, `deny_cache`, `instances` for
            shared ones.
    """

    def __new__(cls, quotas: list[Mapping[str, Any]], options: Mapping[str, Any]) -> Self: ...
    def check(self, key: str | bytes, cost: int = 1, *, lease: str | None = None, max_delay: float | None = None) -> Decision:
        """
        Takes `cost` from every quota if it fits into all of them, otherwise takes nothing.

        Args:
            key: Who is counted.
            cost: How much; 0 asks without taking.
            lease: A 128-bit id in hexadecimal for `concurrent` quotas, made by the caller so that a retried call takes the same slot.
            max_delay: The longest delay of a `leaky_bucket`, in seconds, that is of use; a later start is denied instead of charged.

        Returns:
            The decision. A denial is an answer, not an error.

        Raises:
            UsageError: The key is empty or no text, or the cost is no whole number from 0 to 2**53.
        """
    def begin_async(
        self,
        mailbox: Mailbox,
        name: str,
        key: str | bytes,
        cost: int | None = None,
        lease: str | None = None,
        max_delay: float | None = None,
    ) -> Decision | int:
        """Begins what `check`, `peek` or `debit` do, by name: the decision, or the number under which it will be in the mailbox."""
    def shared_health(self) -> dict[str, Any] | None:
        """How a shared store is doing, as plain values; `None` for the memory store."""
    @property
    def is_shared(self) -> bool:
        """Whether other processes share the store, so that decisions take time."""
    def allow(self, key: str | bytes, cost: int = 1) -> bool:
        """
        The fast path of `check`: takes the same, and answers only whether it did.

        Returns:
            Whether the request may pass. Slots of a `concurrent` quota taken this way come free only when their lease expires.
        """
    def peek(self, key: str | bytes, cost: int = 1) -> Decision:
        """
        Answers what `check` would answer, and changes nothing.

        Returns:
            The decision as it would be; `remaining` is what is left now.
        """
    def refund(self, key: str | bytes, decision: Decision, cost: int | None = None) -> int:
        """
        Gives back what a decision took, as far as it still counts.

        Args:
            key: The key of the decision.
            decision: An allowed decision of this limiter: the receipt.
            cost: How much to give back; everything when absent.

        Returns:
            The units accepted. Each unit can be given back once.

        Raises:
            UsageError: The decision belongs to another key or limiter, was denied, or has less left than asked.
        """
    def debit(self, key: str | bytes, cost: int) -> Decision:
        """
        Takes `cost` without asking, for work whose price is known only afterwards. May overdraw by `max_debt`.

        Returns:
            An allowed decision with what is left.
        """
    def settle(self, key: str | bytes, decision: Decision, cost: int) -> Decision:
        """
        Corrects a reservation to its true cost: refunds what was too much, debits what was missing. Once per decision.

        Returns:
            An allowed decision with what is left.
        """
    def renew(self, key: str | bytes, lease: str | Decision) -> bool:
        """
        Extends a lease.

        Returns:
            False when it was lost: it had expired or was released.
        """
    def release(self, key: str | bytes, lease: str | Decision) -> bool:
        """
        Gives slots back.

        Returns:
            False when the lease was unknown, which is no error.
        """
    def reset(self, key: str | bytes) -> bool:
        """
        Forgets a key: it is at full credit again.

        Returns:
            Whether anything was known of it.
        """
    def load(self, quotas: list[Mapping[str, Any]], transition: str) -> int:
        """
        Replaces the quotas for all following decisions, atomically.

        Returns:
            The new generation.
        """
    def stats(self) -> Stats:
        """
        Returns:
            Counters since the limiter was made.
        """
    def close(self) -> None:
        """Frees the counters. Every later call but `close` raises `UsageError`."""
    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
    @property
    def lease_ttl(self) -> float | None:
        """The shortest lease of the `concurrent` quotas in seconds; `None` without one."""

class RuleEngine:
    """
    Rules and counters behind a `RuleLimiter`.

    Args:
        rules: The rule set as JSON, as `tidegate.rules` writes it.
        options: A mapping, as for `Engine`.
    """

    def __new__(cls, rules: str, options: Mapping[str, Any]) -> Self: ...
    def check(
        self, attributes: _Attributes, cost: int | None = None, *, lease: str | None = None, max_delay: float | None = None
    ) -> Decision:
        """
        Takes from the quotas of all rules that apply, if it fits into all of them, otherwise takes nothing.

        Args:
            attributes: The facts about the request.
            cost: How much; by default what each rule says.
            lease: The id for `concurrent` quotas; one is made up when it is absent.
            max_delay: The longest delay of a `leaky_bucket` in seconds that is of use.

        Returns:
            The decision; a request to which no rule applies is allowed.
        """
    def begin_async(
        self,
        mailbox: Mailbox,
        name: str,
        attributes: _Attributes,
        cost: int | None = None,
        lease: str | None = None,
        max_delay: float | None = None,
    ) -> Decision | int:
        """Begins what `check`, `peek` or `debit` do, by name: the decision, or the number under which it will be in the mailbox."""
    def shared_health(self) -> dict[str, Any] | None:
        """How a shared store is doing, as plain values; `None` for the memory store."""
    @property
    def is_shared(self) -> bool:
        """Whether other processes share the store, so that decisions take time."""
    def allow(self, attributes: _Attributes, cost: int | None = None) -> bool:
        """The fast path of `check`: takes the same, and answers only whether it did."""
    def peek(self, attributes: _Attributes, cost: int | None = None) -> Decision:
        """Answers what `check` would answer, and changes nothing."""
    def debit(self, attributes: _Attributes, cost: int) -> Decision:
        """Takes `cost` without asking, for work whose price is known only afterwards. May overdraw by `max_debt`."""
    def reset(self, attributes: _Attributes) -> bool:
        """Forgets the keys of a request under the rules that apply: they are at full credit again."""
    def refund(self, decision: Decision, cost: int | None = None) -> int:
        """
        Gives back what a decision took, as far as it still counts.

        Where rules charged different costs, the first units go back to those that were charged more, and the last to all: a request that
        took fewer tokens than were reserved is still a request.

        Args:
            decision: The decision.
            cost: Units; by default all that are left.

        Returns:
            How many units were accepted.
        """
    def settle(self, decision: Decision, cost: int) -> Decision:
        """
        Corrects a reservation to its true cost: refunds what was too much, debits what was missing. Once per decision.

        Rules that charged less than the decision's cost, such as 1 for each request, are not touched unless the true cost is below theirs.
        """
    def renew(self, decision: Decision) -> bool:
        """Extends the slots that a decision holds; false when it holds none, or lost one."""
    def release(self, decision: Decision) -> bool:
        """Gives the slots back that a decision holds; false when there were none any more."""
    def load(self, rules: str, transition: str) -> int:
        """Replaces the rules for all following decisions, atomically; returns the new generation."""
    def check_descriptors(
        self,
        domain: str,
        descriptors: Iterable[Mapping[str, Any]],
        hits_addend: int = 0,
        *,
        shadow_mode: bool = False,
        quota_mode: bool = False,
    ) -> dict[str, Any]:
        """
        Counts the descriptors of a request as the reference rate limit service does, and says which of them are over their limit.

        Args:
            domain: The domain whose tree is asked.
            descriptors: One mapping each: `entries` (pairs of texts), and if need be `limit` (`requests_per_unit` and `unit`, instead of
                the tree's), `hits_addend` (0 only asks) and `is_negative_hits` (the hits are given back).
            hits_addend: How many hits descriptors count that do not say it; 0 is 1.
            shadow_mode: Whether every request passes, although its statuses say what they say.
            quota_mode: Whether every descriptor denies only together with all others.

        Returns:
            `overall_code` (`OK` or `OVER_LIMIT`); `statuses`, one for each descriptor, with `code`, `current_limit`, `limit_remaining`,
            `duration_until_reset` in seconds, `shadowed`, `quota_mode` and `metadata`; `tightest`, the position of the status that headers
            tell; `metadata` of all that passed; `domain_known`; `degraded`, why the store could not decide; `generation`.
        """
    def load_members(self, members: str) -> int:
        """
        Replaces what customers have of their own (tenant, tier, quotas, blocks) for all following decisions, atomically. The rules stay.

        Args:
            members: The document of members as JSON, as `tidegate.control.members` writes it.

        Returns:
            The new generation.

        Raises:
            ConfigError: It cannot be used, and the old one stays.
        """
    def usage(self, attributes: _Attributes) -> Decision:
        """
        What each rule that counts somebody has left for them, whatever else the rule asks of a request. Changes nothing.

        Args:
            attributes: Who it is; the facts that rules count by.

        Returns:
            A peek with cost 0. Who is blocked is told all the same.
        """
    def forget(self, attributes: _Attributes) -> bool:
        """
        Forgets what every rule counts of somebody alone, whatever else the rule asks of a request: by their API key or as a client.

        Args:
            attributes: Who it is; the facts that rules count by.

        Returns:
            Whether anything was known of them.
        """
    def member_digest(self, attributes: _Attributes) -> str | None:
        """
        The digest by which the sender of a request is known as a member: that of its `api_key`, or of its `client` where it has none.

        Args:
            attributes: The facts about the request.

        Returns:
            32 hexadecimal digits; `None` if nothing says who it is.
        """
    def explain(self, attributes: _Attributes) -> dict[str, Any]:
        """
        What the rules make of a request, rule by rule.

        Args:
            attributes: The facts about the request.

        Returns:
            `attributes`: the facts as the rules see them. `rules`: for each its `rule`, `outcome` (`applies`, `off`, `no_match`, `no_key`,
            `stopped`), `why`, `mode`, `plan`, `quotas`, and if it applies its `key` and `cost`.
        """
    def stats(self) -> Stats:
        """Counters since the limiter was made."""
    def close(self) -> None:
        """Frees the counters. Every later call but `close` raises `UsageError`."""
    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
    @property
    def lease_ttl(self) -> float | None:
        """The shortest lease of the `concurrent` quotas in seconds; `None` without one."""
    @property
    def generation(self) -> int:
        """The generation of the rules in force: 1 at first, one more with each `load`."""

@final
class Server:
    """
    The ports of the service. Requests are answered on threads of its own, without Python.
    """

    def __new__(cls, engine: RuleEngine, settings: str) -> Self: ...
    def start(self) -> dict[str, str]:
        """
        Begins to listen and to serve. Once per object.

        Returns:
            As `addresses`.

        Raises:
            StartupError: A port is taken, a certificate is wrong, or the like.
        """
    @property
    def addresses(self) -> dict[str, str]:
        """Where it listens, by the names of the ports: `http`, `grpc`, `proxy`. Those that are off are missing."""
    def drain(self, grace: float, limit: float) -> int:
        """
        Turns readiness off, serves on for `grace` seconds, takes no more connections, waits up to `limit` seconds for requests that run.

        Returns:
            How many connections were cut.
        """
    def stop(self) -> None:
        """Ends at once what still runs. Nothing happens if nothing does."""
    def note_reload(self, problem: str | None) -> None:
        """Notes how an attempt to load other rules went: what is wrong with them, or `None` if they are in force."""
    def note_control(self, problem: str | None) -> None:
        """Notes how the control plane is doing: why its changes do not come into force, or `None` if they do."""
    def take_events(self, limit: int) -> bytes:
        """
        Takes at most so many of the decisions that wait to be told. None wait if events are off.

        Returns:
            A line of JSON for each, as `tidegate.control.events` reads it.
        """
    def snapshot(self) -> str:
        """What was counted since the start, as one JSON document that `tidegate.control.snapshot` reads."""
    def vitals(self) -> str:
        """How the store and the servers behind a proxy are doing, as one JSON document that `tidegate.service.vigil` reads."""
    def reload_upstreams(self, settings: str) -> str | None:
        """
        Puts other upstreams and routes in force, from a document of settings; answers what is wrong with them. Those in force stay then.
        """
    @staticmethod
    def check_upstreams(settings: str) -> str | None:
        """What is wrong with the certificates that servers behind a proxy are trusted by or shown. Nobody is asked."""
    def refuse_upstreams(self, problem: str) -> None:
        """Notes that settings on disk could not even be read."""
    def reload_certificates(self) -> str | None:
        """Reads the certificates again; answers what is wrong with them. Those in force stay then."""

def check_store(url: str) -> str | None:
    """What is wrong with the address of a shared store; `None` if nothing is. Nobody is asked."""

def check_regex(pattern: str) -> str | None:
    """What is wrong with a regular expression; `None` if nothing is."""

def member_digest(key: bytes, secret: bytes) -> str:
    """
    The digest by which a member with this API key is known.

    Args:
        key: The API key.
        secret: The 16 bytes that `engine_options` makes of an operator's secret.

    Returns:
        32 hexadecimal digits.
    """

def parse_quotas(text: str) -> list[dict[str, Any]]:
    """
    Reads `100/minute burst 20, 5000/hour`.

    Returns:
        One dictionary of parameters for each quota; only what the text says, durations in nanoseconds.

    Raises:
        QuotaError: With the character that is wrong and correct examples.
    """

def format_quota(quota: Mapping[str, Any]) -> str:
    """
    Checks a quota in its object form.

    Returns:
        Its canonical text.

    Raises:
        QuotaError: A parameter is missing, too large or does not belong to the algorithm.
    """
