"""What a change log holds of a row is read as the row's own record is (tests/data/wires/*-snapshot-*).

A sink connector appends the values that its converter reads. Without schemas these are JSON's; with schemas they have the types
of Connect, which are made here of the schema in each record.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_cdc.connectors.debezium.events.appended import Appended
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.events.decoder import AFTER, Plan, decoder
from airflow_cdc.events.value import DECIMAL_DIGITS
from airflow_cdc.events.wire.decimals import WIDE
from airflow_cdc.spark_apps.adapters.iceberg_changelog import AsRecords, connect_value
from airflow_cdc.spark_apps.events import records_of
from tests.contract.test_encoder import IN_JSON, left_out, rows_of, settings_of, snapshot, table_of

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"


def typed(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value as Connect's JsonConverter reads it by a schema, and Iceberg's sink appends it."""
    if value is None:
        return None
    make: Callable[[Any, Any], Any] | None = {
        "bytes": _bytes,
        "float": lambda one, _: struct.unpack("<f", struct.pack("<f", float(one)))[0],
        "double": lambda one, _: float(one),
        "struct": lambda one, of: {field["field"]: typed(one.get(field["field"]), field) for field in of["fields"]},
        "array": lambda one, of: [typed(item, of["items"]) for item in one],
        "map": lambda one, of: [(name, typed(item, of["values"])) for name, item in one.items()],
    }.get(schema["type"])
    return value if make is None else make(value, schema)


def _bytes(value: str, schema: Mapping[str, Any]) -> Any:
    data = base64.b64decode(value)
    if schema.get("name") != DECIMAL:
        return data
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-int(schema["parameters"]["scale"]), WIDE)


def appended(name: str, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a snapshot as a log holds them."""
    for record in snapshot(name, table):
        event = json.loads(record.value or b"")
        if "payload" not in event:
            yield event["after"]
            continue
        fields = {one["field"]: one for one in event["schema"]["fields"]}
        yield typed(event["payload"]["after"], fields["after"])


def read(table: Table, name: str, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as AsRecords makes records of them, decoded."""
    plan = Plan(table, Appended(), settings_of(name).values)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    fields = {key: column_of([row.get(key) for row in rows]) for key in keys}
    size = len(rows)
    batch = pa.record_batch(
        {
            "_at": pa.array(range(size)),
            "_part": pa.array([0] * size, pa.int32()),
            "_op": pa.array(["r"] * size),
            "_before": pa.nulls(size),
            "_after": pa.StructArray.from_arrays(list(fields.values()), names=list(fields)),
        }
    )
    (made,) = AsRecords("topic", table)(iter([batch]))
    return decoder(plan).batch(records_of(made))


def column_of(values: list[Any]) -> pa.Array:
    """A column of a log. Arrow does not find a map's type by itself, and a text in a column of numbers becomes one."""
    first = next((one for one in values if one), None)
    if isinstance(first, list) and isinstance(first[0], tuple):
        return pa.array(values, pa.map_(pa.string(), pa.string()))
    if any(isinstance(one, float) for one in values):
        return pa.array([None if one is None else float(one) for one in values])
    return pa.array(values)


def held(name: str, table: str, rows: list[dict[str, Any]]) -> Table:
    """The table without columns that its connector does not carry, and without numbers that no table of Iceberg holds."""
    definition, values = table_of(name, table), settings_of(name).values
    out = []
    for column in definition.columns:
        numbers = [row[column.name] for row in rows if isinstance(row.get(column.name), Decimal)]
        try:
            values.value(column)
        except SchemaError:
            out.append(column.name)
        if any(len(one.as_tuple().digits) > DECIMAL_DIGITS for one in numbers):
            out.append(column.name)
    return left_out(definition, tuple(out))


@pytest.mark.parametrize("table", ["every", "t"])
@pytest.mark.parametrize("name", IN_JSON)
def test_each_row_of_a_log_is_read_as_its_record_is(name: str, table: str) -> None:
    rows = list(appended(name, table))
    definition = held(name, table, rows)
    assert len(definition.columns) > len(rows[0]) * 0.8
    names = {column.name for column in definition.columns}
    batch = read(definition, name, [{key: row[key] for key in row if key in names} for row in rows])
    assert set(batch.column("bad").to_pylist()) == {None}
    after = batch.column(AFTER)
    expected = rows_of(name, definition, snapshot(name, table))
    for at, column in enumerate(definition.mirrored):
        assert repr(after.field(at).to_pylist()) == repr(expected.column(at).to_pylist()), column.name


def test_a_value_that_is_another_shows() -> None:
    name = IN_JSON[0]
    definition = table_of(name, "t")
    rows = list(appended(name, "t"))
    column = next(one.name for one in definition.mirrored if isinstance(rows[0][one.name], str))
    changed = read(definition, name, [{**rows[0], column: "another"}]).column(AFTER).to_pylist()
    assert changed != read(definition, name, rows[:1]).column(AFTER).to_pylist()


AT = datetime(2026, 3, 29, 0, 30, 0, 5000)  # noqa: DTZ001 - a DATETIME has no zone


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b"a\xff", "Yf8="),
        (Decimal("1.50"), base64.b64encode(b"\0\x96").decode()),
        (Decimal("-1.28"), base64.b64encode(b"\x80").decode()),
        (Decimal(0), base64.b64encode(b"\0").decode()),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (-0.0, -0.0),
        (AT.replace(tzinfo=UTC), 1774744200005),
        (AT, 1774744200005),
        (AT.date(), 20541),
        ((AT + timedelta(hours=23)).time(), 84600005),
        ([("k", b"v")], {"k": "dg=="}),
        ([{"wkb": b"v", "srid": None}], [{"wkb": "dg==", "srid": None}]),
        (True, True),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_a_value_is_written_as_connect_writes_it(value: Any, written: Any) -> None:
    assert repr(connect_value(value)) == repr(written)


def log_of(change: Callable[[dict[str, Any]], Any]) -> pa.RecordBatch:
    name = "mysql-snapshot-bare"
    table = table_of(name, "t")
    (row, *_) = appended(name, "t")
    batch = pa.RecordBatch.from_pylist([{"_at": 7, "_part": 1, **change(row)}])
    (made,) = AsRecords("topic", table)(iter([batch]))
    return decoder(Plan(table, Appended(), settings_of(name).values)).batch(records_of(made))


@pytest.mark.parametrize(
    ("change", "op", "bad"),
    [
        (lambda row: {"_op": "d", "_before": row, "_after": None}, "d", None),
        # a flat delete is the row before it
        (lambda row: {"_op": "d", "_before": None, "_after": row}, "d", None),
        (lambda row: {"_op": "u", "_before": row, "_after": row}, "u", None),
        (lambda row: {"_op": "u", "_before": row, "_after": None}, "u", "the change has no row"),
        (lambda row: {"_op": None, "_before": None, "_after": row}, None, "unknown op None"),
    ],
)
def test_a_change_has_its_place_its_operation_and_its_key(change: Any, op: str | None, bad: str | None) -> None:
    (found,) = log_of(change).to_pylist()
    assert (found["partition"], found["offset"], found["op"]) == (1, 7, op)
    assert (found["bad"] or "").startswith(bad or ""), found
    assert (found["bad"] is None) is (bad is None)
    assert bad or found["key"]["c0"] is not None
