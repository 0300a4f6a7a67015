"""A batch of few records with nothing unusual in it: netted in memory, decoded there or by one Spark job.

Counting, netting and writing such a batch by Spark jobs costs a second of processor time for each table, nearly all of
it for plans. Anything else than creates, updates and deletes after the watermark that can all be read is left to the
jobs (`counts.count`, `changes.net_changes`), which say what is wrong with it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_cdc.spark_apps.apply.counts import Counts, read_change
from airflow_cdc.spark_apps.apply.record import CREATE, DELETE, TOMBSTONE, UPDATE
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.core.coverage import Covered
    from airflow_cdc.core.ports import TopicRecord
    from airflow_cdc.core.table import Column
    from airflow_cdc.decisions.apply.start import LastChange, Start
    from airflow_cdc.spark_apps.ports import PlainDecoder

log = logging.getLogger("airflow_cdc.apply")

# More records cost less decoded by generated code than by plans that are interpreted.
FEW: Final = 5_000
SETTINGS: Final[Mapping[str, str]] = {
    **SMALL_BATCH,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# (partition, op, its place in the log, whether a converter may have replaced NULLs) of a record
Change = tuple[int, str, "LastChange | None", bool]
_USUAL = (CREATE, UPDATE, DELETE, TOMBSTONE)
_FIELDS = ("partition", "offset", "op", "origin", "place", "log", "transaction", "ts_ms", "snapshot", "defaulted")
_TROUBLE = "cdc.bad IS NOT NULL OR cdc.unknown IS NOT NULL OR cdc.other_table IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Few:
    """A batch in memory: its counts, the keys that it changes, and the rows that they have at its end."""

    counted: Counts
    keys: pa.Table
    rows: pa.Table


def is_few(start: Start) -> bool:
    """Whether the batch is small enough, and of a table with a key whose old rows stay as they are."""
    change, offsets = start.change, sum(end - begin for begin, end in start.ranges.values())
    quiet = change is None or not (change.filled or change.never_null or change.dropped)
    return quiet and not start.table.keyless and offsets <= FEW


def read(decoder: PlainDecoder, records: Sequence[TopicRecord], start: Start, covered: Covered) -> Few | None:
    """The batch decoded and netted without Spark; None if anything in it is not plain."""
    ordered = sorted(records, key=lambda record: (record.partition, record.offset))
    try:
        batch = decoder.decode(ordered)
        last = _last_of_keys([(one.partition, one.key) for one in batch])
        if last is None or any(_is_covered(covered, one.change) for one in batch):
            return None
        newest = [batch[at] for at in last]
        keys = _columns(start.table.key_columns, [one.key for one in newest])
        rows = _columns(start.table.mirrored, [one.after for one in newest if one.after is not None])
    except (ValueError, TypeError, LookupError, pa.ArrowException) as error:
        log.info("%s: decoded by Spark, as not all records are plain: %r", start.table.full_name, error)
        return None
    changes = [(one.partition, one.op, one.change, one.defaulted) for one in batch]
    return Few(_counts(changes), keys, rows)


def _columns(columns: Sequence[Column], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as a table of the columns' sink types."""
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    arrays = [pa.array(list(each), _arrow_type(sink_type(one))) for one, each in zip(columns, values, strict=True)]
    return pa.table(arrays, [column.name for column in columns])


def _arrow_type(text: str) -> pa.DataType:
    if text.startswith("decimal("):
        precision, scale = text[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[text]


_ARROW: Final[Mapping[str, pa.DataType]] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def collect(decoded: DataFrame, covered: Covered) -> Few | None:
    """The batch decoded by one Spark job and netted in memory; None if anything in it is unusual."""
    meta = (f"cdc.`{name}` AS `{name}`" for name in _FIELDS)
    records = decoded.selectExpr(*meta, f"{_TROUBLE} AS trouble", "key", "after").toArrow()
    records = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    ops: list[str] = records.column("op").to_pylist()
    usual = all(op in _USUAL for op in ops) and not pc.any(records.column("trouble")).as_py()
    if not usual or any(records.column("snapshot").to_pylist()):
        return None
    changes = [_change(row) for row in records.select(list(_FIELDS)).to_pylist()]
    if any(_is_covered(covered, change) for _, _, change, _ in changes):
        return None
    keys = [tuple(key.values()) for key in records.column("key").to_pylist()]
    last = _last_of_keys([(change[0], key) for change, key in zip(changes, keys, strict=True)])
    if last is None:
        return None
    newest = records.take(pa.array(last, pa.int64()))
    rows = newest.filter(pc.invert(pc.is_in(newest.column("op"), value_set=pa.array([DELETE, TOMBSTONE]))))
    return Few(_counts(changes), _flat(newest, "key"), _flat(rows, "after"))


def _change(row: Mapping[str, Any]) -> Change:
    change = None if row["origin"] is None else read_change(row)
    return row["partition"], row["op"], change, bool(row["defaulted"])


def _is_covered(covered: Covered, change: LastChange | None) -> bool:
    return change is not None and covered.holds(change.origin, change.place)


def _last_of_keys(keys: Sequence[tuple[int, tuple[Any, ...]]]) -> list[int] | None:
    """The index of each key's last record; None if a key has records in several partitions, so that none is the last.

    `keys`: (partition, key) of each record, in order within a partition.
    """
    last: dict[tuple[Any, ...], int] = {}
    for at, (partition, key) in enumerate(keys):
        before = last.get(key)
        if before is not None and keys[before][0] != partition:
            return None
        last[key] = at
    return sorted(last.values())


def _counts(changes: Sequence[Change]) -> Counts:
    ops = Counter(op for _, op, _, _ in changes)
    return Counts(
        records=len(changes),
        creates=ops[CREATE],
        updates=ops[UPDATE],
        deletes=ops[DELETE],
        tombstones=ops[TOMBSTONE],
        defaulted=sum(defaulted for _, _, _, defaulted in changes),
        last={str(partition): change for partition, _, change, _ in changes if change is not None},
    )


def _flat(records: pa.Table, name: str) -> pa.Table:
    """The fields of a struct column as columns."""
    column = records.column(name)
    names = [column.type.field(at).name for at in range(column.type.num_fields)]
    return pa.table([pc.struct_field(column, [at]) for at in range(len(names))], names)
