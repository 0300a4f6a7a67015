"""Keep what both engines make of every scene, as data: `python -m tests.goldens.keep`.

One file for each scene in tests/data/goldens, a line for each record, so that a difference is a line of `git diff`. Values
are the repr() of what Arrow holds: an instant is microseconds, a date is days.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException

from airflow_cdc.spark_apps.adapters import debezium_mariadb, debezium_mysql, debezium_postgres
from airflow_cdc.spark_apps.apply.record import RAW_SCHEMA
from airflow_cdc.spark_apps.driver.session import INTERPRETED, SMALL_BATCH
from airflow_cdc.spark_apps.driver.sql import quote_ident
from airflow_cdc.spark_apps.ports import DecodesFew
from airflow_cdc.spark_apps.types import sink_type
from tests.goldens.scenes import Scene, record_scenes, value_scenes
from tests.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.core.table import Column
    from airflow_cdc.events.record import RawRecord
    from airflow_cdc.spark_apps.ports import EventDecoder, PlainDecoder

FOLDER = ROOT / "tests" / "data" / "goldens"
EVENTS: Mapping[str, Callable[[ConnectorSettings], EventDecoder]] = {
    "mysql": debezium_mysql.Events,
    "mariadb": debezium_mariadb.Events,
    "postgres": debezium_postgres.Events,
}
META = (
    "op",
    "origin",
    "place",
    "log",
    "transaction",
    "ts_ms",
    "snapshot",
    "defaulted",
    "other_table",
    "bad",
    "unknown",
)


def main() -> int:
    """Write the files of the scenes whose names begin like one of the arguments; all without any."""
    from tests.bench.decode import session

    wanted = tuple(sys.argv[1:]) or ("",)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = session()
    for name, value in {**SMALL_BATCH, **INTERPRETED}.items():
        spark.conf.set(name, value)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for scene, refused in [*value_scenes(), *((scene, {}) for scene in record_scenes())]:
        if scene.name.startswith(wanted):
            lines = by_spark(spark, scene)
            for line, plain in zip(lines, in_memory(scene), strict=True):
                add(line, plain)
            write(FOLDER / f"{scene.name}.json", lines, refused)
    spark.stop()
    return 0


def write(path: Path, lines: Iterable[Mapping[str, Any]], refused: Mapping[str, str] | None = None) -> None:
    """One line for the columns that are refused, and one for each record."""
    texts = [json.dumps(one, ensure_ascii=True) for one in ([{"refused": refused}] if refused else []) + list(lines)]
    path.write_text("[\n" + ",\n".join(texts) + "\n]\n", encoding="ascii")


def read(name: str) -> tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]:
    """The columns that a scene's settings refuse, and a line for each record."""
    lines = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return (lines[0]["refused"], lines[1:]) if lines and "refused" in lines[0] else ({}, lines)


def by_spark(spark: SparkSession, scene: Scene) -> list[dict[str, Any]]:
    """What Spark's expressions make of the records: {"failed": why} of one that makes the whole job fail."""
    try:
        return _by_spark(spark, scene)
    except (PySparkException, pa.ArrowException) as error:
        half = len(scene.records) // 2
        if not half:
            return [{"failed": str(error).partition("]")[0].removeprefix("[")}]
        parts = (replace(scene, records=part) for part in (scene.records[:half], scene.records[half:]))
        return [line for part in parts for line in by_spark(spark, part)]


def _by_spark(spark: SparkSession, scene: Scene) -> list[dict[str, Any]]:
    events: EventDecoder = EVENTS[scene.kind](scene.settings)
    topic = scene.settings.topic_of(scene.table.full_name)
    rows = [(topic, one.partition, one.offset, _array(one.key), _array(one.value)) for one in scene.records]
    sides = ("before", "after") if scene.before else ("after",)
    parts = {"key": scene.table.key_columns} if scene.table.key else {}
    parts |= dict.fromkeys(sides, scene.table.mirrored)
    decoded = events.decode(spark.createDataFrame(rows, RAW_SCHEMA), scene.table, sides)
    meta = [f"cdc.`{name}` AS `{name}`" for name in ("offset", *META)]
    flat = [text for part, columns in parts.items() for text in _flat(part, columns)]
    there = [f"{part} IS NOT NULL AS has_{part}" for part in parts]
    table = decoded.selectExpr(*meta, *there, *flat).toArrow().sort_by("offset")
    values = {name: _plain(table.column(name)).to_pylist() for name in table.column_names}
    lines = [{name: values[name][at] for name in META} for at in range(table.num_rows)]
    for at, line in enumerate(lines):
        for part, columns in parts.items():
            line[part] = (
                image(columns, [values[f"{part}{n}"][at] for n, _ in enumerate(columns)])
                if values[f"has_{part}"][at]
                else None
            )
    return [compact(line) for line in lines]


def in_memory(scene: Scene) -> list[dict[str, Any] | None]:
    """What the decoder in memory makes of each record; None where it is left to Spark, or there is none."""
    events = EVENTS[scene.kind](scene.settings)
    decoder = events.plain(scene.table) if isinstance(events, DecodesFew) else None
    return [None if decoder is None else _one(decoder, scene, record) for record in scene.records]


def _one(decoder: PlainDecoder, scene: Scene, record: RawRecord) -> dict[str, Any] | None:
    try:
        (one,) = decoder.decode([record], before=scene.before)
    except (ValueError, TypeError, LookupError, ArithmeticError):
        return None
    except AttributeError:  # a batch with such a record could not be applied at all
        return {"failed": True}
    line: dict[str, Any] = {"op": one.op, "defaulted": one.defaulted}
    if (at := one.change) is not None:
        line |= {
            "origin": at.origin,
            "place": list(at.place),
            "log": [at.log, at.log_n],
            "ts_ms": at.ts_ms,
            "transaction": at.transaction,
        }
    for part, columns, values in (
        ("key", scene.table.key_columns, one.key or None),
        ("after", scene.table.mirrored, one.after),
        ("before", scene.table.mirrored, one.before),
    ):
        line[part] = None if values is None else image(columns, values)
    return compact(line)


def add(line: dict[str, Any], plain: dict[str, Any] | None) -> None:
    """Add what the decoder in memory makes of the record: whether it takes it, and what differs."""
    if plain is not None:
        names = {*line, *plain}
        line["plain"] = {name: plain.get(name) for name in sorted(names) if plain.get(name) != line.get(name)}


def image(columns: Sequence[Column], values: Sequence[Any]) -> dict[str, str]:
    """A row, or a key: the columns that are not NULL."""
    return {column.name: repr(value) for column, value in zip(columns, values, strict=True) if value is not None}


def compact(line: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields that are NULL or false; a place and a log as lists."""
    lists = {
        name: list(value.values()) if isinstance(value, dict) and name in {"place", "log"} else value
        for name, value in line.items()
    }
    return {name: value for name, value in lists.items() if value is not None and value is not False}


def _flat(part: str, columns: Sequence[Column]) -> list[str]:
    return [f"CAST({part}.{quote_ident(one.name)} AS {sink_type(one)}) AS {part}{at}" for at, one in enumerate(columns)]


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Moments and days as numbers, which Python's own cannot all be."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values


def _array(part: bytes | None) -> bytearray | None:
    return None if part is None else bytearray(part)


if __name__ == "__main__":
    sys.exit(main())
