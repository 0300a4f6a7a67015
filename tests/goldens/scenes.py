"""Scenes for decoders of Debezium's JSON: a table, a connector's settings, and records in every form, the bad ones included.

What the engines make of them is kept beside the tests (tests/data/goldens), by `python -m tests.goldens.keep`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.events.record import RawRecord
from airflow_cdc.sources.mysql.types import MySqlWords, mysql_column
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.types import column_of
from tests.apply_support import CONFIG, EVENTS, ITEMS, UUID
from tests.integration.test_fuzz_records import ODD, OPS

Source = Callable[[Table, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Scene:
    """Records of one table's topic, under a connector's settings. `before`: whether old rows are wanted, too."""

    name: str
    kind: str
    table: Table
    records: Sequence[RawRecord]
    config: Mapping[str, str] = field(default_factory=dict)
    before: bool = False

    @property
    def settings(self) -> ConnectorSettings:
        return ConnectorSettings.from_config({**CONFIG, "connector.class": CLASSES[self.kind], **self.config})


CLASSES = {
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
    "postgres": "io.debezium.connector.postgresql.PostgresConnector",
}
TS_MS = 1_800_000_000_000


def binlog(gtid: str) -> Source:
    def block(table: Table, at: int) -> dict[str, Any]:
        place = {
            "file": "mysql-bin.000003",
            "pos": 1000 + at,
            "row": at % 3,
            "server_id": 1,
            "gtid": gtid.format(at + 1),
        }
        return {"version": "3.6.1.Final", "ts_ms": TS_MS + at, "db": table.schema, "table": table.name, **place}

    return block


def wal(table: Table, at: int) -> dict[str, Any]:
    place = {"txId": 700 + at, "lsn": 24_676_000 + at, "sequence": f'["{24_675_000 + at}","{24_676_000 + at}"]'}
    return {"version": "3.6.1.Final", "ts_ms": TS_MS + at, "schema": table.schema, "table": table.name, **place}


SOURCES: Mapping[str, Source] = {"mysql": binlog(UUID + ":{}"), "mariadb": binlog("0-1-{}"), "postgres": wal}


# --- values --------------------------------------------------------------------------------------------------------------

# JSON texts of a field: good ones of every type and mode, and what none of them may be
TEXTS: Sequence[str] = (
    "null", "true", "false", "0", "1", "-1", "-0", "7", "100", "127", "1900", "1901", "2155", "2156", "20000", "-719162", "2932896",
    "2932897", "2147483647", "-2147483648", "2147483648", "4294967295", "4294967296", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "18446744073709551615", "123456789012345678901234567890",
    "1700000000000", "1700000000123456", "-62135596800000", "-62135596800000000", "253402300799999", "253402300799999999",
    "253402300800000000", "1700000000123456789", "3020399000000", "-3020399000000", "9000000000000",
    "0.0", "-0.0", "1.0", "1.10", "1.5", "0.1", "-2.5", "3.4028235E38", "1e39", "1E-45", "1.000000059604644776", "16777217.0",
    "1e400", "-1e400", "1.7976931348623157E308", "4.9E-324", "1E2", "100.00", "12345.678",
    '""', '"0"', '"1"', '"12"', '" 12 "', '"-1"', '"1.10"', '"-0.00"', '"99.99"', '"1e2"', '"+5"', '"abc"', '"AA=="', '"AQ=="',
    '"AfQ="', '"/w=="', '"AP8="', '"AAE="', '"//8="', '"AQ"', '"A Q=="', '"AR=="', '"AAAAAAAAAAAA"', '"/////////w8="',
    '"f////////////w=="', '"Ag=="', '"ff"', '"FF0"', '"-_8="', '"NaN"', '"Infinity"', '"POSITIVE_INFINITY"', '"true"',
    '"2021-03-28T02:30:00Z"', '"2021-03-28T02:30:00.123456Z"', '"2021-03-28T02:30:00.1234567Z"', '"2021-03-28"',
    '"2021-03-28Z"', '"2021-03-28T02:30:00"', '"2021-03-28 02:30:00"', '"1970-01-01T00:00:00Z"', '"1970-01-01T00:00:00.5Z"',
    '"9999-12-31T23:59:59.999999Z"', '"10000-01-01T00:00:00Z"', '"2021-02-30T00:00:00Z"', '"2021-03-28T02:30:00+02:00"',
    '"0001-01-01"', '"-838:59:59"', '"é😀"', '"\\ud83d\\ude00"', '"a\\u0000b"', '"\\ufffd"', '"\\u2014"', '"x\\\\,y"', '"b\\\\\\\\c"',
    '"\\\\%\\\\_"', '"a\\\\nb"', '"{\\"b\\": 1.50, \\"a\\": [1e2, null]}"', '"\\"479:0-60:0-59\\""', '"{"', '"[1, 1.10, -0.0]"',
    '"{\\"a\\":1,\\"a\\":2}"', '"__debezium_unavailable_value"', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="', '"550e8400-e29b-41d4-a716-446655440000"',
    '"abc   "', '"P1Y2M3DT4H5M6S"', '"a\'b"', '"\\u2126"', '"  "',
    "{}", "[]", "[1,2]", "[null]", "[1,null]", '["a","b"]', '["1"]', '{"a":1}', '{"wkb":"AQ==","srid":null}',
    '{"wkb":"AQ==","srid":4326}', '{"x":1.0,"y":2.0,"wkb":"AQ==","srid":4326}', '{"wkb":"AQ=="}', '{"wkb":null,"srid":0}',
    '{"wkb":"A","srid":0}', '{"wkb":"AQ==","srid":"7"}', '{"wkb":"AQ==","srid":99999999999}', '{"wkb":7,"srid":0}',
    '{"wkb":"AQ==","srid":4326,"more":1}', '{"scale":2,"value":"AfQ="}',
)  # fmt: skip


def _my(name: str, kind: str, **more: Any) -> Column:
    data_type = kind.replace("(", " ").partition(" ")[0]
    inside = kind.partition("(")[2].partition(")")[0]
    sizes: dict[str, Any] = {}
    if data_type == "decimal":
        sizes = dict(zip(("precision", "scale"), map(int, inside.split(",")), strict=True))
    elif data_type in {"varchar", "char", "text"}:
        sizes = {"char_length": int(inside or 100), "charset": "utf8mb4"}
    elif data_type in {"binary", "varbinary"}:
        sizes = {"byte_length": int(inside)}
    elif data_type in {"datetime", "timestamp", "time"}:
        sizes = {"fsp": int(inside or 0)}
    elif data_type == "bit":
        sizes = {"precision": int(inside)}
    words = MySqlWords(data_type, kind, **{**sizes, **{k: v for k, v in more.items() if k != "nullable"}})
    return mysql_column(name, 1, words, nullable=more.get("nullable", True))


MYSQL_COLUMNS: Sequence[Column] = (
    _my("ti", "tinyint"), _my("i", "int"), _my("iu", "int unsigned"), _my("bi", "bigint"),
    _my("biu", "bigint unsigned"), _my("d5", "decimal(5,2)"), _my("d18", "decimal(18,6)"), _my("d19", "decimal(19,0)"),
    _my("d38", "decimal(38,10)"), _my("d65", "decimal(65,30)"), _my("f", "float"), _my("db", "double"), _my("b1", "bit(1)"),
    _my("b5", "bit(5)"), _my("b12", "bit(12)"), _my("b64", "bit(64)"), _my("da", "date"), _my("dt", "datetime"),
    _my("dt3", "datetime(3)"), _my("dt6", "datetime(6)"), _my("ts", "timestamp"), _my("ts6", "timestamp(6)"), _my("t", "time"),
    _my("t6", "time(6)"), _my("y", "year"), _my("v", "varchar(40)"), _my("vl", "varchar(40)", charset="latin1"),
    _my("vs", "varchar(40)", charset="sjis"), _my("tx", "text"), _my("e", "enum('x','y')", labels=("x", "y")),
    _my("ee", "enum('x,y','b\\\\c')", labels=("x,y", "b\\c")), _my("s", "set('p','q')", labels=("p", "q")), _my("j", "json"),
    _my("bn", "binary(4)"), _my("vb", "varbinary(20)"), _my("bl", "blob"), _my("g", "geometry"), _my("p", "point"),
)  # fmt: skip
REQUIRED = ("bi", "d5", "db", "b5", "da", "dt6", "ts6", "t6", "v", "j", "bn", "g")
# name → the settings, and the columns that they are about
MYSQL_MODES: Mapping[str, tuple[Mapping[str, str], Sequence[str]]] = {
    "defaults": ({}, [column.name for column in MYSQL_COLUMNS]),
    "decimal_string": ({"decimal.handling.mode": "string"}, ["d5", "d18", "d19", "d38", "d65", "biu"]),
    "unsigned_precise": ({"bigint.unsigned.handling.mode": "precise"}, ["biu"]),
    **{
        f"time_{mode}": ({"time.precision.mode": mode}, ["da", "dt", "dt3", "dt6", "ts6", "t", "t6", "y"])
        for mode in ("adaptive", "connect", "isostring", "microseconds", "nanoseconds")
    },
    **{
        f"binary_{mode}": ({"binary.handling.mode": mode}, ["bn", "vb", "bl", "b5", "g"])
        for mode in ("base64", "base64-url-safe", "hex")
    },
}


def _pg(name: str, kind: str, modifier: int = -1, **more: Any) -> Column:
    return column_of(PgColumn(name, 1, kind, kind, modifier=modifier, **more))


def _digits(precision: int, scale: int) -> int:
    return ((precision << 16) | scale) + 4


POSTGRES_COLUMNS: Sequence[Column] = (
    *(_pg(kind, kind) for kind in (
        "int2", "int4", "int8", "oid", "bool", "money", "float4", "float8", "date", "time", "timestamp", "timestamptz", "text",
        "varchar", "bpchar", "uuid", "json", "jsonb", "xml", "inet", "bytea", "hstore",
    )),
    _pg("n5", "numeric", _digits(5, 2)), _pg("n38", "numeric", _digits(38, 10)), _pg("n60", "numeric", _digits(60, 30)),
    _pg("n", "numeric"), _pg("time3", "time", 3), _pg("timestamp3", "timestamp", 3), _pg("bit1", "bit", 1), _pg("bit12", "bit", 12),
    _pg("bit64", "bit", 64), _pg("interval", "interval"),
    _pg("ai", "_int4", element="int4", element_schema="pg_catalog", element_kind="b"),
    _pg("at", "_text", element="text", element_schema="pg_catalog", element_kind="b"),
)  # fmt: skip
POSTGRES_MODES: Mapping[str, tuple[Mapping[str, str], Sequence[str]]] = {
    "defaults": ({}, [column.name for column in POSTGRES_COLUMNS]),
    "strings": (
        {"decimal.handling.mode": "string", "interval.handling.mode": "string", "binary.handling.mode": "hex"},
        ["n5", "n38", "n60", "n", "money", "interval", "bytea"],
    ),
    "url_safe": ({"binary.handling.mode": "base64-url-safe"}, ["bytea"]),
    "micros": ({"time.precision.mode": "microseconds"}, ["time", "time3", "timestamp3", "date"]),
    "adaptive_micros": ({"time.precision.mode": "adaptive_time_microseconds"}, ["time", "time3", "timestamp3"]),
}


def values_scene(
    kind: str, mode: str, config: Mapping[str, str], columns: Sequence[Column], *, required: bool = False
) -> tuple[Scene, dict[str, str]]:
    """Every text in every column at once, a record a text; and the columns that these modes cannot carry, with the reason."""
    key = _my("id", "bigint", nullable=False) if kind != "postgres" else _pg("id", "int8", nullable=False)
    values = Scene("", kind, Table("shop", "every", (key,)), (), config).settings.values
    refused, carried = {}, [key]
    for column in columns:
        try:
            values.check_table(Table("shop", "every", (key, column), ("id",)))
            carried.append(replace(column, nullable=not required))
        except SchemaError as error:
            refused[column.name] = str(error)
    numbered = tuple(replace(column, ordinal=at) for at, column in enumerate(carried, 1))
    table, names = Table("shop", "every", numbered, ("id",)), [column.name for column in carried[1:]]
    records = []
    for at, text in enumerate(TEXTS):
        fields = "".join(f',"{name}":{text}' for name in names)
        source = json.dumps(SOURCES[kind](table, at))
        event = f'{{"before":null,"after":{{"id":{at}{fields}}},"source":{source},"op":"c","ts_ms":1}}'
        records.append(RawRecord(0, at, f'{{"id":{at}}}'.encode(), event.encode()))
    return Scene(f"{kind}_values_{mode}", kind, table, records, config), refused


def value_scenes() -> Iterator[tuple[Scene, dict[str, str]]]:
    for kind, every, modes in (
        ("mysql", MYSQL_COLUMNS, MYSQL_MODES),
        ("postgres", POSTGRES_COLUMNS, POSTGRES_MODES),
    ):
        by_name = {column.name: column for column in every}
        for mode, (config, names) in modes.items():
            yield values_scene(kind, mode, config, [by_name[name] for name in names])
        if kind == "mysql":
            yield values_scene(kind, "required", {}, [by_name[name] for name in REQUIRED], required=True)


# --- records -------------------------------------------------------------------------------------------------------------

PG_ITEMS = Table(
    "shop",
    "items",
    tuple(
        replace(_pg(name, kind, nullable=name != "id"), ordinal=at)
        for at, (name, kind) in enumerate({"id": "int8", "name": "text", "qty": "int4"}.items(), 1)
    ),
    ("id",),
)
ONE, TWO = {"id": 1, "name": "é", "qty": 5}, {"id": 1, "name": "b", "qty": None}
ODD_NAMES = ('a"b', "c\\d", "e\nf", "G", "g")
ODDLY = Table(
    "shop",
    "oddly",
    (
        _my("id", "bigint", nullable=False),
        *(replace(_my(name, "int"), ordinal=at) for at, name in enumerate(ODD_NAMES, 2)),
    ),
    ("id",),
)
ENVELOPED = Table(
    "shop",
    "items",
    tuple(replace(_my(name, "int", nullable=False), ordinal=at) for at, name in enumerate(("schema", "payload"), 1)),
    ("schema", "payload"),
)


@dataclass
class Written:
    """Records being written, one offset after the other."""

    kind: str
    table: Table
    wrapped: bool = False
    records: list[RawRecord] = field(default_factory=list)

    def raw(self, key: bytes | None, value: bytes | None) -> None:
        self.records.append(RawRecord(0, len(self.records), key, value))

    def event(
        self, op: Any, before: Any, after: Any, source: Mapping[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        block = {**SOURCES[self.kind](self.table, len(self.records)), **(source or {})}
        return {"before": before, "after": after, "source": block, "op": op, "ts_ms": TS_MS, **more}

    def key(self, **values: Any) -> bytes | None:
        if not self.table.key:
            return None
        return self.text(values or {name: ONE.get(name, 1) for name in self.table.key})

    def text(self, value: Any) -> bytes:
        return json.dumps(
            {"schema": {"type": "struct", "fields": []}, "payload": value} if self.wrapped else value
        ).encode()

    def send(self, op: Any, before: Any, after: Any, source: Mapping[str, Any] | None = None, **more: Any) -> None:
        self.raw(self.key(), self.text(self.event(op, before, after, source, **more)))


def every_form(
    kind: str, table: Table, one: dict[str, Any], two: dict[str, Any], *, wrapped: bool = False
) -> Sequence[RawRecord]:
    """Every operation, and every way in which a record can be wrong."""
    out = Written(kind, table, wrapped)
    operations(out, one, two)
    shapes(out, one, two)
    texts(out, one)
    keys(out, one)
    blocks(out, one)
    return out.records


def operations(out: Written, one: dict[str, Any], two: dict[str, Any]) -> None:
    for op, before, after in (
        ("c", None, one), ("u", one, two), ("u", None, two), ("d", one, None), ("d", None, None), ("d", one, one), ("r", None, one), ("t", None, None),
        ("c", one, one), ("c", None, None), ("u", one, None), ("r", None, None), ("t", one, one), ("c", {}, one), ("u", {}, one), ("d", {}, None), ("c", None, {}),
    ):  # fmt: skip
        out.send(op, before, after)
    out.raw(out.key(), None)
    out.raw(None, None)
    for op in OPS:
        out.send(op, None, one)
    for snapshot in (
        "true",
        "first",
        "first_in_data_collection",
        "last",
        "false",
        "incremental",
        "",
        True,
        False,
        None,
        7,
    ):
        out.send("r", None, one, {"snapshot": snapshot})
    numbers: tuple[Any, ...] = (1, "2", None, 2**31, {})
    for number in numbers:
        out.send("c", None, one, transaction={"id": "t", "total_order": number, "data_collection_order": 1})


def shapes(out: Written, one: dict[str, Any], two: dict[str, Any]) -> None:
    for odd in ODD:
        if not (isinstance(odd, str) and len(odd) > 1000):
            out.send("c", None, odd)
            out.send("u", odd, one)
            for name in one:
                out.send("c", None, {**one, name: odd})
                out.send("u", {**one, name: odd}, two)
    for name in one:
        out.send("c", None, {key: value for key, value in one.items() if key != name})
        out.send("u", {key: value for key, value in one.items() if key != name}, one)
    out.send("c", None, {**one, "more": 1})
    out.send("u", {**one, "more": 1, "most": None}, one)
    out.send("d", {**one, "more": 1}, None)
    out.send("c", None, {**one, "more": None, "x'y": {}})
    event = out.event("c", None, one)
    for gone in event:
        out.raw(out.key(), out.text({name: value for name, value in event.items() if name != gone}))
    out.raw(out.key(), out.text({**event, "more": [1]}))
    for value in (
        {"payload": None},
        {"payload": event, "op": "d"},
        {"payload": 7},
        {**event, "payload": None},
        {"schema": None, "payload": event},
    ):
        out.raw(out.key(), json.dumps(value).encode())


def texts(out: Written, one: dict[str, Any]) -> None:
    """Values that are no JSON, or hardly."""
    good = out.text(out.event("c", None, one))
    name = b'"%s": ' % list(one)[-1].encode()
    for value in (
        b"", b" ", b"nothing of the kind", b"null", b"[]", b"7", b'"x"', b"{}", good[: len(good) // 2], good + b"x", good + good, b" " + good + b"\n",
        b"\xef\xbb\xbf" + good, b"\xff\xfe" + good, good.replace(b'"op"', b'"op": "d", "op"'), good.replace(name, name + b"1, " + name),
        good.replace(name, name + b'1e400, "z": '), good.replace(name + b"5", name + b"NaN"), good.replace(name + b"5", name + b"5.0"),
        good.replace(name + b"5", name + b"05"), good.replace(name + b"5", name + b"+5"), good.replace(name + b"5", name + b"-0"),
        good.replace(b"\\u00e9", b"\xc3\xa9"), good.replace(b"\\u00e9", b"\xe9"), good.replace(b"\\u00e9", b"\\ud83d"), good.replace(b"\\u00e9", b"\x01"),
        good.replace(b"\\u00e9", b"\\q"), good.replace(b"\\u00e9", b"\\u0000"), good.replace(b"\\u00e9", b"\xed\xa0\xbd"),
        good.replace(b'"before": null', b'"before": {"name": "\xe9"}'), good.replace(b'"before": null', b'"before": {"name": "\\ud83d"}'),
        good.replace(b'"before": null', b'"before": {"qty": 1e400}'), good.replace(b'"before": null', b'"before": 7'), good.replace(b'"', b"'"),
        good.replace(b"}", b",}"), b"// c\n" + good,
    ):  # fmt: skip
        out.raw(out.key(), value)


def keys(out: Written, one: dict[str, Any]) -> None:
    if not out.table.key:
        out.raw(b'{"id": 1}', out.text(out.event("c", None, one)))
        out.raw(b"\xff", out.text(out.event("c", None, one)))
        return
    good = {name: one[name] for name in out.table.key}
    first = next(iter(good))
    for key in (
        None, b"", b"\xff\xfe", b"{", b"[1]", b"7", b"null", b"{}", json.dumps({**good, first: "x"}).encode(), json.dumps({**good, first: "7"}).encode(),
        json.dumps({**good, first: None}).encode(), json.dumps({**good, first: 1.0}).encode(), json.dumps({**good, first: 10**30}).encode(),
        json.dumps({**good, "more": 1}).encode(), json.dumps({"schema": {"type": "struct"}, "payload": good}).encode(),
        json.dumps({"schema": {"type": "int64"}, "payload": 7}).encode(), json.dumps({"schema": None, "payload": good}).encode(),
        json.dumps({"payload": good}).encode(), json.dumps(good).encode() + b"x", b'{"%s": 1, "%s": 2}' % (first.encode(), first.encode()),
    ):  # fmt: skip
        out.raw(key, out.text(out.event("u", one, one)))
        out.raw(key, None)


def blocks(out: Written, one: dict[str, Any]) -> None:
    """The `source` of an event, damaged field by field."""
    for name in SOURCES[out.kind](out.table, 0):
        for odd in (
            *(odd for odd in ODD if not (isinstance(odd, str) and len(odd) > 1000)),
            "a.b",
            ".",
            "x.000007",
            "u:5",
            "0-1-x",
            '["7"]',
        ):
            if name in {"version", "connector"} and not isinstance(odd, dict):
                continue
            out.send("c", None, one, {name: odd})
        event = out.event("c", None, one)
        event["source"] = {key: value for key, value in event["source"].items() if key != name}
        out.raw(out.key(), out.text(event))
    out.send("c", None, one, {"table": "others"})
    out.send("c", None, {"other": 1}, {"table": "others"})
    out.send("nonsense", None, 7, {"table": "others"})


def fuzzed(kind: str, table: Table, one: dict[str, Any], seed: int, number: int) -> Sequence[RawRecord]:
    """Bytes changed at random."""
    rng, out = random.Random(seed), Written(kind, table)
    for _ in range(number):
        good = bytearray(out.text(out.event(rng.choice("cud"), one, one)))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(good))
            good[at : at + rng.randrange(3)] = bytes(
                rng.choice(b'{}[]",:0123456789\\ntfu\xff.eE-') for _ in range(rng.randrange(3))
            )
        out.raw(out.key(), bytes(good))
    return out.records


def record_scenes() -> Iterator[Scene]:
    for kind in CLASSES:
        items = PG_ITEMS if kind == "postgres" else ITEMS
        more = {"provide.transaction.metadata": "true"} if kind == "postgres" else {}
        events = replace(items, name="events", key=()) if kind == "postgres" else EVENTS
        one = ONE if kind == "postgres" else {"kind": "é", "n": 5}
        two = TWO if kind == "postgres" else {"kind": "b", "n": None}
        yield Scene(f"{kind}_keyed", kind, items, every_form(kind, items, ONE, TWO))
        if kind == "mariadb":  # MySQL's, but for the GTIDs
            continue
        yield Scene(f"{kind}_keyed_before", kind, items, every_form(kind, items, ONE, TWO), before=True)
        wrapped = {"value.converter.schemas.enable": "true"}
        yield Scene(f"{kind}_wrapped", kind, items, every_form(kind, items, ONE, TWO, wrapped=True), wrapped)
        yield Scene(f"{kind}_keyless", kind, events, every_form(kind, events, one, two), more, before=True)
        yield Scene(f"{kind}_fuzzed", kind, items, fuzzed(kind, items, ONE, 20261127, 400))
    oddly = {name: at for at, name in enumerate(("id", *ODD_NAMES), 1)}
    yield Scene("mysql_odd_names", "mysql", ODDLY, every_form("mysql", ODDLY, oddly, {**oddly, "G": None}), before=True)
    for name, value in (("unseen", ""), ("true", "true"), ("false", "false")):
        config = {"key.converter": CONFIG["value.converter"], "key.converter.schemas.enable": value} if value else {}
        pair = {"schema": 1, "payload": 2}
        yield Scene(
            f"mysql_key_of_schema_and_payload_{name}",
            "mysql",
            ENVELOPED,
            every_form("mysql", ENVELOPED, pair, pair),
            config,
        )
