"""Keys and values in each wire format, as real connectors sent them, and what is computed from their texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare.canonical import parse_key_text
from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.events.record import Headers, Ids, Unreadable
from airflow_cdc.events.value import Shape
from airflow_cdc.events.wire import Read
from airflow_cdc.events.wire import json as wire_json
from airflow_cdc.events.wire.avro import Avro
from airflow_cdc.events.wire.decimals import is_shortest, scaled
from airflow_cdc.events.wire.ids import Framing
from airflow_cdc.events.wire.json import Json, JsonSchema
from tests.contract.test_wires import AVRO, PROTOBUF, any_wiring, change_shape, schemas, wiring
from tests.fuzz.mutate import blobs, json_bytes, json_texts, texts
from tests.fuzz.parser import Parser
from tests.unit.tables import column, table
from tests.wires import names, recording

FRAMED = JsonSchema(Framing(Ids.CONFLUENT, "value"))
KEY_TABLE = table(
    column("id", "bigint"),
    column("name", "varchar(40)", char_length=40, charset="utf8mb4"),
    column("at", "datetime(6)"),
    column("n", "decimal(10,2)", precision=10, scale=2),
    key=("id", "name", "at", "n"),
)
KEY_TEXT = "1|5:a|b😀|1700000000000000|1.50"


def _samples(name: str) -> list[bytes]:
    """The values of a recording, the largest left out."""
    every = (one.value for ones in recording(name).records.values() for one in ones)
    return [one for one in every if one is not None and len(one) < 20_000][:40]


def _block(name: str) -> Any:
    """The schema block of the same connector's JSON, of the table with every type."""
    same = f"{name.partition('-')[0]}-json{'-string' if name.endswith('string') else ''}"
    value = next(one.value for one in recording(same).records["every"] if one.value)
    return json.loads(value)["schema"]


def _slow(wire: Json, shape: Shape) -> Read:
    with patch.object(wire_json, "msgspec", None):
        return wire.reader(shape, {})


def _of_wires() -> Iterator[Parser]:
    for name in AVRO:
        shape, avro = change_shape(_block(name), name), wiring(name, "value")
        headers = next(one.headers for one in recording(name).records["every"] if one.value)
        yield _event(name, avro.reader(shape, schemas(name)), blobs(*_samples(name)), headers)
    for name in PROTOBUF:
        reader = any_wiring(name, "value").reader(change_shape(_block(name), name), schemas(name))
        yield _event(name, reader, blobs(*_samples(name)))
    for name in names("-json"):
        shape, wire = change_shape(_block(name), name), Json(wrapped=True)
        values = json_bytes(*[json.loads(one) for one in _samples(name)][:8])
        yield _event(name, wire.reader(shape, {}), values)
        yield _event(f"{name}, standard library", _slow(wire, shape), values)
    framed = b"\0\0\0\0\7" + json.dumps(json.loads(_samples("mysql-json")[0])["payload"]).encode()
    shape = change_shape(_block("mysql-json"), "mysql-json")
    yield _event("JSON Schema", FRAMED.reader(shape, {}), blobs(framed))


def _event(name: str, read: Read, inputs: st.SearchStrategy[bytes], headers: Headers = ()) -> Parser:
    return Parser(f"event: {name}", lambda data: read(data, headers), inputs, (Unreadable,))


def _avro_schema(text: str) -> object:
    """A schema of the registry, read with a message of another."""
    name = AVRO[0]
    one = next(one for one in recording(name).records["every"] if one.value)
    texts_by_id = dict.fromkeys(schemas(name), text)
    wire = wiring(name, "value")
    assert isinstance(wire, Avro)
    return wire.reader(change_shape(_block(name), name), texts_by_id)(one.value or b"", one.headers)


def _protobuf_schema(text: str) -> object:
    """A schema of the registry, read with a message of another."""
    name = PROTOBUF[0]
    one = next(one for one in recording(name).records["t"] if one.value)
    texts_by_id = dict.fromkeys(schemas(name), text)
    return any_wiring(name, "value").reader(change_shape(_block(name), name), texts_by_id)(one.value or b"", ())


def _scaled(data: bytes) -> Decimal:
    return scaled(data, 2) if is_shortest(data) else Decimal()


PARSERS = (
    *_of_wires(),
    Parser(
        "schema of Avro",
        _avro_schema,
        json_texts(*(json.loads(one) for one in schemas(AVRO[0]).values())),
        (Unreadable,),
    ),
    Parser("schema of Protobuf", _protobuf_schema, texts(*schemas(PROTOBUF[0]).values()), (Unreadable,)),
    Parser(
        "JSON text of a column", json_canonical, json_texts({"b": 1.5, "a": [1e2, None, "é"]}, [10**20, -0.0, 1e-300])
    ),
    Parser("decimal in bytes", _scaled, blobs(b"\x01\xf4", b"\xff", b"\x00\x80")),
    Parser("text of a key", lambda text: parse_key_text(KEY_TABLE, text), texts(KEY_TEXT), (SchemaError,)),
)
