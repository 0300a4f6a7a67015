"""Is a stored position still on the source? The source answers (Source.availability), for sensors, steps and diagnosis alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow_cdc.core.endpoint import DataEndpoint
from airflow_cdc.core.position import Availability
from airflow_cdc.kinds import SOURCES, read_position
from airflow_cdc.triggers.base import Answer, ProbeTrigger, State

STATES: Final = {
    Availability.AVAILABLE: State.AVAILABLE,
    Availability.NOT_YET: State.WAITING,
    Availability.LOST: State.LOST,
    Availability.UNKNOWN: State.UNKNOWN,
}


class PositionTrigger(ProbeTrigger[DataEndpoint]):
    """Waits until everything after `position` can be read from the source of `conn_id`, or never can.

    `position` is a position as JSON, with the kind of its source; `asked` is the event's text for what was waited for.
    """

    fields = ("conn_id", "position", "asked")

    def __init__(
        self,
        *,
        conn_id: str,
        position: Mapping[str, object],
        asked: Mapping[str, object],
        poke_interval: float,
        timeout: float,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout)
        self.conn_id = conn_id
        self.position = position
        self.asked = asked

    def facts(self) -> dict[str, object]:
        return {"conn_id": self.conn_id, **self.asked}

    async def prepare(self) -> DataEndpoint:
        return await SOURCES[str(self.position["kind"])].hook.load()(self.conn_id).aendpoint()

    def probe(self, prepared: DataEndpoint) -> Answer:
        source = SOURCES[str(self.position["kind"])].client.load()(prepared)
        available = source.availability(read_position(self.position))
        return Answer(STATES[available.state], available.why)
