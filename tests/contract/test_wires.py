"""Every format says what Kafka's own JsonConverter says of the same change, on records of real connectors.

One database was followed by connectors in each format. The JSON with schemas is read here by its schema block and none
of the product's code; a value is then compared with the source's own text of the row.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import fastavro._read_py
import pytest

from airflow_cdc.events.record import Ids, SchemaId, Unreadable
from airflow_cdc.events.value import WRONG, Missing, Shape, Wire
from airflow_cdc.events.wire import Schemas, Wiring
from airflow_cdc.events.wire import json as wire_json
from airflow_cdc.events.wire.avro import Avro, legal_name
from airflow_cdc.events.wire.ids import CONTENT_ID, GLOBAL_ID, Framing
from airflow_cdc.events.wire.json import Json, JsonSchema
from airflow_cdc.events.wire.protobuf import Protobuf
from tests.wires import Recorded, names, recording

KINDS = {Ids.CONFLUENT: CONTENT_ID, Ids.APICURIO: GLOBAL_ID, Ids.HEADERS: GLOBAL_ID}
AVRO = [name for name in names("-avro-") if not name.endswith("flat-avro")]
PROTOBUF = names("-protobuf-")
SHOWN = [name for name in PROTOBUF if not name.endswith("default")]
DECIMAL = "org.apache.kafka.connect.data.Decimal"
_WIRES = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), Wire.INT),
    "float": Wire.FLOAT32,
    "double": Wire.FLOAT64,
    "boolean": Wire.BOOLEAN,
    "string": Wire.STRING,
    "bytes": Wire.BYTES,
}
OPTIONAL = ("op", "before", "after")


def ids_of(name: str) -> Ids:
    return next((ids for ids in Ids if name.endswith(ids)), Ids.CONFLUENT)


def wiring(name: str, side: str) -> Avro:
    ids = ids_of(name)
    return Avro(Framing(ids, side, KINDS[ids]), renamed="renamed" in name)


def schemas(name: str) -> Schemas:
    """The texts by id, as a registry's client returns them."""
    texts = {}
    for key, answer in recording(name).schemas.items():
        kind, _, number = key.partition(":")
        texts[SchemaId(kind, int(number))] = answer["schema"] if kind == CONTENT_ID else json.dumps(answer)
    return texts


def json_of(name: str, table: str) -> list[Recorded]:
    """The records of the connector of the same modes that wrote JSON with schemas."""
    return list(
        recording(f"{name.partition('-')[0]}-json{'-string' if name.endswith('string') else ''}").records[table]
    )


def shape_of(schema: Mapping[str, Any], *, without: frozenset[str] = frozenset()) -> Shape:
    """The shape that a schema block describes."""
    match schema["type"]:
        case "struct":
            fields = [one for one in schema["fields"] if one["field"] not in without]
            return Shape(
                Wire.STRUCT, tuple((one["field"], replace(shape_of(one), missing=missing(one))) for one in fields)
            )
        case "array":
            return Shape(Wire.ARRAY, of=shape_of(schema["items"]))
        case "bytes" if schema.get("name") == DECIMAL:
            return Shape(Wire.DECIMAL, scale=int(schema["parameters"]["scale"]))
    return Shape(_WIRES[schema["type"]])


def missing(schema: Mapping[str, Any]) -> Missing:
    return Missing.UNKNOWN if schema["optional"] else Missing.ZERO


def expected(value: Any, schema: Mapping[str, Any], shape: Shape, default: bool) -> Any:  # noqa: PLR0911
    """The Connect value of JSON. `default`: as by a converter that writes a column's default for NULL."""
    if value is None:
        value = schema.get("default") if default else None
    if value is None:
        return None
    match shape.wire:
        case Wire.STRUCT:
            fields = {one["field"]: one for one in schema["fields"]}
            return tuple(expected(value[name], fields[name], part, default) for name, part in shape.parts)
        case Wire.ARRAY:
            assert shape.of is not None
            return [expected(one, schema["items"], shape.of, default) for one in value]
        case Wire.DECIMAL:
            return Decimal(f"{int.from_bytes(base64.b64decode(value), 'big', signed=True)}e-{shape.scale}")
        case Wire.BYTES:
            return base64.b64decode(value)
        case Wire.FLOAT32 | Wire.FLOAT64:
            return struct.unpack(code := "f" if shape.wire is Wire.FLOAT32 else "d", struct.pack(code, float(value)))[0]
    return value


def change_shape(block: Mapping[str, Any], name: str) -> Shape:
    """op, before and after of an envelope, less the column whose name Avro does not allow."""
    fields = {one["field"]: one for one in block["fields"]}
    hidden = frozenset() if "renamed" in name or "json" in name else frozenset({"sep`'\"|"})
    rows = ((side, shape_of(fields[side], without=hidden)) for side in ("before", "after"))
    whole = tuple((side, Shape(row.wire, row.parts, whole=True)) for side, row in rows)
    return Shape(Wire.STRUCT, (("op", Shape(Wire.STRING)), *whole))


@pytest.fixture(params=["compiled", "python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiled parts of fastavro and msgspec, and as an executor reads that has neither."""
    if request.param == "python":
        monkeypatch.setattr(fastavro, "schemaless_reader", fastavro._read_py.schemaless_reader)
        monkeypatch.setattr(wire_json, "msgspec", None)


def changes(name: str, table: str) -> Iterator[tuple[Recorded, Recorded]]:
    """Records of the format beside those of JSON: the same changes in the same order.

    Confluent's Protobuf converter fails at a NULL in a list, so two records of PostgreSQL were written by no one.
    """
    theirs, ours = json_of(name, table), recording(name).records[table]
    assert len(theirs) - len(ours) == (2 if name.startswith("postgres-protobuf") and table == "every" else 0)
    assert len(theirs) >= 6
    both = {one.offset: one for one in theirs}
    yield from ((one, both[one.offset]) for one in ours)


def any_wiring(name: str, side: str) -> Wiring:
    """JSON in its schema block, JSON behind an id in an object of its own (Apicurio's JSON Schema), or Avro."""
    if "protobuf" in name:
        return Protobuf(Framing(Ids.CONFLUENT, side))
    return wiring(name, side) if "avro" in name else Json(wrapped=True)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("table", ["every", "t", "bare"])
@pytest.mark.parametrize("name", [*AVRO, *names("-json"), *SHOWN])
def test_each_format_says_what_a_schema_block_says_of_the_same_change(name: str, table: str) -> None:
    """But for a NULL: Apicurio's AvroConverter writes the column's default for it, and has no setting against that."""
    if table not in recording(name).records:
        return
    texts, seen, default = schemas(name), set(), "avro" in name
    for ours, theirs in changes(name, table):
        if theirs.value is None:
            assert ours.value is None
            continue
        both = json.loads(theirs.value)
        shape = change_shape(both["schema"], name)
        assert ours.value is not None
        value = any_wiring(name, "value").reader(shape, texts)(ours.value, ours.headers)
        want = expected(both["payload"], both["schema"], shape, default)
        want = in_protobuf(want, shape, from_json="worker" not in name) if "protobuf" in name else want
        assert repr(value) == repr(want)  # types too, and NaN is NaN
        seen.add(both["payload"]["op"])
        if theirs.key is not None:
            key = json.loads(theirs.key)
            shape = shape_of(key["schema"])
            assert ours.key is not None
            read = any_wiring(name, "key").reader(shape, texts)
            assert read(ours.key, ours.headers) == expected(key["payload"], key["schema"], shape, default=False)
    assert seen == ({"c"} if table == "every" else {"c", "u", "d"})


@pytest.mark.parametrize("name", names("-json"))
def test_json_schema_of_confluent_is_json_behind_five_bytes(name: str) -> None:
    """Its converter is in no Maven repository: these bytes are the JsonConverter's with five before them."""
    for record in recording(name).records["every"]:
        both = json.loads(record.value or b"")
        block = both.get("schema") or json.loads(json_of(name, "every")[0].value or b"")["schema"]
        shape = change_shape(block, name)
        plain = json.dumps(both["payload"]).encode()
        read = JsonSchema(Framing(Ids.CONFLUENT, "value")).reader(shape, {})
        assert repr(read(b"\0\0\0\0\7" + plain, ())) == repr(Json(wrapped=False).reader(shape, {})(plain, ()))
        with pytest.raises(Unreadable, match="does not begin with a schema id"):
            read(plain, ())


def in_protobuf(value: Any, shape: Shape, *, from_json: bool = True) -> Any:
    """A Connect value as far as Confluent's Protobuf tells it: it writes no list without elements.

    `from_json`: the recorded values came through Java's reader of JSON, to which -0.0, "NaN" and "Infinity" are 0.0. On a worker
    the converter is given what the connector read.
    """
    if shape.wire is Wire.ARRAY and not value:
        return WRONG if shape.missing is Missing.UNKNOWN else []
    if type(value) is tuple:
        parts = zip(value, shape.parts, strict=True)
        return tuple(in_protobuf(one, part, from_json=from_json) for one, (_, part) in parts)
    return 0.0 if from_json and type(value) is float and not (value and math.isfinite(value)) else value


def test_protobuf_that_does_not_show_a_null_is_wrong_where_it_may_be_one_and_never_guessed() -> None:
    """Its converter without a setting: what is there is read, what is not is a zero only where NULL is none."""
    for name in names("protobuf-default"):
        nulls = zeros = 0
        for ours, theirs in changes(name, "every"):
            both = json.loads(theirs.value or b"")
            shape = change_shape(both["schema"], name)
            _, _, row = any_wiring(name, "value").reader(shape, schemas(name))(ours.value or b"", ours.headers)
            _, _, want = in_protobuf(expected(both["payload"], both["schema"], shape, default=False), shape)
            doubted = [b for a, b in zip(row, want, strict=True) if a is WRONG and b is not WRONG]
            read = [(a, b) for a, b in zip(row, want, strict=True) if a is not WRONG and type(a) is not tuple]
            assert [both for both in read if repr(both[0]) != repr(both[1])] == []
            nulls += doubted.count(None)
            zeros += len(doubted) - doubted.count(None)
            assert set(map(repr, doubted)) <= {"None", "0", "0.0", "''", "b''", "False"}
        assert nulls > 20
        assert zeros > 2


def parts(name: str, table: str = "t", **shapes: Shape) -> Callable[[Recorded], Any]:
    """Reads `after` of an event as these fields."""
    after = Shape(Wire.STRUCT, tuple(shapes.items()))
    read = any_wiring(name, "value").reader(Shape(Wire.STRUCT, (("after", after),)), schemas(name))
    return lambda record: read(record.value or b"", record.headers)[0]


@pytest.mark.parametrize("name", [*AVRO, *PROTOBUF])
def test_two_schemas_of_one_topic_are_each_read_by_their_own_and_a_widened_decimal_has_the_columns_scale(
    name: str,
) -> None:
    """A column is added, one widened, one dropped; what an older schema does not have is NULL."""
    records = [one for one in recording(name).records["t"] if one.value]
    read = parts(
        name,
        id=Shape(Wire.INT, missing=Missing.ZERO),
        v=Shape(Wire.STRING),
        more=Shape(Wire.INT),
        n=Shape(Wire.DECIMAL, scale=4),
    )
    rows = [row for row in map(read, records) if row is not None]
    precise = not name.endswith("string")
    one, ten = (Decimal("1.1000"), Decimal("1234567890.1200")) if precise else (WRONG, WRONG)
    assert rows[0] == (1, "a", None, one)
    assert (5, "e", 5, ten) in rows
    assert (1, None, 8, one) in rows


def test_a_value_of_another_type_or_with_more_digits_than_the_column_is_wrong_and_the_rest_is_read() -> None:
    (first, *_) = recording("mysql-avro-confluent").records["t"]
    read = parts("mysql-avro-confluent", id=Shape(Wire.STRING), v=Shape(Wire.STRING), n=Shape(Wire.DECIMAL, scale=0))
    assert read(first) == (WRONG, "a", WRONG)


def test_a_decimal_of_more_bytes_than_it_needs_or_of_none_is_wrong() -> None:
    text = json.dumps({"type": "bytes", "scale": 2, "connect.name": DECIMAL})
    read = Avro(Framing(Ids.CONFLUENT, "value")).reader(Shape(Wire.DECIMAL, scale=2), {SchemaId(CONTENT_ID, 1): text})
    values = (b"\x01\xf4", b"\xff", b"\x80", b"\x00\x80", b"\x00\x01", b"")
    read_as = [read(b"\0\0\0\0\1" + bytes([2 * len(one)]) + one, ()) for one in values]
    assert read_as == [Decimal("5.00"), Decimal("-0.01"), Decimal("-1.28"), Decimal("1.28"), WRONG, WRONG]


def test_a_field_without_a_column_is_named() -> None:
    (first, *_) = recording("mysql-avro-confluent").records["t"]
    shape = Shape(Wire.STRUCT, (("after", Shape(Wire.STRUCT, (("id", Shape(Wire.INT)),), whole=True)),))
    with pytest.raises(Unreadable) as error:
        wiring("mysql-avro-confluent", "value").reader(shape, schemas("mysql-avro-confluent"))(first.value or b"", ())
    assert (error.value.unknown, error.value.why) == (("n", "v"), "")


@pytest.mark.parametrize("name", [*AVRO, *PROTOBUF])
def test_a_schema_that_the_reader_was_not_given_is_named_by_its_id(name: str) -> None:
    (first, *_) = recording(name).records["t"]
    with pytest.raises(Unreadable) as error:
        any_wiring(name, "value").reader(Shape(Wire.STRUCT), {})(first.value or b"", first.headers)
    assert error.value.schema_id in schemas(name)


@pytest.mark.parametrize("name", [*AVRO, *PROTOBUF])
@pytest.mark.parametrize("cut", [0, 1, 4, 5, 9, 12, -1])
def test_a_message_that_is_cut_or_has_more_bytes_is_unreadable_and_nothing_else(name: str, cut: int) -> None:
    (first, *_) = recording(name).records["t"]
    assert first.value is not None
    read = any_wiring(name, "value").reader(Shape(Wire.STRUCT, (("op", Shape(Wire.STRING)),)), schemas(name))
    for data in (first.value[:cut], first.value + b"\0"):
        with pytest.raises(Unreadable):
            read(data, first.headers)


@pytest.mark.parametrize(("name", "other"), [(n, o) for n in AVRO[:3] for o in AVRO[:3] if ids_of(n) != ids_of(o)])
def test_where_the_id_is_is_told_by_the_configuration_so_another_one_reads_nothing(name: str, other: str) -> None:
    """Bare Avro may begin with the byte of Confluent's format. No record is read as what it is not."""
    framing = wiring(other, "value")
    for one in recording(name).records["t"]:
        if one.value is not None:
            with pytest.raises(Unreadable):
                framing.reader(Shape(Wire.STRUCT, (("op", Shape(Wire.STRING)),)), schemas(name))(one.value, one.headers)


def test_names_are_made_legal_as_debezium_makes_them() -> None:
    fields = schemas("mysql-avro-renamed")
    text = next(text for text in fields.values() if "sep" in text)
    assert f'"{legal_name(chr(96).join(("sep", chr(39) + chr(34) + "|")))}"' in text
    assert legal_name("1st") == "_1st"


# ---- against the source's own text of its rows ------------------------------------------------

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of no zone, as the column


def clock(micros: int) -> str:
    sign, rest = ("-" if micros < 0 else ""), abs(micros)
    return f"{sign}{rest // 3_600_000_000:02d}:{rest // 60_000_000 % 60:02d}:{rest // 1_000_000 % 60:02d}.{rest % 1_000_000:06d}"


# Connect's or Debezium's name of a type → its value as MySQL writes it, in full digits
_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "io.debezium.time.Date": lambda days: (EPOCH + dt.timedelta(days=days)).date().isoformat(),
    "io.debezium.time.Timestamp": lambda ms: (EPOCH + dt.timedelta(milliseconds=ms)).isoformat(" ", "microseconds"),
    "io.debezium.time.MicroTimestamp": lambda us: (EPOCH + dt.timedelta(microseconds=us)).isoformat(
        " ", "microseconds"
    ),
    "io.debezium.time.MicroTime": clock,
    "io.debezium.time.Year": lambda year: "0000" if year == 1900 else str(year),  # YEAR has no 1900
    "io.debezium.time.ZonedTimestamp": lambda text: (
        dt.datetime.fromisoformat(text).replace(tzinfo=None).isoformat(" ", "microseconds")
    ),
}
# columns whose text is compared elsewhere: JSON is written anew, a geometry is a struct, zero dates arrive as NULL or 1970
# MySQL writes four digits of db2, a double that has more; Debezium doubles a backslash in an ENUM or SET
_ELSEWHERE = {"j", "g", "p", "pg", "db2", "e", "s"}
_NO_DAYS = tuple(text.encode().hex() for text in ("0000-", "2020-00", "2020-05-00"))
# a FLOAT's exact value as a double, not in hexadecimal digits as the others
_PLAIN = {"f", "f73"}


def in_full(text: str, like: str) -> str:
    """Digits after the point as many as `like` has."""
    whole, _, digits = text.partition(".")
    return f"{whole}.{digits:0<6}" if "." in like else text


def test_a_rows_values_are_those_that_the_source_itself_writes() -> None:
    name = "mysql-avro-confluent"
    source = {int(bytes.fromhex(row["id"])): row for row in recording(name).rows["every"]}
    block = json.loads(json_of(name, "every")[0].value or b"")["schema"]
    shape = change_shape(block, name)
    fields = {one["field"]: one for one in next(f for f in block["fields"] if f["field"] == "after")["fields"]}
    read = wiring(name, "value").reader(shape, schemas(name))
    compared = 0
    for record in recording(name).records["every"]:
        _, _, after = read(record.value or b"", record.headers)
        row = dict(zip((column for column, _ in shape.parts[2][1].parts), after, strict=True))
        for column, value in row.items():
            stored, kind = source[row["id"]][column], fields[column].get("name", "")
            if column in _ELSEWHERE or (kind in _TEXTS and (stored or "").startswith(_NO_DAYS)):
                continue
            assert _same(value, kind, stored, fields[column]["type"], plain=column in _PLAIN), (column, value, stored)
            compared += value is not None
    assert compared > 400


def _same(value: Any, kind: str, stored: str | None, wire: str, *, plain: bool) -> bool:
    if value is None or stored is None:
        return value is stored is None
    if wire in {"float", "double"}:
        return bool(float(stored if plain else bytes.fromhex(stored)) == value)
    if isinstance(value, bytes):
        number = kind == "io.debezium.data.Bits"
        return str(int.from_bytes(value, "little")) == stored if number else value.hex() == stored
    if isinstance(value, bool):
        return str(int(value)) == stored
    text = bytes.fromhex(stored).decode()
    if kind in _TEXTS:
        return in_full(text, _TEXTS[kind](value)) == _TEXTS[kind](value)
    return bool(type(value)(text) == value)
