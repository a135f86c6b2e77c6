"""
A hundred thousand overrides: imported, in force in a data plane, exported, and the same when they come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tidegate.control.roles import Role
from tidegate.service.service import Service

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Eventually, Measured
    from tests.control.controlling import settings_for, token_of
else:
    from controlling import settings_for, token_of

MANY = 100_000
PATH = "/admin/v1/quotas.csv"
RULES = "version: 1\nidentity: [{header: x-api-key}]\nrules: [{name: calls, per: client, quotas: 1/day}]\n"


@pytest.mark.timeout(180)
def test_a_hundred_thousand_overrides_go_in_and_come_out_again(tmp_path: Path, eventually: Eventually, measured: Measured) -> None:
    """Each has a quota that no other has, and holds. Five seconds are promised from the database into force; they are measured here."""
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    rows = "".join(f"key-{number},t{number % 500},pro,{number + 2}/day\n" for number in range(MANY))
    with Service(settings_for(f"sqlite:///{tmp_path}/tidegate.db", tmp_path)) as service:
        assert service.control is not None
        headers = {"authorization": f"Bearer {token_of(service.control, Role.EDITOR)}"}
        with httpx.Client(base_url=f"http://{service.addresses['admin']}", headers=headers, timeout=200) as client:
            imported = client.post(PATH, content=f"api_key,tenant,tier,quota:calls\n{rows}", params={"reason": "all of them"})
            assert {"rows": MANY, "replaced": 0, "is_dry": False} == imported.json()
            took = eventually(lambda: MANY + 1 == limit_of(service, MANY - 1), 120)
            head, *exported = client.get(PATH).text.splitlines()
            # What comes back takes the place of what is there; a part of it is enough to see that, and takes less time.
            again = client.post(PATH, content="\n".join([head, *exported[:1000]]))

        measured("from the end of the import into force, seconds", took)
        assert MANY == len(exported)
        assert {"rows": 1000, "replaced": 1000, "is_dry": False} == again.json()
        assert [2, 717, MANY + 1] == [limit_of(service, number) for number in (0, 715, MANY - 1)]


def limit_of(service: Service, number: int) -> int | None:
    """
    What a key may do in a day.
    """
    return service.limiter.peek({"headers": {"x-api-key": f"key-{number}"}}).limit
