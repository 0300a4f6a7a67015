"""The two forms of Canal's messages: flat JSON, and packets of protobuf. Both satisfy events.frame.Frame; neither needs a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_cdc.connectors.canal.events.message import Changes, Message
from airflow_cdc.connectors.canal.events.packets import is_packet, messages
from airflow_cdc.core.table import Table
from airflow_cdc.events.frame import Open, Seal, Standing, said
from airflow_cdc.events.record import Opened, Record, SchemaId, Unreadable, Want
from airflow_cdc.events.value import WRONG, Shape, Values, Wire
from airflow_cdc.events.wire import Read, Schemas
from airflow_cdc.events.wire.drafts import not_written
from airflow_cdc.events.wire.json import NOT_JSON, Json

_STRING: Final = Shape(Wire.STRING)
_ROWS: Final = Shape(Wire.ARRAY, of=Shape(Wire.MAP, of=_STRING))
# in the order of Message
_SHAPE: Final = Shape(
    Wire.STRUCT,
    (
        ("data", _ROWS),
        ("old", _ROWS),
        ("database", _STRING),
        ("table", _STRING),
        ("type", _STRING),
        ("isDdl", Shape(Wire.BOOLEAN)),
        ("es", Shape(Wire.INT)),
        ("gtid", _STRING),
    ),
)
_MOST: Final = 2**63


@dataclass(frozen=True, slots=True)
class Flat:
    """Flat JSON: a record is a message (`canal.mq.flatMessage=true`).

    `others`: whether a change of another table, which shares the topic, is told; otherwise it is passed over.
    """

    others: bool = True
    headers: bool = field(default=False, init=False)

    def schemas_of(self, record: Record) -> Sequence[SchemaId]:  # noqa: ARG002 - as Frame asks
        """See Frame."""
        return ()

    def sealer(self, table: Table, values: Values, template: Record, schemas: Schemas, place: Standing) -> Seal:  # noqa: ARG002
        """See Frame."""
        raise not_written("Canal's form")

    def opener(self, table: Table, values: Values, want: Want, schemas: Schemas) -> Open:  # noqa: ARG002 - as Frame asks
        """See Frame."""
        return _Opener(Changes(table, want, self.others), Json(wrapped=False).reader(_SHAPE, {})).flat


@dataclass(frozen=True, slots=True)
class Packets:
    """Protobuf: a record is a packet with many messages (`canal.mq.flatMessage=false`).

    A record of flat JSON among them is read as one: those from before the server's settings were changed. `others`: as in Flat.
    """

    others: bool = True
    headers: bool = field(default=False, init=False)

    def schemas_of(self, record: Record) -> Sequence[SchemaId]:  # noqa: ARG002 - as Frame asks
        """See Frame."""
        return ()

    def sealer(self, table: Table, values: Values, template: Record, schemas: Schemas, place: Standing) -> Seal:  # noqa: ARG002
        """See Frame."""
        raise not_written("Canal's form")

    def opener(self, table: Table, values: Values, want: Want, schemas: Schemas) -> Open:  # noqa: ARG002 - as Frame asks
        """See Frame."""
        return _Opener(Changes(table, want, self.others), Json(wrapped=False).reader(_SHAPE, {})).packet


@dataclass(frozen=True, slots=True)
class _Opener:
    changes: Changes
    read: Read

    def flat(self, record: Record) -> Iterator[Opened]:
        """The changes of a record of flat JSON."""
        if record.value is None:
            yield Opened("", bad=f"the value {NOT_JSON}")
            return
        try:
            message = _message(self.read(record.value, ()))
        except Unreadable as error:
            yield Opened("", bad=said("value", error))
            return
        yield from self.changes.of(message, record, 0, 0)

    def packet(self, record: Record) -> Iterator[Opened]:
        """The changes of a packet."""
        if record.value is None or not is_packet(record.value):
            yield from self.flat(record)
            return
        try:
            every = messages(record.value)
        except ValueError as error:
            yield Opened("", bad=f"the value is no message of Canal's: {error}")
            return
        nth = 0
        for first, message in every:
            for one in self.changes.of(message, record, first, nth):
                nth += 1
                yield one


def _message(parts: Sequence[Any]) -> Message:
    """What is of another type than Canal writes makes it no message; a value that is no text only makes its column unreadable."""
    if WRONG in parts or any(WRONG in rows for rows in parts[:2] if rows is not None):
        raise Unreadable(NOT_JSON)
    message = Message(*parts)
    if message.es is not None and not -_MOST <= message.es < _MOST:
        raise Unreadable(NOT_JSON)
    return message
