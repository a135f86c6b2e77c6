"""
Starts servers for a program in another language: `python -m tests.servers single`.

The first line of the output describes them as JSON. Then every line of the input is an action (see `control` and `topologies`), answered by
one line. All servers end when the input ends, also if the program was killed.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from . import topologies
from .binaries import NAMES, Missing
from .cluster import Cluster
from .sentinel import Sentinel
from .single import Single

if TYPE_CHECKING:
    from .control import Control, Json, Request


def main() -> int:
    """
    Serves until the input ends.

    Returns:
        The exit code: 2 if this machine has no such server.
    """
    options = vars(_parser().parse_args())
    try:
        control = _start(options.pop("kind"), options)
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


def _parser() -> argparse.ArgumentParser:
    # What is not said is not passed on: the defaults are those of the classes.
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("nothing", help="no server: for fakes, and to see what is installed")
    single = kinds.add_parser("single", help="one server", argument_default=argparse.SUPPRESS)
    sentinel = kinds.add_parser("sentinel", help="a primary, its replica and three sentinels", argument_default=argparse.SUPPRESS)
    cluster = kinds.add_parser("cluster", help="three primaries and three replicas", argument_default=argparse.SUPPRESS)
    for kind in (single, sentinel, cluster):
        kind.add_argument("--server", choices=NAMES)
        kind.add_argument("--password")
        kind.add_argument("--tls", action="store_true")
        kind.add_argument("--tls-auth-clients", action="store_true", help="clients must show a certificate")
        kind.add_argument("--config", action="append", metavar="LINE", help="one more line of configuration")
    single.add_argument("--acl", action="append", metavar="LINE", help="such as 'user limiter on >secret ~tg:* +@all'")
    single.add_argument("--tls-host", action="append", dest="tls_hosts", metavar="NAME", help="a name in the certificate")
    single.add_argument("--maxmemory")
    single.add_argument("--maxmemory-policy")
    single.add_argument("--faketime", action="store_true", help="the clock can be stepped")
    sentinel.add_argument("--sentinel-user")
    sentinel.add_argument("--sentinel-password")
    sentinel.add_argument("--replicas", type=int)
    sentinel.add_argument("--down-after-ms", type=int)
    cluster.add_argument("--primaries", type=int)
    cluster.add_argument("--replicas", type=int)
    cluster.add_argument("--node-timeout-ms", type=int)
    return parser


def _start(kind: str, options: Request) -> Control:
    match kind:
        case "single":
            if hosts := options.pop("tls_hosts", None):
                options["tls_hosts"] = tuple(hosts)
            return topologies.control_single(Single(**options))
        case "sentinel":
            return topologies.control_sentinel(Sentinel(**options))
        case "cluster":
            return topologies.control_cluster(Cluster(**options))
        case _:
            return topologies.nothing()


def _say(line: Json) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
