"""
Who decides in front of an application: the same for every framework, blocking and async.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate._mail import ask
from tidegate._options import StoreOptions
from tidegate._sleep import sleep, sleep_async
from tidegate.errors import ConfigError, TidegateError
from tidegate.integrations._address import client_of_address
from tidegate.integrations._choose import Inline, Source, choose
from tidegate.integrations._exempt import Exemptions
from tidegate.integrations._functions import COST_MAX, cost_function, key_function, read_cost
from tidegate.integrations._hold import Holds
from tidegate.integrations._problem import PROBLEM_JSON, STATUS, problem, problem_members
from tidegate.integrations._reads import EVERYTHING, Reads
from tidegate.integrations._settings import GuardOptions
from tidegate.rule_limiter import RuleLimiter

if TYPE_CHECKING:
    import asyncio
    import os
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from tidegate import Decision
    from tidegate.integrations._decider import Decider
    from tidegate.integrations._functions import Cost, Key
    from tidegate.quota import Quotas
    from tidegate.rule_limiter import Attributes
    from tidegate.rules import RuleSet

__all__ = ["PROBLEM_JSON", "STATUS", "Guard", "problem", "problem_members"]


class Guard:
    """
    Decides for the requests of an application, and remembers what they hold.

    Exactly one of `quotas`, `rules`, `limiter` and `service` says by what.

    Args:
        quotas: Quotas for each client, as for `Limiter`.
        rules: A rule file, a directory of them, or a rule set.
        limiter: A limiter that exists already: `Limiter.from_rules(...)` or `tidegate.Client(...)`. It is not closed by the guard.
        service: The address of a Tidegate service.
        watch: `rules`: whether changes of the files come into force by themselves.
        key: Makes of the framework's request who is counted; by default the address is. When it fails or returns `None` or an empty text,
            the request is counted by address.
        cost: How much a request takes: a number, or a function of the framework's request. Default: 1, or what the rules say.
        exempt: Paths that are not limited, such as `/healthz` or `/static/*`.
        headers: Whether responses tell clients what is left.
        trusted_proxies: `quotas`: networks whose `X-Forwarded-For` is believed, and `unix` for a socket in the file system. With `rules`
            their `identity` says it.
        name: `quotas`: the name of the rule, in headers and metrics. Applications that share a store need names of their own. Default:
            `limit`; with `scoped` made of the quotas, such as `5-per-minute`.
        scoped: `quotas`: whether the attribute `scope` is counted separately, as for limits of single routes. Equal limits then share one
            limiter.
        options: The store: as for `Limiter`.

    Raises:
        ConfigError: The arguments do not go together, or one of them is wrong.
    """

    def __init__(  # noqa: PLR0913  # all but the first are named at the call
        self,
        quotas: Quotas | None = None,
        *,
        rules: str | os.PathLike[str] | RuleSet | None = None,
        limiter: Decider | None = None,
        service: str | None = None,
        watch: bool = False,
        key: Key | None = None,
        cost: Cost | None = None,
        exempt: Iterable[str] = (),
        headers: bool = True,
        trusted_proxies: Iterable[str] = (),
        name: str | None = None,
        scoped: bool = False,
        **options: Unpack[StoreOptions],
    ) -> None:
        for unknown in options.keys() - StoreOptions.__annotations__.keys():
            known = sorted(GuardOptions.__annotations__)
            raise TypeError(f"unknown option {unknown!r:.80}: beside quotas there are {', '.join(known)}")
        if key is not None and not callable(key):
            raise ConfigError("the key is a function of the request, such as key=lambda request: request.headers.get('x-api-key')")
        if cost is not None and not callable(cost) and read_cost(cost) is None:
            raise ConfigError(f"the cost is a whole number from 0 to {COST_MAX}, or a function of the request")
        inline = Inline(name, is_named=key is not None, is_scoped=scoped, trusted_proxies=trusted_proxies)
        chosen = choose(Source(quotas, rules, limiter, service), inline, watch=watch, options=options)
        self.limiter = chosen.limiter
        """Who decides."""
        self._is_owner = chosen.is_owned
        self.mark = f"{chosen.mark} {id(key)}"
        """The same for guards that limit the same by the same: one of them is enough."""
        self._exempt = Exemptions(exempt)
        self.has_exemptions = bool(self._exempt)
        """Whether any path is exempt."""
        self.is_telling = headers
        """Whether responses tell clients what is left."""
        self.key = None if key is None else key_function(key)
        """Who says who is counted, if the application does."""
        self.cost = cost_function(cost) if callable(cost) else cost
        """What requests cost, or who says it; `None` for what the rules say."""
        self._rule_set: RuleSet | None = None
        self._reads = EVERYTHING
        if quotas is None and key is not None and isinstance(self.limiter, RuleLimiter) and self.limiter.rule_set.identity:
            raise ConfigError("the rules say who the client is, by `identity`: leave out key, or remove `identity` from the rules")
        self.is_shared = self.limiter.is_shared
        """Whether decisions take time, and async code has to await them."""
        self._holds = Holds(self.limiter)
        self.is_by_address = quotas is not None and key is None and cost is None and self.reads.is_address_only
        """Whether the attribute `ip` says all that there is to know, but for the `scope` of routes: what most applications have."""
        self.is_simple = self.is_by_address and self.limiter.lease_ttl is None
        """Whether beside that no slots are held: `begin` decides."""

    @property
    def reads(self) -> Reads:
        """What the rules in force read of a request; the rest need not be among its attributes."""
        limiter = self.limiter
        if isinstance(limiter, RuleLimiter) and limiter.rule_set is not self._rule_set:
            self._rule_set = limiter.rule_set
            self._reads = Reads.of(limiter.rule_set)
        return self._reads

    @property
    def held(self) -> int:
        """How many requests hold slots now."""
        return len(self._holds)

    def is_exempt(self, path: str) -> bool:
        """
        Whether a path is not limited.

        Args:
            path: The path, decoded.

        Returns:
            Whether it is.
        """
        return path in self._exempt

    def identify(self, attributes: dict[str, Any], client: str | None) -> None:
        """
        Says in the attributes who is counted.

        Args:
            attributes: The attributes, with `ip` (see `peer_address`).
            client: What the key function said, if there is one.
        """
        if client is not None:
            attributes["client"] = client
        elif not self.reads.has_identity:
            # Rules by client do not apply to a request without one: it would be free.
            address = client_of_address(attributes["ip"])
            attributes["client"] = address if self.key is None else f"ip:{address}"

    def identify_request(self, attributes: dict[str, Any], request: Any) -> None:  # noqa: ANN401  # any framework's
        """
        Asks the key function, and says in the attributes who is counted.

        Args:
            attributes: The attributes, with `ip` (see `peer_address`).
            request: What the key function takes.
        """
        self.identify(attributes, None if self.key is None else self.key.ask(request))

    async def identify_request_async(self, attributes: dict[str, Any], request: Any) -> None:  # noqa: ANN401  # any framework's
        """
        As `identify_request`, with a key function that may be async.
        """
        self.identify(attributes, None if self.key is None else await self.key.ask_async(request))

    def cost_of(self, request: Any) -> int | None:  # noqa: ANN401  # any framework's
        """
        What a request costs.

        Args:
            request: What the cost function takes.

        Returns:
            The cost; `None` for what the rules say.
        """
        cost = self.cost
        return cost if cost is None or isinstance(cost, int) else cost.ask(request)

    async def cost_of_async(self, request: Any) -> int | None:  # noqa: ANN401  # any framework's
        """
        As `cost_of`, with a cost function that may be async.
        """
        cost = self.cost
        return cost if cost is None or isinstance(cost, int) else await cost.ask_async(request)

    def decide(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        Decides, and keeps the slots that were taken until `release`. Does not wait as `check` does.

        Args:
            attributes: The facts about the request.
            cost: How much; by default what the rules say.

        Returns:
            The decision.
        """
        decision = self.limiter.check(attributes, cost)
        lease = decision.lease
        if lease is not None:
            self._holds.add(lease, decision)
        return decision

    def begin(self, attributes: Attributes) -> Decision | asyncio.Future[Decision]:
        """
        Begins to decide, without a coroutine of its own: for a guard that `is_simple`.

        Args:
            attributes: The facts about the request.

        Returns:
            The decision, if it is known, as it always is in memory; else what it will be in.
        """
        if self.is_shared:
            return ask(self.limiter, "check", attributes, None)  # type: ignore[arg-type]  # quotas make a limiter of this process
        return self.limiter.check(attributes)

    async def decide_async(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        As `decide`, while other tasks run.
        """
        if not self.is_shared:
            return self.decide(attributes, cost)
        if self.limiter.lease_ttl is None:
            decision = await self.limiter.check_async(attributes, cost)
        else:
            decision = await self._decide_slots(attributes, cost)
        lease = decision.lease
        if lease is not None:
            self._holds.add(lease, decision)
        return decision

    def check(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        Decides, and waits as long as a `leaky_bucket` delays the start. The slots that were taken are held until `release`.

        Args:
            attributes: The facts about the request.
            cost: How much; by default what the rules say.

        Returns:
            The decision: if it is allowed, the request may start now.
        """
        # As `decide` does it: one call less on the way of every request.
        decision = self.limiter.check(attributes, cost)
        if decision.lease is not None:
            self._holds.add(decision.lease, decision)
        if decision.delay_ns:
            self.delay(decision)
        return decision

    def delay(self, decision: Decision) -> None:
        """
        Waits as long as a `leaky_bucket` delays the start of a request. What was taken is given back if the wait is broken off.

        Args:
            decision: The decision.
        """
        if not decision.allowed:
            return
        try:
            sleep(decision.delay_ns, self.limiter.clock)
        except BaseException:
            self.refund(decision)
            raise

    async def check_async(self, attributes: Attributes, cost: int | None = None) -> Decision:
        """
        As `check`, while other tasks run. Cancelling it gives back what was taken.
        """
        decision = await self.decide_async(attributes, cost)
        if decision.delay_ns:
            await self.delay_async(decision)
        return decision

    async def delay_async(self, decision: Decision) -> None:
        """
        As `delay`, while other tasks run.
        """
        if not decision.allowed:
            return
        try:
            await sleep_async(decision.delay_ns, self.limiter.clock)
        except BaseException:
            await self.refund_async(decision)
            raise

    def release(self, decision: Decision) -> None:
        """
        Gives back the slots that a decision took. Without any, and the second time, it does nothing. Never raises.

        Args:
            decision: The decision.
        """
        lease = decision.lease
        if lease is not None and self._holds.take(lease) is not None:
            self._give_slots_back(decision)

    async def release_async(self, decision: Decision) -> None:
        """
        As `release`, while other tasks run. It happens also if the caller is cancelled meanwhile.
        """
        lease = decision.lease
        if lease is not None and self._holds.take(lease) is not None:
            await self._elsewhere(self._give_slots_back, decision)

    def refund(self, decision: Decision) -> None:
        """
        Gives back all that a decision took, slots and units, as for a request that did not run after all. Never raises.

        Args:
            decision: The decision.
        """
        if decision.lease is not None:
            self._holds.take(decision.lease)
        self._give_all_back(decision)

    async def refund_async(self, decision: Decision) -> None:
        """
        As `refund`, while other tasks run. It happens also if the caller is cancelled meanwhile.
        """
        if decision.lease is not None:
            self._holds.take(decision.lease)
        await self._elsewhere(self._give_all_back, decision)

    def fields(self, decision: Decision) -> list[tuple[str, str]]:
        """
        The header fields for the response, whether the request was allowed or denied.

        Args:
            decision: The decision.

        Returns:
            Names and values; none if they are switched off.
        """
        return list(decision.headers().items()) if self.is_telling else []

    def close(self) -> None:
        """
        Ends the limiter, unless it was given.
        """
        if self._is_owner:
            self.limiter.close()

    async def close_async(self) -> None:
        """
        As `close`, while other tasks run.
        """
        if self._is_owner:
            await self._elsewhere(self.limiter.close)

    async def _decide_slots(self, attributes: Attributes, cost: int | None) -> Decision:
        # A caller that is cancelled while the store is asked never learns of its slot, and nobody would give it back.
        import asyncio  # noqa: PLC0415  # as in `_sleep`: blocking programs never need it

        asked = asyncio.ensure_future(self.limiter.check_async(attributes, cost))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            asked.add_done_callback(self._give_back_unclaimed)
            raise

    def _give_back_unclaimed(self, asked: Any) -> None:  # noqa: ANN401  # a future, of a module that is imported late
        if not asked.cancelled() and asked.exception() is None and asked.result().lease is not None:
            asked.get_loop().run_in_executor(None, self._give_all_back, asked.result())

    async def _elsewhere(self, function: Callable[..., None], *arguments: Any) -> None:  # noqa: ANN401  # as the function takes them
        if not self.is_shared:
            function(*arguments)
            return
        import asyncio  # noqa: PLC0415  # as above

        # It is under way before anything is awaited, and a cancelled caller does not stop it.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, function, *arguments))

    def _give_slots_back(self, decision: Decision) -> None:
        # A limiter that was closed meanwhile has nothing to take back, and a lease that nobody gives back expires.
        with suppress(TidegateError):
            self.limiter.release(decision)

    def _give_all_back(self, decision: Decision) -> None:
        with suppress(TidegateError):
            self.limiter.refund(decision)
        if decision.lease is not None:
            self._give_slots_back(decision)
