# The client of a service: the same methods as a limiter in this process, with the counters elsewhere.
# This program starts the service itself, so that it runs anywhere; usually `tidegate serve` does.

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from tidegate import Client
from tidegate.service import Service, load

RULES = """
version: 1
rules:
  - {name: per_client, per: client, quotas: 3/minute}
  - {name: exports, match: {path: /exports}, per: client, quotas: 2 concurrent}
"""


async def export(client: Client, number: int) -> None:
    async with client.slot({"client": f"job{number}", "path": "/exports"}):
        print(f"export {number} runs")


async def main(client: Client) -> None:
    await asyncio.gather(*(export(client, number) for number in range(3)))


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s: %(message)s")
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        flags = {"rules": str(rules), "http.listen": "127.0.0.1:0", "grpc.listen": "127.0.0.1:0", "admin.listen": "off"}
        with (
            Service(load(environment={}, flags=flags)) as service,
            # A patient budget, because this example counts exactly: usually it is 50 ms.
            Client(f"http://{service.addresses['http']}", budget=5, fallback=rules) as client,
        ):
            for _ in range(4):
                decision = client.check({"client": "alice", "path": "/orders"})
                print(f"{'allowed' if decision else 'denied '} {decision.headers()}")
            assert not decision.allowed
            asyncio.run(main(client))

            service.stop()
            decision = client.check({"client": "bob", "path": "/orders"})
            print(f"without the service: {decision}")
            assert decision.allowed
            assert decision.degraded
