"""
What the data planes do: the last decisions, the last two minutes, and who they are.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict

from tidegate.control import events, instances
from tidegate.control.api.access import Caller, InControl, needs
from tidegate.control.api.problem import described
from tidegate.control.live import Live
from tidegate.control.roles import Role

router = APIRouter(prefix="/admin/v1", tags=["events"])
LIMIT_MAX = 1000

Word = Annotated[str | None, Query(max_length=300)]


class Told(BaseModel):
    """
    One decision: a denied one, or a sample that stands for `weight` allowed ones.
    """

    model_config = ConfigDict(from_attributes=True)
    event_id: str
    client_id: str
    endpoint: str
    rule_id: str
    allowed: bool
    current_count: int | None
    limit_count: int | None
    at: datetime
    instance: str
    digest: str
    cost: int
    tier: str
    degraded: str | None
    shadowed: list[str]
    weight: int


class Page(BaseModel):
    """
    A page of events, newest first.
    """

    events: list[Told]
    next: str | None
    """What `before` has to be for the next page; null on the last one."""


class Reported(BaseModel):
    """
    A data plane. `live` is what it did in the last two minutes.
    """

    name: str
    is_alive: bool
    started_at: datetime
    seen_at: datetime
    version: str
    number: int
    generation: int
    problem: str | None
    live: dict[str, Any]


@router.get("/events", responses=described(401, 403, 422, 503))
def read(  # noqa: PLR0913, PLR0917  # as many filters
    control: InControl,
    _caller: Annotated[Caller, needs(Role.VIEWER)],
    rule_id: Word = None,
    client_id: Word = None,
    digest: Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")] = None,
    endpoint: Word = None,
    instance: Word = None,
    allowed: bool | None = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
    before: Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")] = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 100,
) -> Page:
    """
    Reads the last decisions. `client_id` is as it is shown, masked or not; an `endpoint` that ends in `*` asks for all that begin so.
    """
    wanted = events.Filter(rule_id, client_id, digest, endpoint, instance, allowed, since, until)
    with control.database.reading() as session:
        found = events.find(session, wanted, before=before, limit=limit + 1)
        told = [Told.model_validate(event) for event in found[:limit]]
    return Page(events=told, next=told[-1].event_id if len(found) > limit else None)


@router.get("/live", responses=described(401, 403, 503))
def live(control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)]) -> dict[str, Any]:
    """
    What all data planes did in the last two minutes, second by second. Latencies are those of the slowest one.
    """
    now = control.now()
    with control.database.reading() as session:
        alive = [Live.from_json(one.live) for one in instances.find(session) if instances.is_alive(one, now)]
    return instances.merged(alive).to_json()


@router.get("/instances", responses=described(401, 403, 503))
def list_instances(control: InControl, _caller: Annotated[Caller, needs(Role.VIEWER)]) -> list[Reported]:
    """
    All data planes that reported in the last hour.
    """
    now = control.now()
    with control.database.reading() as session:
        return [
            Reported(
                name=one.name,
                is_alive=instances.is_alive(one, now),
                started_at=one.started_at,
                seen_at=one.seen_at,
                version=one.version,
                number=one.number,
                generation=one.generation,
                problem=one.problem,
                live=one.live,
            )
            for one in instances.find(session)
        ]
