"""The neutral record: one decoded event of one table, whoever sent it.

A decoder (ports.EventDecoder) makes a row of each raw record (RAW_SCHEMA):
    cdc: struct of
        topic, partition, offset: where the record is.
        op: c, u, d, r (a row of the connector's own snapshot), t (truncate) or tombstone.
        origin: whose numbering orders the change; NULL where the record names no place in the log.
        place: struct(n, pos, row): the change's place within its origin.
        log: struct(name, n): the series of log files, and the number of the one, in which `pos` counts; `name` is the
            origin itself where nothing but the place in its files orders changes.
        transaction: the source's name for the transaction, the same on all servers; NULL where it has none.
        ts_ms: when the change was committed.
        snapshot: 'first' for the record that begins a snapshot of the connector's own, 'later' for its others, else NULL.
        defaulted: whether it was written in a way that puts a column's default in the place of NULL.
        other_table: "schema.table" of a change that belongs to another table; nothing else counts then.
        bad: why the record cannot be applied, else NULL.
        unknown: names of columns that the definition does not have, else NULL.
    key: struct of the key's columns in sink types; a table without a key has no such column.
    before, after: structs of all mirrored columns in sink types; NULL where the event has none, or not all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from pyspark.sql import Column

RAW_SCHEMA = "topic string, partition int, offset bigint, key binary, value binary"

CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE = "c", "u", "d", "r", "t", "tombstone"
OPS = (CREATE, UPDATE, DELETE, READ, TRUNCATE, TOMBSTONE)
SIDES = ("before", "after")
SNAPSHOT_BEGINS, SNAPSHOT_GOES_ON = "first", "later"


def meta(name: str) -> Column:
    """A field of the record's `cdc` struct."""
    return fn.col(f"cdc.`{name}`")
