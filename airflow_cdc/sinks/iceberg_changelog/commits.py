"""What the tasks of Iceberg's sink connector have written and its coordinator has not committed (INV 48).

A task writes files, and says so in the control topic in the transaction that moves its consumer group. The coordinator
commits them to the table later, and notes in the snapshot's summary up to which offset of the control topic it has. So the
group alone proves nothing about the table.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple

import fastavro

from airflow_cdc.core.errors import MALFORMED, TransportError
from airflow_cdc.fields import Fields

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from airflow_cdc.core.ports import TopicRecord

# an Avro message with its own schema before it: two bytes, the length of the schema's text, the text
_MAGIC: Final = b"\xc2\x01"
_HEAD: Final = 4
_DATA_WRITTEN: Final = 1
# of a schema: what names a type or holds one, and what nothing needs
_NAMES: Final = frozenset({"type", "items", "values", "name", "fields"})
_LEFT_OUT: Final = frozenset({"logicalType", "namespace", "default", "doc"})


class Written(NamedTuple):
    """Files that a task has written for a table, and where the control topic says so."""

    partition: int
    offset: int
    table: tuple[str, ...]
    files: int


def written(records: Iterable[TopicRecord], group: str, topic: str) -> Iterator[Written]:
    """What the records of a control topic say that the tasks of this group have written. Raises TransportError."""
    for record in records:
        if not record.value:
            continue
        try:
            event = _event(record.value)
            if event.group != group or event.type != _DATA_WRITTEN:
                continue
            table = Fields.of(event.payload["table_reference"])
            place = (*table.texts("namespace", strict=True), table.text("name"))
            files = sum(len(event.payload.each(name)) for name in ("data_files", "delete_files"))
        except (*MALFORMED, EOFError, struct.error, fastavro.schema.SchemaParseException) as error:
            raise TransportError(
                f"a record of the control topic cannot be read: {type(error).__name__}",
                where=f"topic {topic}, partition {record.partition}, offset {record.offset}",
                todo="Give the sink connector a control topic of its own (iceberg.control.topic).",
            ) from None
        if files:
            yield Written(record.partition, record.offset, place, files)


def committed_up_to(metadata: TableMetadata, key: str) -> dict[int, int] | None:
    """Partition of the control topic → next offset, as the newest snapshot says that says it; None if none does."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    at = metadata.current_snapshot_id
    while at is not None and (snapshot := by_id.get(at)) is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if key in summary:
            return {int(partition): int(offset) for partition, offset in json.loads(summary[key]).items()}
        at = snapshot.parent_snapshot_id
    return None


class _Event(NamedTuple):
    group: str
    type: int
    payload: Fields


def _event(data: bytes) -> _Event:
    if data[:2] != _MAGIC:
        raise ValueError("no Avro message with its schema")
    (length,) = struct.unpack(">H", data[2:_HEAD])
    schema, message = data[_HEAD : _HEAD + length].decode(), BytesIO(data[_HEAD + length :])
    event = fastavro.schemaless_reader(message, _schema(schema), None)
    return _Event(event["group_id"], event["type"], Fields.of(event["payload"]))


@lru_cache(maxsize=64)
def _schema(text: str) -> object:
    return fastavro.parse_schema(_bare(json.loads(text)))


def _bare(schema: object) -> object:
    """A schema without logical types, and without namespaces: Java writes a name of none alike wherever it is used."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if isinstance(schema, str):
        return schema.rpartition(".")[2]
    parts = Fields.of(schema)
    return {name: _bare(one) if name in _NAMES else one for name, one in parts.items() if name not in _LEFT_OUT}
