"""
A thousand asyncio tasks on one key: exactly the limit passes.
"""

import asyncio

from tidegate import Limiter

LIMIT = 100
limiter = Limiter(f"{LIMIT}/minute")


async def request(number: int) -> bool:
    decision = await limiter.check_async("everybody")
    if number == 0:
        print(decision)
    return decision.allowed


async def main() -> None:
    answers = await asyncio.gather(*(request(number) for number in range(1_000)))
    print(f"{sum(answers)} of {len(answers)} tasks were allowed")
    assert sum(answers) == LIMIT


asyncio.run(main())
