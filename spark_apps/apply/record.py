"""The neutral record: one decoded event of one table, independent of the connector.

A decoder (ports.EventDecoder) turns each change in a raw record (RAW_SCHEMA) into a row:
    cdc: struct of
        topic, partition, offset: where the record is; several rows where it holds several changes, which IN_RECORD orders.
        op: c, u, d, r (a row of the connector's own snapshot), t (truncate) or tombstone.
        origin: the server whose numbering orders the change; NULL where the record has no place in the log.
        place: struct(n, pos, row): the change's place within its origin.
        log: struct(name, n): the series of log files, and the number of the file, in which `pos` is an offset; `name`
            is the origin itself where only the place in its files orders changes.
        transaction: the source's id of the transaction, the same on all servers; NULL where it has none.
        ts_ms: when the change was committed.
        snapshot: 'first' for the first record of one of the connector's own snapshots, 'later' for the rest, else NULL.
        defaulted: whether it was written in a way that replaces NULL with a column's default.
        other_table: "schema.table" of a change that belongs to another table; the other fields then mean nothing.
        bad: why the record cannot be applied, else NULL.
        unknown: names of columns that the definition does not have, else NULL.
    key: struct of the key's columns in sink types; a table without a key has no such column.
    before, after: structs of all mirrored columns in sink types; NULL where the event has none, or not all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from pyspark.sql import Column

RAW_SCHEMA = "topic string, partition int, offset bigint, key binary, value binary"
RAW_ARROW = pa.schema(
    {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "key": pa.binary(), "value": pa.binary()}
)

CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE = "c", "u", "d", "r", "t", "tombstone"
OPS = (CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE)
SIDES = ("before", "after")
SNAPSHOT_BEGINS, SNAPSHOT_GOES_ON = "first", "later"
# the order of the changes of one record
IN_RECORD = ("cdc.log.n", "cdc.place.pos", "cdc.place.row")


def meta(name: str) -> Column:
    """A field of the record's `cdc` struct."""
    return fn.col(f"cdc.`{name}`")
