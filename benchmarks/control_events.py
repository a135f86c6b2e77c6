"""What events cost a check: the same load with a control plane that takes them and without one, allowed and denied."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import service_servers as servers
from child import Advance
from service_http import check_lane
from service_lanes import SERVER, Plan, Setup, missing, take_turns
from service_load import program

DENYING = servers.NATIVE.replace("100000000/minute", "0/minute")
KINDS = (("allowed", servers.NATIVE), ("denied", DENYING))


def measure(*, quick: bool, folder: Path, advance: Advance) -> dict[str, Any]:
    """Return a row for each kind of decision, without a control plane and with one."""
    if program("wrk") is None:
        return {"rows": [missing("tidegate", "check", "wrk is not installed")]}
    setup = Setup(Plan.of(quick=quick), folder)
    with ExitStack() as stack:
        lanes = []
        for note, rules in KINDS:
            database = {"admin.listen": "127.0.0.1:0", "admin.database": f"sqlite:///{folder}/{note}.db"}
            for told, settings in (("no events", {}), ("events", database)):
                target = stack.enter_context(servers.tidegate(rules, SERVER, settings=settings))
                lanes.append(check_lane("tidegate", f"{note}, {told}", target, setup))
        return {"rows": take_turns(lanes, setup.plan, advance)}
