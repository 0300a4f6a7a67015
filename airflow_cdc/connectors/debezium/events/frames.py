"""The frame of a connector's events, as its settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.connectors.debezium.events.envelope import Envelope
from airflow_cdc.events.wire.json import Json

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.events.frame import Frame


def frame_of(settings: ConnectorSettings, table: str) -> Frame:
    """The frame of the events of "schema.table"."""
    return Envelope(Json(settings.keys_wrapped), Json(), settings.source, settings.key_mark(table))
