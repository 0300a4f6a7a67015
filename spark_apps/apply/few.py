"""A batch of few records with nothing unusual in it: decoded by one Spark job and netted in memory.

Counting, netting and writing such a batch by Spark jobs costs a second of processor time for each table, nearly all of
it for plans. Anything else than creates, updates and deletes after the watermark that can all be read is left to the
jobs (`counts.count`, `changes.net_changes`), which say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_cdc.spark_apps.apply.counts import Counts, read_change
from airflow_cdc.spark_apps.apply.record import CREATE, DELETE, TOMBSTONE, UPDATE
from airflow_cdc.spark_apps.driver.session import SMALL_BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.core.coverage import Covered
    from airflow_cdc.decisions.apply.start import LastChange, Start

# More records cost less decoded by generated code than by plans that are interpreted.
FEW: Final = 5_000
SETTINGS: Final[Mapping[str, str]] = {
    **SMALL_BATCH,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
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


def collect(decoded: DataFrame, start: Start, covered: Covered) -> Few | None:
    """The batch, if nothing in it is unusual."""
    meta = (f"cdc.`{name}` AS `{name}`" for name in _FIELDS)
    records = decoded.selectExpr(*meta, f"{_TROUBLE} AS trouble", "key", "after").toArrow()
    records = records.sort_by([("partition", "ascending"), ("offset", "ascending")])
    ops: list[str] = records.column("op").to_pylist()
    usual = all(op in _USUAL for op in ops) and not pc.any(records.column("trouble")).as_py()
    if not usual or any(records.column("snapshot").to_pylist()):
        return None
    places = records.select(list(_FIELDS)).to_pylist()
    if any(covered.holds(row["origin"], _place(row)) for row in places):
        return None
    last = _last_of_keys(records, split=len(start.ranges) > 1)
    if last is None:
        return None
    newest = records.take(pa.array(last, pa.int64()))
    rows = newest.filter(pc.invert(pc.is_in(newest.column("op"), value_set=pa.array([DELETE, TOMBSTONE]))))
    return Few(_counts(places), _flat(newest, "key"), _flat(rows, "after"))


def _place(row: Mapping[str, Any]) -> tuple[int, int, int] | None:
    place = row["place"]
    return None if place["n"] is None else (place["n"], place["pos"] or 0, place["row"] or 0)


def _last_of_keys(records: pa.Table, *, split: bool) -> list[int] | None:
    """The index of each key's last record; None if a key has records in several partitions, so that none is the last."""
    last: dict[tuple[Any, ...], int] = {}
    partitions = records.column("partition").to_pylist()
    for at, key in enumerate(records.column("key").to_pylist()):
        values = tuple(key.values())
        if split and values in last and partitions[last[values]] != partitions[at]:
            return None
        last[values] = at
    return sorted(last.values())


def _counts(rows: list[dict[str, Any]]) -> Counts:
    by_op = dict.fromkeys(_USUAL, 0)
    last: dict[str, LastChange] = {}
    for row in rows:
        by_op[row["op"]] += 1
        if row["origin"] is not None:
            last[str(row["partition"])] = read_change(row)
    return Counts(
        records=len(rows),
        creates=by_op[CREATE],
        updates=by_op[UPDATE],
        deletes=by_op[DELETE],
        tombstones=by_op[TOMBSTONE],
        defaulted=sum(bool(row["defaulted"]) for row in rows),
        last=last,
    )


def _flat(records: pa.Table, name: str) -> pa.Table:
    """The fields of a struct column as columns."""
    column = records.column(name)
    names = [column.type.field(at).name for at in range(column.type.num_fields)]
    return pa.table([pc.struct_field(column, [at]) for at in range(len(names))], names)
