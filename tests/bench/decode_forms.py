"""What a record costs to decode, in each form: `python -m tests.bench.decode_forms --records 20000 [--in-process]`.

Updates of a table of nine columns as JSON; the same as JSON with its schema's envelope left out and without a key; with forty
columns; and in Avro, whose ids are in four bytes. By Spark, in turns in one driver, or in the process. Figures are microseconds
of processor time per record, of the driver's JVM and the Python processes that it starts: of the first round, and the median
of the others. Printed, and written to build/bench/decode_forms.json; there is nothing beside them to hold them to.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import fastavro

from airflow_cdc.events.record import RawRecord, SchemaId
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.events import RAW_SCHEMA
from tests.apply_support import settings
from tests.bench.decode import ORDERS, session, tree_seconds, update
from tests.bench.result import FOLDER

if TYPE_CHECKING:
    from airflow_cdc.core.table import Table

ROUNDS: Final = 7
WIDE_COLUMNS: Final = 40
_KEY_ID, _VALUE_ID = 1, 2
_DECIMAL: Final = {
    "type": "bytes", "scale": 2, "precision": 12, "connect.name": "org.apache.kafka.connect.data.Decimal",
    "connect.parameters": {"scale": "2"}, "logicalType": "decimal",
}  # fmt: skip
# a field's Python type → its Avro type
_TYPES: Final[Mapping[type, str]] = {int: "long", float: "double", str: "string"}
_AVRO: Final = {
    f"{side}__converter{name}": value
    for side in ("key", "value")
    for name, value in (
        ("", "io.confluent.connect.avro.AvroConverter"),
        ("__schema__registry__url", "http://registry.example"),
    )
} | {"value__converter__ignore__default__for__nullables": "true"}


@dataclass(frozen=True, slots=True)
class Form:
    """Records of one table, and how they are decoded."""

    table: Table
    events: Events
    write: Callable[[int], tuple[bytes, bytes]]

    @property
    def sides(self) -> tuple[str, ...]:
        """The images that apply decodes."""
        return ("before", "after") if self.table.keyless else ("after",)


def forms() -> dict[str, Form]:
    """Each form by its name."""
    plain, bare = Events(settings()), replace(ORDERS, key=())
    return {
        "JSON": Form(ORDERS, plain, _json),
        "JSON, no key": Form(bare, plain, _json),
        "JSON, 40 columns": Form(widened(ORDERS), plain, _wide),
        "Avro": Form(ORDERS, Events(settings(**_AVRO), _texts), _avro),
    }


def widened(table: Table) -> Table:
    """The table with its columns again and again, but for the key."""
    others = [column for column in table.columns if column.name not in table.key]
    more = [
        replace(others[n % len(others)], name=f"{others[n % len(others)].name}_{n}", ordinal=len(table.columns) + n + 1)
        for n in range(WIDE_COLUMNS - len(table.columns))
    ]
    return replace(table, columns=(*table.columns, *more))


def _event(number: int) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(bytes(update(number)))
    return event


def _json(number: int) -> tuple[bytes, bytes]:
    return json.dumps({"id": number}).encode(), bytes(update(number))


def _wide(number: int) -> tuple[bytes, bytes]:
    event = _event(number)
    extra = [column.name for column in widened(ORDERS).columns[len(ORDERS.columns) :]]
    for side in ("before", "after"):
        event[side] |= {name: event[side][name.rpartition("_")[0]] for name in extra}
    return json.dumps({"id": number}).encode(), json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()


def _avro(number: int) -> tuple[bytes, bytes]:
    event = _event(number)
    for side in ("before", "after"):
        event[side]["amount"] = b"\x01\xf4"
    return _framed(_KEY_ID, {"id": number}), _framed(_VALUE_ID, event)


def _framed(number: int, value: Mapping[str, Any]) -> bytes:
    out = BytesIO()
    out.write(b"\0" + number.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, _PARSED[number], value)
    return out.getvalue()


def _record(name: str, example: Mapping[str, Any], *, nullable: Sequence[str] = ()) -> dict[str, Any]:
    fields = []
    for field, value in example.items():
        kind: Any = _TYPES.get(type(value), "string")
        if field == "amount":
            kind = _DECIMAL
        fields.append({"name": field, "type": ["null", kind] if value is None or field in nullable else kind})
    return {"type": "record", "name": name, "fields": fields}


def _schemas() -> dict[int, dict[str, Any]]:
    event = _event(1)
    row = _record("Value", event["after"], nullable=[name for name in event["after"] if name != "id"])
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": _record("Source", event["source"])},
        {"name": "op", "type": "string"},
        {"name": "transaction", "type": ["null", "string"]},
        {"name": "ts_ms", "type": ["null", "long"]},
    ]
    return {_KEY_ID: _record("Key", {"id": 1}), _VALUE_ID: {"type": "record", "name": "Envelope", "fields": fields}}


def _texts(ids: Any) -> dict[SchemaId, str]:
    return {one: json.dumps(_SCHEMAS[one.number]) for one in ids}


_SCHEMAS: Final = _schemas()
# the decimal's bytes are written as they are
_PARSED: Final = {
    number: fastavro.parse_schema(json.loads(json.dumps(one).replace('"logicalType"', '"logical"')))
    for number, one in _SCHEMAS.items()
}


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--in-process", action="store_true", help="without Spark, as batches of few records are")
    asked = parser.parse_args()
    found = in_process(asked.records) if asked.in_process else by_spark(asked.records)
    shown = {
        name: {"first": round(figures[0], 1), "warm": round(median(figures[1:]), 1)} for name, figures in found.items()
    }
    text = json.dumps(shown, indent=2)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "decode_forms.json").write_text(text + "\n")
    print(text)
    return 0


def in_process(records: int) -> dict[str, list[float]]:
    """Microseconds a record of each form and round, decoded where batches of few records are."""
    taken = dict[str, list[float]]()
    for name, form in forms().items():
        batch = [RawRecord(0, number, *form.write(number)) for number in range(records)]
        decoder = form.events.plain(form.table)
        for _ in range(ROUNDS + 1):
            before = time.process_time()
            changes = decoder.decode(batch, before=form.table.keyless)
            taken.setdefault(name, []).append((time.process_time() - before) / records * 1e6)
            if len(changes) != records:
                raise AssertionError(f"{name}: {len(changes)} of {records} records are changes")
    return taken


def by_spark(records: int) -> dict[str, list[float]]:
    """Microseconds a record of each form and round, by Spark's tasks."""
    spark, taken = session(), dict[str, list[float]]()
    with tempfile.TemporaryDirectory() as folder:
        raw = {}
        for name, form in forms().items():
            rows = [("p.shop.orders", 0, n, *map(bytearray, form.write(n))) for n in range(records)]
            path = str(Path(folder) / name)
            spark.createDataFrame(rows, RAW_SCHEMA).coalesce(1).write.parquet(path)
            raw[name] = spark.read.parquet(path)
        for _ in range(ROUNDS + 1):
            for name, form in forms().items():
                before = tree_seconds(spark)
                frame = form.events.decode(raw[name], form.table, form.sides)
                frame.write.format("noop").mode("overwrite").save()
                taken.setdefault(name, []).append((tree_seconds(spark) - before) / records * 1e6)
        for name, form in forms().items():
            if form.events.decode(raw[name], form.table, form.sides).where("cdc.bad IS NOT NULL").count():
                raise AssertionError(f"{name}: records that cannot be decoded")
    spark.stop()
    return taken


if __name__ == "__main__":
    raise SystemExit(main())
