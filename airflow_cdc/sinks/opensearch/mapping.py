"""How an index holds each logical type.

`_source` holds every value exactly, and is what is compared with the source. What OpenSearch indexes for searching may
be less exact: a decimal is found by its text and, under `.number`, by the nearest double; a time is indexed to the
millisecond.
"""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import (
    Array,
    Bits,
    Boolean,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Uuid,
)

DELETED: Final = "cdc_deleted"
ID: Final = "cdc_id"
# of the document of a deleted row: when it was written, and its version, by which no query can find it
DELETED_AT: Final = "cdc_deleted_at"
VERSION: Final = "cdc_version"
OWN: Final[dict[str, dict[str, object]]] = {
    DELETED: {"type": "boolean"},
    ID: {"type": "keyword"},
    DELETED_AT: {"type": "date", "format": "epoch_millis"},
    VERSION: {"type": "long"},
}
NOT_DELETED: Final = {"bool": {"must_not": [{"term": {DELETED: True}}]}}

Field = dict[str, object]

# names that OpenSearch keeps for itself at the top of a document
_RESERVED: Final = frozenset(
    f"_{name}"
    for name in (
        "id", "index", "source", "routing", "field_names", "ignored", "nested_path", "seq_no", "version", "primary_term",
        "type", "doc_count", "data_stream_timestamp", "feature",
    )
)  # fmt: skip
_WHOLE: Final = 63
_LONG: Final[Field] = {"type": "long"}
_PLAIN: Final[dict[type[LogicalType], Field]] = {
    Boolean: {"type": "boolean"},
    Bytes: {"type": "binary"},
    Date: {"type": "date", "format": "strict_date"},
    # exact in _source; indexed as text, and as the nearest double
    Decimal: {"type": "keyword", "fields": {"number": {"type": "double", "ignore_malformed": True}}},
    # NaN and the infinities are text in _source and are not indexed
    Float: {"type": "double", "ignore_malformed": True},
    Geometry: {"properties": {"srid": {"type": "integer"}, "wkb": {"type": "binary"}}},
    Instant: {"type": "date", "format": "strict_date_optional_time"},
    Json: {"type": "text"},
    LocalDateTime: {"type": "date", "format": "strict_date_optional_time"},
    Time: _LONG,
    Uuid: {"type": "keyword"},
}


def properties(table: Table) -> dict[str, Field]:
    """The mapping of a table's columns. Raises SchemaError for a name or a type that an index cannot have."""
    for column in table.mirrored:
        check_name(table, column.name)
    return {**{column.name: field(column.value_type) for column in table.mirrored}, **OWN}


def field(kind: LogicalType) -> Field:
    """The mapping of one type."""
    match kind:
        case Integer(bits, unsigned):
            return _LONG if bits - 1 + unsigned <= _WHOLE else {"type": "unsigned_long"}
        case Bits(size):
            return _LONG if size <= _WHOLE else {"type": "unsigned_long"}
        case Text(long):
            return {"type": "text"} | (
                {} if long else {"fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
            )
        case Array(of):
            return field(of)
    return _PLAIN[type(kind)]


def check_name(table: Table, name: str) -> None:
    """Raise SchemaError for a column that cannot be a field."""
    fault = (
        "OpenSearch reads a dot in a field's name as an object"
        if "." in name
        else "OpenSearch keeps this name for itself"
        if name in _RESERVED
        else "this sink keeps this name for itself"
        if name in OWN
        else ""
    )
    if fault:
        raise SchemaError(
            f"column {name!r} cannot be a field of an index: {fault}",
            where=f"table {table.full_name}",
            todo="Rename or exclude the column, or leave the table out of the pipeline.",
        )


def check_keyed(table: Table) -> None:
    """Raise SchemaError for a table without a key: its rows are no documents that could be told apart."""
    if table.keyless:
        raise SchemaError(
            "a table without a primary key cannot be mirrored into an index: a document and its copies could not be distinguished",
            where=f"table {table.full_name}",
            todo="Give the table a primary key, or leave it out of the pipeline.",
        )
