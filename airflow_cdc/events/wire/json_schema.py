"""JSON behind a schema's id, as converters of JSON Schema write it. The values are Connect's JSON, and need no schema to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_cdc.events.record import Headers, SchemaId
from airflow_cdc.events.value import Shape
from airflow_cdc.events.wire import Read, Schemas
from airflow_cdc.events.wire.drafts import Draft, not_written
from airflow_cdc.events.wire.ids import Framing
from airflow_cdc.events.wire.json import Json


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """See Wiring."""

    framing: Framing

    @property
    def headers(self) -> bool:
        """See Wiring: the id is not needed, wherever it is."""
        return False

    def schema_of(self, data: bytes, headers: Headers) -> SchemaId | None:  # noqa: ARG002 - JSON needs no schema
        """See Wiring."""
        return None

    def draft(self, data: bytes, headers: Headers, schemas: Schemas) -> Draft:  # noqa: ARG002 - as Wiring asks
        """See Wiring."""
        raise not_written("JSON Schema")

    def reader(self, shape: Shape, schemas: Schemas) -> Read:
        """See Wiring."""
        read = Json(wrapped=False).reader(shape, schemas)

        def framed(data: bytes, headers: Headers) -> Any:
            _, begin = self.framing.split(data, headers)
            return read(data[begin:], headers)

        return framed
