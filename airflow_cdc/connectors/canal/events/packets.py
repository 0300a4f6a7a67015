"""Canal's protobuf messages (`canal.mq.flatMessage=false`), unpacked to the flat JSON that Canal itself would have sent.

A record is a packet with a batch of entries: begins and ends of transactions, and per statement and table one entry with its
rows. Canal writes one flat record per such entry, so that everything after this module reads one form of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from airflow_cdc.connectors.canal.events.message import Message
from airflow_cdc.core.errors import needs

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

_MANY: Final = "*"
# The fields that are read, of Canal 1.1.7: name → (number, type); * before the type of a repeated one.
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "Packet": {"type": (3, "int64"), "compression": (4, "int64"), "body": (5, "bytes")},
    "Batch": {"entries": (2, "*Entry")},
    "Entry": {"header": (1, "Header"), "kind": (2, "int64"), "content": (3, "bytes")},
    "Header": {"time": (6, "int64"), "schema": (8, "string"), "table": (9, "string"), "gtid": (13, "string")},
    "Change": {"type": (2, "int64"), "is_ddl": (10, "bool"), "sql": (11, "string"), "rows": (12, "*Row")},
    "Row": {"before": (1, "*Column"), "after": (2, "*Column")},
    "Column": {"name": (3, "string"), "updated": (5, "bool"), "is_null": (6, "bool"), "value": (8, "string")},
}
_PACKAGE: Final = "canal"
_MESSAGES_PACKET: Final = 7
# none, also as the second version of protobuf left it out
_UNCOMPRESSED: Final = (0, 1)
_ROWS: Final = 2
# begin and end of a transaction, a heartbeat, and a GTID of its own: Canal makes no flat record of them
_WITHOUT_ROWS: Final = (1, 3, 4, 5)
_TYPES: Final = {
    1: "INSERT", 2: "UPDATE", 3: "DELETE", 4: "CREATE", 5: "ALTER", 6: "ERASE", 7: "QUERY", 8: "TRUNCATE", 9: "RENAME",
    10: "CINDEX", 11: "DINDEX", 12: "GTID", 13: "XACOMMIT", 14: "XAROLLBACK", 15: "MHEARTBEAT",
}  # fmt: skip
# how a packet begins: with its magic number, its version or its type; Canal leaves out what has its default
_FIRST_BYTES: Final = (b"\x08", b"\x10", b"\x18")
# how an entry says that it is DDL; rows may hold these bytes, too
DDL_MARK: Final = b"\x50\x01"


@dataclass(frozen=True, slots=True)
class FlatText:
    """An entry as flat JSON. `first`: how many changes of the same record stand before it."""

    first: int
    text: str


def check_installed() -> None:
    """Raises ConfigError if the package that reads protobuf is not installed."""
    _classes()


def is_packet(value: bytes) -> bool:
    """Whether a record begins as a packet does; flat JSON begins with a brace."""
    return value[:1] in _FIRST_BYTES


def flat_texts(value: bytes) -> Sequence[FlatText]:
    """The entries of a packet that have a flat form, in order. Raises ValueError for anything else."""
    return [
        FlatText(first, json.dumps(flat, ensure_ascii=False, separators=(",", ":"))) for first, flat in _flats(value)
    ]


def messages(value: bytes) -> Sequence[tuple[int, Message]]:
    """The same as messages, each with how many rows of the same record stand before it."""
    names = ("data", "old", "database", "table", "type", "isDdl", "es", "gtid")
    return [(first, Message(*(flat[name] for name in names))) for first, flat in _flats(value)]


def _flats(value: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    first = 0
    for entry in _read("Batch", _body(value)).entries:
        if entry.kind in _WITHOUT_ROWS:
            continue
        if entry.kind != _ROWS:
            raise ValueError(f"an entry of the unknown type {entry.kind}")
        change = _read("Change", entry.content)
        flat = _flat(entry.header, change)
        if not all(type(text) is str for text in _texts(flat)):  # protobuf gives what is not UTF-8 as bytes
            raise ValueError("one of its texts is not UTF-8")
        yield first, flat
        first += max(1, len(change.rows))


def _texts(flat: Mapping[str, Any]) -> Iterator[object]:
    yield from (flat[name] for name in ("database", "table", "gtid", "sql"))
    for row in (*(flat["data"] or ()), *(flat["old"] or ())):
        yield from row
        yield from (text for text in row.values() if text is not None)


def _body(value: bytes) -> bytes:
    packet = _read("Packet", value)
    if packet.type != _MESSAGES_PACKET:
        raise ValueError(f"a packet of type {packet.type}, which holds no entries")
    if packet.compression not in _UNCOMPRESSED:
        raise ValueError(f"a packet with compression {packet.compression}")
    return bytes(packet.body)


def _flat(header: Any, change: Any) -> dict[str, Any]:
    kind = _TYPES.get(change.type, str(change.type))
    rows, old = [] if change.is_ddl else change.rows, None
    data = [_image(row.before if kind == "DELETE" else row.after) for row in rows]
    if kind == "UPDATE":
        old = [_replaced(row) for row in rows]
    return {
        "data": data or None,
        "old": old or None,
        "database": header.schema,
        "table": header.table,
        "type": kind,
        "isDdl": change.is_ddl,
        "es": header.time,
        "gtid": header.gtid,
        "sql": change.sql,
    }


def _image(columns: Sequence[Any]) -> dict[str, str | None]:
    return {column.name: None if column.is_null else column.value for column in columns}


def _replaced(row: Any) -> dict[str, str | None]:
    """What an update replaced: the old values of the columns that Canal marks as changed."""
    names = {column.name for column in row.after if column.updated}
    return {name: value for name, value in _image(row.before).items() if name in names}


def _read(name: str, data: bytes) -> Any:
    kind = _classes()[name]
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(f"not protobuf: {error}") from None


@cache
def _classes() -> Mapping[str, Any]:
    with needs("canal", where="Canal's protobuf messages"):
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message_factory import GetMessageClass

    pool, file = DescriptorPool(), FileDescriptorProto(name="canal.proto", package=_PACKAGE, syntax="proto2")
    for message, fields in _MESSAGES.items():
        fields_of = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            _describe(fields_of.field.add(name=name, number=number), kind)
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


def _describe(field: FieldDescriptorProto, kind: str) -> None:
    name = kind.removeprefix(_MANY)
    field.label = field.LABEL_OPTIONAL if kind == name else field.LABEL_REPEATED
    if name in _MESSAGES:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{name}"
    else:
        field.type = field.Type.Value(f"TYPE_{name.upper()}")
