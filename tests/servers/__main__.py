"""
Starts servers for a program in another language: `python -m tests.servers single`.

The first line of the output describes them as JSON. Then every line of the input is an action (see `control`), answered by one line. All
servers end when the input ends, also if the program was killed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from .binaries import NAMES, Missing, available
from .control import Control, Json
from .single import Single

if TYPE_CHECKING:
    from .tls import Certificates


def main() -> int:
    """
    Serves until the input ends.
    """
    options = _options()
    try:
        control = _start(options)
    except Missing as missing:
        _say({"missing": str(missing)})
        return 2
    _say(control.describe())
    for line in sys.stdin:
        try:
            _say({"answer": control.answer(json.loads(line))})
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the other side must not wait for an answer
            _say({"error": f"{type(error).__name__}: {error}"})
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("nothing", help="no server: for fakes, and to list what is installed")
    single = kinds.add_parser("single", help="one server")
    for kind in (single,):
        kind.add_argument("--server", choices=NAMES, default=NAMES[0])
        kind.add_argument("--password")
        kind.add_argument("--tls", action="store_true")
        kind.add_argument("--tls-auth-clients", action="store_true")
        kind.add_argument("--config", action="append", default=[], metavar="LINE", help="one more line of configuration")
    single.add_argument("--acl", action="append", default=[], metavar="USER", help="such as 'user limiter on >secret ~tg:* +@all'")
    single.add_argument("--tls-host", action="append", metavar="NAME", help="a name in the certificate")
    single.add_argument("--maxmemory")
    single.add_argument("--maxmemory-policy", default="noeviction")
    single.add_argument("--faketime", action="store_true")
    return parser.parse_args()


def _start(options: argparse.Namespace) -> Control:
    match options.kind:
        case "single":
            return _single(options)
        case _:
            return Control(lambda: {"kind": "nothing", "url": "", "available": [binary.text for binary in available()]}, list)


def _single(options: argparse.Namespace) -> Control:
    server = Single(
        server=options.server,
        password=options.password,
        acl=options.acl,
        tls=options.tls,
        tls_auth_clients=options.tls_auth_clients,
        **({"tls_hosts": tuple(options.tls_host)} if options.tls_host else {}),
        maxmemory=options.maxmemory,
        maxmemory_policy=options.maxmemory_policy,
        faketime=options.faketime,
        config=options.config,
    )

    def describe() -> dict[str, Json]:
        return {
            "kind": "single",
            "server": server.node.binary.text,
            "url": server.url(),
            "unix_url": server.unix_url(),
            "addresses": [server.address],
            "pids": [server.pid],
            "certificates": _paths(server.certificates),
        }

    control = Control(describe, lambda: [server])
    control.actions["step_clock"] = lambda request: server.step_clock(request["seconds"])
    return control


def _paths(files: Certificates | None) -> Json:
    return {name: str(path) for name, path in asdict(files).items()} if files else None


def _say(line: Json) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
