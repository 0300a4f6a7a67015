"""What flattened records of real connectors open as, held to the rows that their source had at the end."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.events.flattened import Flattened
from airflow_cdc.connectors.debezium.events.frames import frame_of
from airflow_cdc.connectors.debezium.flattening import Deletes, flattened_form
from airflow_cdc.connectors.debezium.routing import KeyMark
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.events.record import DELETE, READ, TOMBSTONE, UPDATE, Headers, Opened, RawRecord, SchemaId, Side, Want
from airflow_cdc.events.value import WRONG, Shape, Value, Values, Wire
from airflow_cdc.events.wire import Schemas
from airflow_cdc.events.wire import json as wire_json
from airflow_cdc.events.wire.ids import CONTENT_ID
from airflow_cdc.events.wire.json import Json
from tests.unit.tables import column, table
from tests.wires import names, recording

FLAT = names("-flat-")
SHAPES = {"id": Shape(Wire.INT), "v": Shape(Wire.STRING), "more": Shape(Wire.INT)}
TABLE = table(
    column("id", "int"), column("n", "decimal(12,2)", nullable=True), column("more", "int", nullable=True), key=("id",)
)

BOTH = Want()


@dataclass(frozen=True, slots=True)
class Plain(Values):
    """Values of the tables here, whatever their source: a decimal is carried as one, the rest as it is."""

    way_out: str = ""

    def check_table(self, table: Table) -> None: ...

    def value(self, column: Column) -> Value:
        return Value(SHAPES.get(column.name, Shape(Wire.DECIMAL, scale=2)), lambda value: value)


def settings_of(name: str) -> ConnectorSettings:
    return ConnectorSettings.from_config({"topic.prefix": name, **recording(name).settings})


def schemas_of(name: str) -> Schemas:
    pairs = ((key.partition(":"), answer) for key, answer in recording(name).schemas.items())
    return {
        SchemaId(kind, int(n)): answer["schema"] if kind == CONTENT_ID else json.dumps(answer)
        for (kind, _, n), answer in pairs
    }


def frame(name: str) -> Flattened:
    made = frame_of(settings_of(name), "wires.t")
    assert isinstance(made, Flattened)
    sent: Flattened = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own, as it reaches an executor
    return sent


def opened(name: str, want: Want = BOTH) -> Iterator[tuple[RawRecord, Opened]]:
    open_ = frame(name).opener(replace(TABLE, schema="wires", name="t"), Plain(), want, schemas_of(name))
    for one in recording(name).records["t"]:
        record = RawRecord(one.partition, one.offset, one.key, one.value, one.headers)
        for change in open_(record):
            yield record, change


def folded(name: str) -> dict[int, Any]:
    """The rows that the records leave, by key."""
    rows: dict[Any, Any] = {}
    for _, change in opened(name):
        assert (change.bad, change.table, change.before) == ("", "", None)
        assert change.key is not None
        (key,) = change.key
        if change.op in {DELETE, TOMBSTONE}:
            rows.pop(key, None)
        else:
            assert change.after is not None
            rows[key] = change.after
    return rows


def source_rows(name: str) -> dict[int, Any]:
    """The source's own rows at the end; MySQL's are hexadecimal."""

    def text(value: str | None) -> str | None:
        return value if value is None or name.startswith("postgres") else bytes.fromhex(value).decode()

    def row(raw: Mapping[str, str | None]) -> tuple[Any, ...]:
        n, more = text(raw["n"]), text(raw["more"])
        return int(text(raw["id"]) or ""), None if n is None else Decimal(n), None if more is None else int(more)

    return {one[0]: one for one in map(row, recording(name).rows["t"])}


@pytest.fixture(params=["msgspec", "json"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "json":
        monkeypatch.setattr(wire_json, "msgspec", None)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("name", FLAT)
def test_the_records_of_a_topic_in_order_leave_the_sources_rows(name: str) -> None:
    """But for what the settings say: no delete may arrive, and a NULL may be the column's default, 7.

    Row 2 was changed last before its column `more` was added, and 7 put into it: its events have no such field.
    """
    form = frame(name).form
    rows, source = folded(name), source_rows(name)
    assert (rows[2][2], source[2][2]) == (None, 7)
    rows[2] = source[2]
    if Deletes.LOST in form.deletes and rows.keys() > source.keys():
        assert "drop" in form.setting
        rows = {key: row for key, row in rows.items() if key in source}
    if form.null_becomes_default or settings_of(name).null_becomes_default:
        allowed = {key: {row, (*row[:2], 7) if row[2] is None else row} for key, row in source.items()}
        assert rows.keys() == source.keys()
        assert all(row in allowed[key] for key, row in rows.items())
        return
    assert rows == source


@pytest.mark.parametrize("name", FLAT)
def test_a_change_has_its_place_where_all_of_it_was_kept_and_else_none_has(name: str) -> None:
    form, source = frame(name).form, name.partition("-")[0]
    changes = [change for _, change in opened(name)]
    placed = [change for change in changes if change.at is not None]
    if not form.is_placed(source):
        assert placed == []
        return
    assert [change.op for change in changes if change.at is None] == [TOMBSTONE] * (len(changes) - len(placed))
    places = [change.at for change in placed if change.at is not None]
    assert all(place.origin and place.n and place.pos and place.ts_ms and place.log for place in places)
    order = [(place.n, place.pos, place.row) for place in places]
    assert order == sorted(order, key=lambda at: (at[0] or 0, at[1] or 0, at[2] or 0))
    assert {change.op for change in placed} == {"c", "u", "d"}
    assert all(change.ts_ms == change.at.ts_ms for change in placed if change.at)


def test_a_record_has_one_place_whether_fields_or_headers_hold_it() -> None:
    for source in ("mysql", "postgres"):
        in_fields = [change.at and change.at[:7] for _, change in opened(f"{source}-flat-fields") if change.at]
        in_headers = [change.at and change.at[:7] for _, change in opened(f"{source}-flat-headers") if change.at]
        assert in_fields == in_headers != []


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("name", FLAT)
def test_a_column_that_the_table_has_no_more_is_named_and_the_rest_is_read(name: str) -> None:
    """`v` was dropped; no field that the transform adds counts as one."""
    assert {change.unknown for _, change in opened(name)} == {(), ("v",)}


@pytest.mark.parametrize("name", FLAT)
def test_without_rows_the_keys_and_operations_are_the_same(name: str) -> None:
    with_rows = [(change.op, change.key, change.at) for _, change in opened(name)]
    without = [(change.op, change.key, change.at) for _, change in opened(name, want=Want(after=Side.NONE))]
    assert without == with_rows
    assert all(change.after is None for _, change in opened(name, want=Want(after=Side.NONE)))


# ---- records of our own ------------------------------------------------------------------------

TWO = table(column("id", "int"), column("v", "varchar(9)", nullable=True), key=("id",))


def one(
    value: bytes | None, form: Mapping[str, str], *, headers: Headers = (), key: bytes | None = b'{"id": 1}'
) -> Opened:
    made = Flattened(flattened_form("t", form), Json(), Json(), "mysql")
    (change,) = made.opener(TWO, Plain(), Want(), {})(RawRecord(0, 0, key, value, headers))
    return change


REWRITE = {"delete.tombstone.handling.mode": "rewrite"}


@pytest.mark.parametrize(
    ("value", "form", "op", "bad"),
    [
        (b'{"id":1,"v":"a"}', {}, UPDATE, ""),
        (None, {}, DELETE, ""),
        (b"null", {}, DELETE, ""),
        (b' {"payload":null,"schema":{"type":"struct"}}', {}, DELETE, ""),
        (None, REWRITE, TOMBSTONE, ""),
        (b'{"payload":null,"schema":null}', {}, UPDATE, ""),  # fields of no column, and no row
        (b'{"id":1,"v":"a","__deleted":"true"}', REWRITE, DELETE, ""),
        (b'{"id":1,"v":"a","__deleted":"false"}', REWRITE, UPDATE, ""),
        (b'{"id":1,"v":"a"}', REWRITE, UPDATE, ""),
        (b'{"id":1,"v":"a","__deleted":true}', REWRITE, "", "__deleted is neither true nor false"),
        (b'{"id":1,"v":"a","__op":"d"}', {"add.fields": "op"}, DELETE, ""),
        (b'{"id":1,"v":"a","__op":"r"}', {"add.fields": "op"}, READ, ""),
        (b'{"id":1,"v":"a","__op":"x"}', {"add.fields": "op"}, "", "unknown op x"),
        (b'{"id":1,"v":"a","__op":null}', {"add.fields": "op"}, UPDATE, ""),
        (b"[1]", {}, "", "the value is not JSON"),
        (b"nul", {}, "", "the value is not JSON"),
        (b'"\xff"', {}, "", "the value is not valid UTF-8"),
    ],
)
def test_what_a_value_says_and_the_settings_mean(value: bytes | None, form: dict[str, str], op: str, bad: str) -> None:
    change = one(value, form)
    assert (change.op, change.bad, change.at) == (op, bad, None)


def test_a_record_without_a_key_or_with_one_that_is_none_is_bad() -> None:
    assert one(b'{"id":1,"v":"a"}', {}, key=None).bad == "the record has no key"
    assert one(b'{"id":1,"v":"a"}', {}, key=b"\xff").bad == "the key is not valid UTF-8"
    assert one(None, {}, key=None).bad == "the record has no key"


def test_parts_in_headers_are_text_and_empty_where_there_is_none() -> None:
    form = {"add.headers": "op,source.ts_ms,source.snapshot"}
    value = b'{"id":1,"v":"a"}'
    read = one(value, form, headers=(("__op", b"r"), ("__source_ts_ms", b"7"), ("__source_snapshot", b"first")))
    assert (read.op, read.ts_ms, read.snapshot) == (READ, 7, "first")
    change = one(value, form, headers=(("__op", b"u"), ("__source_ts_ms", b""), ("__source_snapshot", b"")))
    assert (change.op, change.ts_ms, change.snapshot) == (UPDATE, None, "")
    assert one(value, form, headers=(("__op", b"\xff"),)).bad == "unknown op"


def test_a_row_of_a_snapshot_is_told_by_its_operation_where_nothing_else_says_so() -> None:
    assert one(b'{"id":1,"v":"a","__op":"r"}', {"add.fields": "op"}).snapshot == "later"


def test_a_record_without_the_place_that_all_others_have_is_bad() -> None:
    whole = "op,source.ts_ms,source.gtid,source.server_id,source.file,source.pos,source.row"
    change = one(b'{"id":1,"v":"a","__op":"u","__source_file":"f.1"}', {**REWRITE, "add.fields": whole})
    assert (change.op, change.at, change.bad) == (UPDATE, None, "the event has no source position")


def test_records_of_another_table_in_a_shared_topic_are_left_to_it() -> None:
    mark = KeyMark("shard", "shop.t")
    made = Flattened(flattened_form("t", {}), Json(), Json(), "mysql", mark)
    open_ = made.opener(TWO, Plain(), Want(), {})
    for value in (b'{"id":1,"v":"a"}', None):
        (own,) = open_(RawRecord(0, 0, b'{"id":1,"shard":"shop.t"}', value))
        (other,) = open_(RawRecord(0, 0, b'{"id":1,"shard":"shop.u"}', value))
        assert (own.table, own.key, other.table) == ("", (1,), "shop.u")
    kept = Flattened(flattened_form("t", {"add.fields": "db,table"}), Json(), Json(), "mysql")
    (change,) = kept.opener(TWO, Plain(), Want(), {})(
        RawRecord(0, 0, b'{"id":1}', b'{"id":1,"v":"a","__db":"shop","__table":"u"}')
    )
    assert change.table == "shop.u"


def test_a_table_whose_rows_cannot_be_told_is_refused() -> None:
    made = Flattened(flattened_form("t", {"add.fields": "op:v"}), Json(), Json(), "mysql")
    with pytest.raises(SchemaError, match="no key"):
        made.opener(replace(TWO, key=()), Plain(), Want(), {})
    with pytest.raises(SchemaError, match="name of a column"):
        Flattened(flattened_form("t", {"add.fields": "op:v", "add.fields.prefix": ""}), Json(), Json(), "mysql").opener(
            TWO, Plain(), Want(), {}
        )


def test_headers_are_asked_for_only_where_something_is_in_them() -> None:
    assert not Flattened(flattened_form("t", {"add.fields": "op"}), Json(), Json(), "mysql").headers
    assert Flattened(flattened_form("t", {"add.headers": "op"}), Json(), Json(), "mysql").headers


def test_a_value_of_another_type_is_wrong_and_the_change_is_opened() -> None:
    assert one(b'{"id":1,"v":5}', {}).after == (1, WRONG)
