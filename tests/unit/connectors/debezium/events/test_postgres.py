"""PostgreSQL's values in Debezium's events: as Spark's expressions read them (tests/data/goldens), and as the source itself writes them."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.events.postgres import PostgresValues
from airflow_cdc.core.dead_letter import MISREAD
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.events.value import WRONG, NoValueError, Shape, Value, Wire, row_shape
from airflow_cdc.events.wire.json import Json
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.types import column_of
from tests.contract.test_wires import any_wiring, schemas
from tests.goldens.scenes import POSTGRES_COLUMNS, POSTGRES_MODES, TEXTS, Scene, value_scenes
from tests.paths import ROOT
from tests.wires import names, recording

GOLDENS = ROOT / "tests" / "data" / "goldens"
SCENES = {scene.name: scene for scene, _ in value_scenes() if scene.kind == "postgres"}
BAD, NULL = "no value", "NULL"


def column(kind: str, **more: Any) -> Column:
    return column_of(PgColumn("c", 1, kind, kind, **more))


def numeric(precision: int, scale: int) -> Column:
    return column("numeric", modifier=(precision << 16 | (scale & 0x7FF)) + 4)


def array(of: str) -> Column:
    return column(f"_{of}", element=of, element_schema="pg_catalog", element_kind="b")


def named(value: Any) -> str:
    """Of a case: a column by its type."""
    return value.native.type if isinstance(value, Column) else str(value)[:20]


def outcome(value: Any, how: Value) -> str:
    if value is None:
        return NULL
    if value is WRONG:
        return BAD
    try:
        return repr(how.read(value))
    except (ValueError, ArithmeticError):
        return BAD


# ---- as before ----------------------------------------------------------------------------------------------------------

# The form in which a connector writes a value. What is JSON of the right type, but not in this form, was taken and is none
FORMS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("n", "n5", "n38", "n60", "money"), re.compile(r'"-?\d+(\.\d+)?([eE]\d+)?"')),
    "timestamptz": re.compile(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z"'),
    "bit12": re.compile(r'"..=="'),  # 12 bits and no more
    "bytea": re.compile(r'"(?!__debezium)(([\w-]{4})*([\w-]{2}==|[\w-]{3}=)?)"'),
    "bytea of hex": re.compile(r'"([\da-fA-F]{2})*"'),
}


def before(line: Mapping[str, Any], name: str) -> str:
    if name in line.get("after", {}):
        return str(line["after"][name])
    wrong = re.sub(r" \([^)]*\)", "", line.get("bad", "")).removeprefix("the row's column ")
    return BAD if name in wrong.removesuffix(" cannot be decoded").split(", ") else NULL


@pytest.mark.parametrize("mode", POSTGRES_MODES)
def test_what_was_refused_is_refused_in_the_same_words(mode: str) -> None:
    config, wanted = POSTGRES_MODES[mode]
    values, refused = PostgresValues.from_config(config), {}
    for one in POSTGRES_COLUMNS:
        try:
            if one.name in wanted:
                values.value(one)
        except SchemaError as error:
            refused[one.name] = str(error)
    assert refused == golden(f"postgres_values_{mode}")[0]


def golden(name: str) -> tuple[Mapping[str, str], list[Mapping[str, Any]]]:
    lines = json.loads((GOLDENS / f"{name}.json").read_text(encoding="ascii"))
    return (lines[0]["refused"], lines[1:]) if "refused" in lines[0] else ({}, lines)


@pytest.mark.parametrize("name", SCENES)
def test_each_text_is_the_value_that_it_was_or_none(name: str) -> None:
    scene: Scene = SCENES[name]
    values = PostgresValues.from_config(scene.config)
    shape = Shape(Wire.STRUCT, (("after", row_shape(scene.table, values)),))
    read, seen = Json().reader(shape, {}), 0
    for record, line, text in zip(scene.records, golden(name)[1], TEXTS, strict=True):
        if "failed" in line:
            continue
        (row,) = read(record.value or b"", ())
        for one, value in zip(scene.table.mirrored, row, strict=True):
            was, now = before(line, one.name), outcome(value, values.value(one))
            if was == now or (now == BAD and is_stricter(one.name, text, value, values)):
                seen += now not in {BAD, NULL}
                continue
            pytest.fail(f"{one.name}: {text} was {was} and is {now}")
    assert seen > len(TEXTS)


def is_stricter(name: str, text: str, value: Any, values: PostgresValues) -> bool:
    """JSON's types are types: "12" is no number, and 12 is no text; nor are they in an array."""
    if value is WRONG or (isinstance(value, list) and WRONG in value):
        return True
    form = FORMS.get(f"{name} of {values.binary}", FORMS.get(name))
    return form is not None and form.fullmatch(text) is None


# ---- as the source writes it --------------------------------------------------------------------------------------------

ENUM = {"type_schema": "public", "type_kind": "e", "labels": ("sad 'one'", "happy")}
# the columns of `every`, in order (tests/integration/wire_records.py)
COLUMNS: list[Column] = [
    *map(column, ("int2", "int4", "int8", "oid", "bool")),
    *(numeric(*digits) for digits in ((5, 2), (18, 18), (38, 10), (60, 3), (3, -2), (2, 5))),
    *map(column, ("numeric", "money", "float4", "float8")),
    *(column("bit", modifier=size) for size in (1, 12, 64, 65)),
    column("varbit", modifier=70), column("date"), column("time"), column("time", modifier=3), column("timetz"),
    *map(column, ("timestamp", "timestamptz", "interval")),
    column("bpchar", modifier=9), column("varchar", modifier=13),
    *map(column, ("text", "char", "name", "bytea", "uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr", "macaddr8")),
    *(column(kind, type_kind="r") for kind in ("int4range", "tstzrange")),
    column("int4multirange", type_kind="m"), column("tsvector"), column("mood", **ENUM), column("int4"), numeric(8, 3),
    *(column(kind, type_schema="public") for kind in ("citext", "ltree")), array("int4"), array("text"), array("numeric"),
    array("timestamptz"), column("_mood", element="mood", element_schema="public", element_kind="e"),
]  # fmt: skip
REFUSED = {"c18", "c19", "c23", "c30", "c31", "c42", "c43", "c44", "c52", "c53", "c54"}
INTERVALS = {
    "1 year 2 mons 3 days 04:05:06.78": "P1Y2M3DT4H5M6.78S",
    "-1 mons +1 day -00:00:00.000001": "P0Y-1M1DT0H0M-0.000001S",
    "00:00:00": "P0Y0M0DT0H0M0S",
}
ARRAYS = {"{}": [], "{1,NULL,-3}": [1, None, -3], '{a|b,"",NULL,N}': ["a|b", "", None, "N"]}


def clock(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    return int((int(hours) * 3600 + int(minutes) * 60 + Decimal(seconds)) * 1_000_000)


def moment(text: str) -> int:
    return (datetime.fromisoformat(text.removesuffix("+00")).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)  # fmt: skip


def money(text: str) -> Decimal:
    return Decimal(re.sub(r"[$,]", "", text))


def single(text: str) -> float:
    return {"1e-45": 1.401298464324817e-45, "0.1": 0.10000000149011612}.get(text) or float(text)


# type → the value of the text that PostgreSQL writes
MEANT: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("int2", "int4", "int8", "oid"), int),
    "bool": {"true": True, "false": False}.__getitem__,
    "money": money,
    "float4": single,
    "float8": float,
    "date": lambda text: date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal(),
    "time": clock,
    "timestamp": moment,
    "timestamptz": moment,
    "interval": INTERVALS.__getitem__,
    "bytea": lambda text: bytes.fromhex(text.removeprefix("\\x")),
    "inet": lambda text: text.removesuffix("/32").removesuffix("/128"),
    "_int4": ARRAYS.__getitem__,
    "_text": ARRAYS.__getitem__,
}


def meant(one: Column, text: str | None) -> Any:
    if text is None:
        return None
    kind = dict(one.native.words)["type"]
    if kind == "bit":
        number = int(text, 2)
        return Decimal(number) if len(text) == 64 else number
    if kind == "numeric":
        return text if one.name in {"c8", "c11"} else Decimal(text)  # more digits than a sink's decimal
    return MEANT.get(str(kind), str)(text)


# those of Protobuf are held to the same Connect values in tests/contract/test_wires.py
OTHERS = {"flat", "protobuf", "snapshot"}
FORMATS = [name for name in names("postgres-") if not OTHERS & set(name.split("-"))]


@pytest.mark.parametrize("name", FORMATS)
def test_every_value_is_the_source_s_in_every_format(name: str) -> None:
    """JSON with its schema, JSON Schema and Avro; decimals as bytes and as text."""
    kept, texts = recording(name), schemas(name)
    values = PostgresValues.from_config(kept.settings)
    carried = [replace(one, name=f"c{at}") for at, one in enumerate(COLUMNS)]
    hows = {one.name: how for one in carried if (how := carried_by(values, one)) is not None}
    precise = {"c11"} if values.decimal == "precise" else set()
    assert {one.name for one in carried} - hows.keys() == REFUSED | precise
    after = Shape(Wire.STRUCT, (("id", Shape(Wire.INT)), *((one, how.shape) for one, how in hows.items())))
    read = any_wiring(name, "value").reader(Shape(Wire.STRUCT, (("after", after),)), texts)
    by_id, compared = {row["id"]: row for row in kept.rows["every"]}, 0
    for record in kept.records["every"]:
        ((number, *row),) = read(record.value or b"", record.headers)
        for one, value in zip((c for c in carried if c.name in hows), row, strict=True):
            found = None if value is None else hows[one.name].read(value)
            wanted = meant(one, by_id[str(number)][one.name])
            assert repr(found) == repr(wanted), one.native
            compared += wanted is not None
    assert compared > 80


def carried_by(values: PostgresValues, one: Column) -> Value | None:
    try:
        return values.value(one)
    except SchemaError:
        return None


# ---- by themselves ------------------------------------------------------------------------------------------------------

LETTERS = list(b"__debezium_unavailable_value")
IN_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="


@pytest.mark.parametrize(
    ("one", "modes", "value"),
    [
        (column("text"), {}, "__debezium_unavailable_value"),
        (column("bpchar"), {}, "__debezium_unavailable_value"),
        (column("jsonb"), {}, "__debezium_unavailable_value"),
        (column("numeric"), {"decimal": "string"}, "__debezium_unavailable_value"),
        (numeric(5, 2), {"decimal": "string"}, "__debezium_unavailable_value"),
        (column("bytea"), {}, bytes(LETTERS)),
        (column("bytea"), {"binary": "base64"}, IN_BASE64),
        (column("bytea"), {"binary": "base64-url-safe"}, IN_BASE64),
        (column("bytea"), {"binary": "base64-url-safe"}, "__debezium_unavailable_value"),
        (column("bytea"), {"binary": "hex"}, bytes(LETTERS).hex()),
        (column("hstore", type_schema="public"), {}, '{"__debezium_unavailable_value":"__debezium_unavailable_value"}'),
        (array("text"), {}, ["__debezium_unavailable_value"]),
        (array("int4"), {}, LETTERS),
        (array("int8"), {}, LETTERS),
    ],
    ids=named,
)
def test_a_placeholder_is_never_a_value_and_its_row_is_read_again(
    one: Column, modes: Mapping[str, str], value: Any
) -> None:
    how = PostgresValues(**modes).value(one)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        how.read(value)
    assert MISREAD in how.doubt


def test_the_placeholder_is_the_one_that_the_connector_was_told() -> None:
    how = PostgresValues.from_config({"unavailable.value.placeholder": "it's\\gone"}).value(column("text"))
    assert how.read("__debezium_unavailable_value") == "__debezium_unavailable_value"
    with pytest.raises(NoValueError):
        how.read("it's\\gone")


@pytest.mark.parametrize("one", [column("int8"), column("uuid"), column("timestamptz"), column("macaddr8")])
def test_a_value_that_the_log_always_has_whole_is_not_doubted(one: Column) -> None:
    assert PostgresValues().value(one).doubt == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.10", "1.10"), ("-0.00", "-0.00"), ("NaN", "NaN"), ("NAN", "NaN"), ("POSITIVE_INFINITY", "Infinity"),
        ("NEGATIVE_INFINITY", "-Infinity"), ("9" * 400, "9" * 400),
    ],
)  # fmt: skip
def test_a_numeric_without_precision_is_the_text_that_the_server_writes(text: str, value: str) -> None:
    assert PostgresValues(decimal="string").value(column("numeric")).read(text) == value


@pytest.mark.parametrize(
    ("digits", "text", "read"),
    [
        ((5, 2), "1.100", Decimal("1.10")), ((5, 2), "-0.00", Decimal("0.00")), ((5, 2), "999.99", Decimal("999.99")), ((5, 2), "1.005", BAD),
        ((5, 2), "1000.00", BAD), ((3, -2), "99900.0", Decimal(99900)), ((3, -2), "150.5", BAD), ((60, 3), "9E2", "900.000"), ((60, 3), "0.0001", BAD),
        ((18, 18), "1E-18", Decimal("1E-18")), ((18, 18), "1.0", BAD),
    ],
)  # fmt: skip
def test_no_digit_of_a_numeric_is_rounded_or_cut(digits: tuple[int, int], text: str, read: Any) -> None:
    how = PostgresValues(decimal="string").value(numeric(*digits))
    assert outcome(text, how) == (BAD if read == BAD else repr(read))
    precise = PostgresValues().value(numeric(*digits))
    sent = (
        Decimal(text).quantize(Decimal(1).scaleb(-precise.shape.scale)) if precise.shape.scale < 20 else Decimal(text)
    )
    if Decimal(text) == sent:
        assert outcome(sent, precise) == outcome(text, how)


@pytest.mark.parametrize("text", ["1E-20", "1e5", "", "abc", "1_000", "١", " 1"])
def test_what_the_server_never_writes_for_a_numeric_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        PostgresValues(decimal="string").value(column("numeric")).read(text)


@pytest.mark.parametrize(
    ("value", "read"),
    [([], []), ([1, None], [1, None]), ([None], BAD), ([[1]], BAD), ([2**31], BAD), ([WRONG, 1], BAD)],
    ids=str,
)
def test_an_array_is_all_or_nothing(value: list[Any], read: Any) -> None:
    how = PostgresValues().value(array("int4"))
    made = [WRONG if isinstance(one, list) else one for one in value]  # as a wiring reads it
    assert outcome(made, how) == (BAD if read == BAD else repr(read))


@pytest.mark.parametrize(
    ("one", "modes"),
    [
        (column("timetz"), {}),
        (column("tstzrange", type_kind="r"), {}),
        (column("int4multirange", type_kind="m"), {}),
        (column("tsvector"), {}),
        (column("varbit"), {}),
        (column("name"), {}),
        (array("numeric"), {"decimal": "string"}),
        (column("bit", modifier=65), {}),
        (array("timestamptz"), {}),
        (column("numeric"), {"decimal": "precise"}),
        (column("numeric"), {"decimal": "double"}),
        (numeric(16, 2), {"decimal": "double"}),
        (numeric(3, 16), {"decimal": "double"}),
        (column("money"), {"decimal": "double"}),
        (column("interval"), {"interval": "numeric"}),
        (column("hstore", type_schema="public"), {"hstore": "map"}),
    ],
    ids=named,
)
def test_what_events_do_not_carry_exactly_is_refused_by_name(one: Column, modes: Mapping[str, str]) -> None:
    with pytest.raises(SchemaError, match="column c"):
        PostgresValues(**modes).check_table(Table("public", "t", (one,), ("c",)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("decimal.handling.mode", "float"), ("time.precision.mode", "connect"), ("binary.handling.mode", "raw")],
)
def test_a_mode_that_cannot_be_decoded_is_named(setting: str, value: str) -> None:
    with pytest.raises(SchemaError, match=f"{setting}={value}"):
        PostgresValues.from_config({setting: value})


def test_a_table_without_a_key_needs_numbered_events() -> None:
    bare = Table("public", "t", (column("int4"),))
    with pytest.raises(SchemaError, match="not numbered"):
        PostgresValues().check_table(bare)
    PostgresValues.from_config({"provide.transaction.metadata": "true"}).check_table(bare)


def test_they_travel_to_executors() -> None:
    values = PostgresValues(binary="hex", placeholder="gone", numbered=True)
    assert pickle.loads(pickle.dumps(values)) == values  # noqa: S301 - of one's own
