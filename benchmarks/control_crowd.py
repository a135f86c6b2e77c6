"""
People at a control plane, as a process of its own: dashboards that ask for their page each second, and a list of rules that goes in.

    python control_crowd.py '{"address": "127.0.0.1:8090", "token": "tg_...", "dashboards": 10}'

It says `ready` when everybody has signed in, goes on until its input ends, and then prints what it did.
"""

import json
import statistics
import sys
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import urlencode

EVERY_S = 1.0
RULES = 1_000
PATH = "/api/v1/rate-limit/rules"


@dataclass
class Crowd:
    """Who looks and who imports."""

    address: str
    token: str
    dashboards: int = 10
    over: threading.Event = field(default_factory=threading.Event)
    pages_ms: list[float] = field(default_factory=list)
    rules: int = 0
    failed: list[str] = field(default_factory=list)

    def run(self) -> dict[str, object]:
        """Sign in, say so, work until the input ends, and return what was done."""
        cookie = self._sign_in()
        people = [threading.Thread(target=self._look, args=(cookie, number / self.dashboards)) for number in range(self.dashboards)]
        people.append(threading.Thread(target=self._import))
        for one in people:
            one.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        self.over.set()
        for one in people:
            one.join()
        pages = sorted(self.pages_ms)
        return {
            "pages": len(pages),
            "page_ms": statistics.median(pages) if pages else None,
            "slowest_page_ms": pages[-1] if pages else None,
            "rules": self.rules,
            "failed": self.failed[:5],
        }

    def _sign_in(self) -> str:
        form = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{self.address}"}
        connection = HTTPConnection(self.address, timeout=60)
        connection.request("POST", "/sign-in", urlencode({"token": self.token}), form)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return (answer.headers["set-cookie"] or "").partition(";")[0]

    def _look(self, cookie: str, offset_s: float) -> None:
        # As the script of a page does: one second after the last answer, for what is live only.
        connection = HTTPConnection(self.address, timeout=60)
        self.over.wait(offset_s * EVERY_S)
        while not self.over.is_set():
            begun = time.perf_counter()
            connection.request("GET", "/", headers={"cookie": cookie, "tidegate-part": "1", "accept": "text/html"})
            answer = connection.getresponse()
            answer.read()
            self._require(answer.status, 200)
            self.pages_ms.append(1e3 * (time.perf_counter() - begun))
            self.over.wait(EVERY_S)
        connection.close()

    def _import(self) -> None:
        # A script that makes one rule after the other, as fast as it is answered.
        connection = HTTPConnection(self.address, timeout=60)
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json", "if-match": "*"}
        while not self.over.is_set():
            name = f"imported_{self.rules % RULES:04}"
            text = f"match: {{path: /imported/{self.rules % RULES}/**}}\nper: client\nquotas: {self.rules + 10}/minute\n"
            for method, path in (("PUT", f"{PATH}/{name}"), ("POST", PATH)):
                connection.request(method, path, json.dumps({"text": text} | ({"rule_id": name} if method == "POST" else {})), headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 404:
                    break
            self._require(answer.status, 200, 201)
            self.rules += 1
        connection.close()

    def _require(self, status: int, *wanted: int) -> None:
        if status not in wanted:
            self.failed.append(f"{status} instead of {wanted[0]}")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(Crowd(**json.loads(sys.argv[1])).run()) + "\n")
