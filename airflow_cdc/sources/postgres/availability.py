"""Whether the pipeline's slot still gives a reader every change since a position, according to the server's facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.core.position import Availability, Available, Position
from airflow_cdc.sources.postgres.position import postgres_position

if TYPE_CHECKING:
    from airflow_cdc.sources.postgres.facts import PgFacts


def available(facts: PgFacts, position: Position) -> Available:
    """The one answer to whether a reader at `position` would find every change since, from the server's facts."""
    here, slot = postgres_position(position), facts.slot
    if not here.comparable(facts.log.position):
        return Available(Availability.UNKNOWN, f"{here} is of another server than {facts.log.name}")
    if here.lsn > facts.log.lsn and not facts.log.standby:
        return Available(Availability.NOT_YET, f"the log ends at {facts.log.lsn}")
    if slot is None:
        return Available(Availability.LOST, f"slot {facts.slot_name!r} does not exist")
    if slot.invalidated:
        return Available(Availability.LOST, f"slot {slot.name!r} was invalidated ({slot.invalidated})")
    for name, lsn in (("begins at", slot.restart), ("was moved to", slot.confirmed)):
        if lsn is not None and here.lsn < lsn:
            return Available(Availability.LOST, f"slot {slot.name!r} {name} {lsn}")
    return Available(Availability.AVAILABLE, f"slot {slot.name!r} holds all after {slot.confirmed}")
