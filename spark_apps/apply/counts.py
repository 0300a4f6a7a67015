"""The contents of a batch, counted in one job, and the reasons not to apply it at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as fn

from airflow_cdc.core.dead_letter import MISREAD
from airflow_cdc.core.errors import (
    ConnectorError,
    SchemaError,
    SourceError,
    TransportError,
    UnreadableEventsError,
    UnreportedChangeError,
)
from airflow_cdc.decisions.apply.applied import Highest, LastChange
from airflow_cdc.events.record import CREATE, DELETE, READ, SNAPSHOT_BEGINS, TOMBSTONE, TRUNCATE, UPDATE
from airflow_cdc.spark_apps.apply.changes import Seen, is_contradictory, is_covered
from airflow_cdc.spark_apps.events import meta

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from airflow_cdc.core.position import Covered
    from airflow_cdc.core.table import Table
    from airflow_cdc.decisions.apply.start import Start
    from airflow_cdc.spark_apps.ports import Routing

_OPS = {
    "creates": CREATE,
    "updates": UPDATE,
    "deletes": DELETE,
    "reads": READ,
    "tombstones": TOMBSTONE,
    "truncates": TRUNCATE,
}
_LAST = "named_struct({})".format(
    ", ".join(f"'{name}', cdc.`{name}`" for name in ("origin", "place", "log", "transaction", "ts_ms"))
)


@dataclass(frozen=True, slots=True)
class Counts:
    """A batch in numbers.

    Attributes:
        records: all records read; the ops count those that may change the table.
        before_watermark: dropped changes that the snapshot already holds.
        other_tables: changes of other tables in a shared topic.
        bad: records that could not be decoded: the new dead letters, and those of `doubted`.
        unreadable: the bad records of which not a value of the row is at fault, but the whole record or its key.
        doubted: the bad records with a readable key and a character that the connector reads differently from the
            server; they concern about `doubted_rows` rows.
        reads: op r, from the connector's own snapshots; unrequested on a table that was read from a watermark (INV 5).
        defaulted: changes written by a converter that replaces NULL with the column's default.
        truncated_at: offset of the last truncate, or None.
        last: partition → the last change in it, in the form of decisions.apply.start.Applied.
    """

    records: int = 0
    creates: int = 0
    updates: int = 0
    deletes: int = 0
    reads: int = 0
    tombstones: int = 0
    truncates: int = 0
    before_watermark: int = 0
    contradictory: int = 0
    other_tables: int = 0
    bad: int = 0
    unreadable: int = 0
    doubted: int = 0
    doubted_rows: int = 0
    snapshots_begun: int = 0
    defaulted: int = 0
    truncated_at: int | None = None
    unknown: tuple[str, ...] = ()
    reason: str | None = None
    last: Mapping[str, LastChange] = field(default_factory=dict)

    @property
    def logged(self) -> int:
        """Changes from the source's log that may change the table; tombstones do not count."""
        return self.creates + self.updates + self.deletes + self.truncates

    def to_json(self) -> dict[str, object]:
        """The counts as a plain dict, for reports."""
        left_out = {
            "last",
            "unknown",
            "reason",
            "truncated_at",
            "contradictory",
            "defaulted",
            "unreadable",
            "doubted",
            "doubted_rows",
        }
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}
        return plain | {"dead_letters": self.bad}


# the reason is a value of the row: the record itself, and the key under which the row is read again, are fine
_OF_A_ROW = " OR ".join(f"startswith(cdc.bad, '{whose}')" for whose in ("the row''s", "the old row''s"))


def is_doubted(table: Table) -> str:
    """SQL condition for records known to differ from the row under their key (tables with a key only)."""
    return "false" if table.keyless else f"startswith(cdc.bad, 'the row''s') AND contains(cdc.bad, '{MISREAD}')"


def count(decoded: DataFrame, covered: Covered, table: Table) -> Counts:
    """Count a decoded batch in one job."""
    key = "cdc.offset" if table.keyless else "to_json(key)"
    doubted = f"coalesce(cdc.other_table IS NULL AND {is_doubted(table)}, false)"
    ops = {name: f"live AND cdc.op = '{op}'" for name, op in _OPS.items()}
    conditions = {
        "records": "true",
        **ops,
        "before_watermark": "covered",
        "contradictory": "contradictory",
        "other_tables": "NOT own",
        "bad": "own AND cdc.bad IS NOT NULL",
        "unreadable": f"own AND cdc.bad IS NOT NULL AND NOT ({_OF_A_ROW})",
        "doubted": "row_of IS NOT NULL",
        "snapshots_begun": f"live AND cdc.snapshot = '{SNAPSHOT_BEGINS}'",
        "defaulted": "live AND cdc.defaulted",
    }
    flagged = decoded.select(
        "cdc",
        fn.expr("cdc.other_table IS NULL AS own"),
        fn.expr("cdc.other_table IS NULL AND cdc.bad IS NULL AS readable"),
        is_covered(covered).alias("in_w"),
        is_contradictory(covered).alias("moved"),
        fn.expr(f"IF({doubted}, {key}, NULL) AS row_of"),
    ).selectExpr(
        "cdc",
        "own",
        "readable",
        "readable AND in_w AS covered",
        "readable AND NOT in_w AS live",
        "readable AND moved AS contradictory",
        "row_of",
    )
    rows = flagged.groupBy("cdc.partition").agg(
        *(fn.expr(f"count_if(coalesce({condition}, false)) AS {name}") for name, condition in conditions.items()),
        fn.expr(f"max(IF(live AND cdc.op = '{TRUNCATE}', cdc.offset, NULL)) AS truncated_at"),
        fn.expr("approx_count_distinct(row_of) AS doubted_rows"),
        fn.expr("array_distinct(flatten(collect_set(cdc.unknown))) AS unknown"),
        fn.expr("min(IF(own, cdc.bad, NULL)) AS reason"),
        fn.expr(f"max_by({_LAST}, IF(readable AND cdc.origin IS NOT NULL, cdc.offset, NULL)) AS last"),
    )
    return _summed([row.asDict(recursive=True) for row in rows.collect()], (*conditions, "doubted_rows"))


def _summed(rows: list[dict[str, Any]], names: tuple[str, ...]) -> Counts:
    totals = {name: sum(row[name] for row in rows) for name in names}
    truncates = [row["truncated_at"] for row in rows if row["truncated_at"] is not None]
    reasons = [row["reason"] for row in rows if row["reason"]]
    return Counts(
        **totals,
        truncated_at=max(truncates, default=None),
        unknown=tuple(sorted({name for row in rows for name in row["unknown"]})),
        reason=reasons[0] if reasons else None,
        last={str(row["partition"]): read_change(row["last"]) for row in rows if row["last"]},
    )


def last_change() -> Column:
    """The place and time of a record's change, in the form that `read_change` reads."""
    return fn.expr(_LAST)


def read_change(row: Row | Mapping[str, Any]) -> LastChange:
    """A value of `last_change` whose origin is not NULL."""
    place, log = row["place"], row["log"]
    at = (place["n"] or 0, place["pos"] or 0, place["row"] or 0)
    return LastChange(row["origin"], at, log["name"], log["n"] or 0, row["transaction"], row["ts_ms"] or 0)


def check(counted: Counts, start: Start, routing: Routing, max_bad: int, most_unreadable: float) -> None:
    """Raise for a batch that must not be applied. Nothing has been written yet."""
    where = f"table {start.table.full_name}, topic {start.topic}"
    columns = () if start.change is None else start.change.dropped
    if unknown := [name for name in counted.unknown if name not in columns]:
        raise UnreportedChangeError(
            f"events have columns that the definition does not have: {', '.join(unknown)}",
            where=where,
            todo="The definition changed meanwhile: the next apply tries again; if it stays, recover the table.",
        )
    if counted.other_tables and routing.key_mark(start.table.full_name) is None:
        raise SchemaError(
            f"{counted.other_tables} events belong to other tables, and keys do not say which",
            where=where,
            todo="Set key.enforce.uniqueness=true on the router, or give each table a topic of its own.",
        )
    if counted.contradictory:
        raise SourceError(
            f"{counted.contradictory} events lie before the watermark by their position and after it by their time",
            where=where,
            todo="The source was reset or replaced behind the connector: diagnose the pipeline.",
        )
    # one alone says nothing of the others
    if counted.unreadable > max(1, most_unreadable * counted.records):
        # of a key with such a character the record is well written: no converter is at fault
        garbled = MISREAD in (counted.reason or "")
        way_out = routing.doubt_way_out if garbled else routing.unreadable_way_out
        raise UnreadableEventsError(
            f"{counted.unreadable} of {counted.records} records cannot be read ({counted.reason})",
            where=where,
            todo=f"{way_out} Nothing was applied.",
        )
    if counted.doubted_rows > max_bad:
        raise SchemaError(
            f"events of about {counted.doubted_rows} rows cannot be trusted ({counted.reason})",
            where=where,
            todo=f"{routing.doubt_way_out} Nothing was applied.",
        )
    if counted.bad - counted.doubted > max_bad:
        raise SchemaError(
            f"{counted.bad} of {counted.records} records cannot be read ({counted.reason}): the records themselves are not at fault",
            where=where,
            todo="Compare the connector's converters and handling modes with its events. Nothing was applied.",
        )
    _check_truncate(counted, start, where)
    _check_reads(counted, start, where)


def check_nulls(counted: Counts, table: str, columns: Sequence[str]) -> None:
    """Raise if events may hold a default instead of NULL in these columns, whatever the converter's setting is now."""
    if columns and counted.defaulted:
        raise ConnectorError(
            f"{counted.defaulted} events were written by a converter that replaces NULL with the default:"
            f" {', '.join(columns)}",
            where=f"table {table}",
            todo="Set value.converter.replace.null.with.default=false on the connector, then recover the table.",
        )


def _check_truncate(counted: Counts, start: Start, where: str) -> None:
    if counted.truncates and len(start.ranges) > 1:
        raise TransportError(
            f"the table was truncated, and its topic's {len(start.ranges)} partitions do not show which events came before that",
            where=where,
            todo="Recover the table.",
        )


def _check_reads(counted: Counts, start: Start, where: str) -> None:
    begun = start.applied.snapshots + counted.snapshots_begun
    if start.table.keyless and counted.reads and (start.watermark is not None or begun > 1):
        raise ConnectorError(
            f"the connector took a snapshot of its own: {counted.reads} rows were sent again, and nothing distinguishes them from new ones",
            where=where,
            todo="Recover the table; set snapshot.mode so that the connector fails instead of healing itself.",
        )


def highest(events: DataFrame) -> tuple[dict[str, Highest], int, int | None]:
    """The highest change per origin, the number of changes, and the offset of the last truncate."""
    here, log = meta("place"), meta("log")
    parts = (here["n"].alias("n"), here["pos"].alias("pos"), here["row"].alias("row"))
    rows = (
        events.groupBy(meta("origin").alias("origin"))
        .agg(
            fn.max(fn.struct(*parts, log["name"].alias("log"), log["n"].alias("log_n"))).alias("high"),
            fn.count(fn.lit(1)).alias("rows"),
            fn.max(fn.when(meta("op") == TRUNCATE, meta("offset"))).alias("truncated_at"),
        )
        .collect()
    )
    truncates = [row["truncated_at"] for row in rows if row["truncated_at"] is not None]
    high = {row["origin"]: Highest.of(row["high"]) for row in rows}
    return high, sum(row["rows"] for row in rows), max(truncates, default=None)


def check_origins(events: DataFrame, seen: Seen, start: Start) -> None:
    """Raise SourceError if repeats cannot be recognised because the log's series of files has changed (INV 19).

    This concerns sources whose changes are ordered only by their places in log files.
    """
    logs = {name for name, high in seen.high.items() if high.log == name}
    if not logs:
        return
    by_file = events.where(meta("origin") == meta("log")["name"])
    origins = {row["origin"] for row in by_file.select(meta("origin").alias("origin")).distinct().collect()}
    if origins - logs:
        raise SourceError(
            f"changes come from {', '.join(sorted(origins - logs))} now, and from {', '.join(sorted(logs))} before",
            where=f"table {start.table.full_name}",
            todo="Recover the table: without GTIDs and without a key, repeats from another server cannot be recognised.",
        )


def check_servers(doubtful: DataFrame, known: DataFrame, start: Start) -> None:
    """Raise for a transaction from two servers: its positions differ, so we cannot tell which rows were applied."""
    fresh = doubtful.select(meta("transaction").alias("g"), meta("log").alias("s")).distinct()
    clash = fresh.join(
        known, (fn.col("g") == fn.col("cdc_transaction")) & (fn.col("s") != fn.col("cdc_identity.log")), "left_semi"
    )
    if not clash.isEmpty():
        raise SourceError(
            "transactions are repeated from another server, with other positions",
            where=f"table {start.table.full_name}",
            todo="Recover the table: it has no key by which repeats could be recognised.",
        )
