"""A real registry that goes down in the middle of an apply, does not know a schema, or wants a login: records of a real connector.

The records are those of tests/data/wires, in Confluent's format. A registry numbers what it is given from 1 on, so one that was given
other schemas in between has each schema under the number that the records name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.errors import TransportError
from airflow_cdc.events.record import SchemaId
from airflow_cdc.sinks.iceberg import dead_letters
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.apply.batch import apply_batch
from airflow_cdc.spark_apps.events import RAW_HEADERS, RAW_SCHEMA
from airflow_cdc.transports.kafka.registry import RegistryEndpoint, SchemaRegistry
from airflow_cdc.transports.kafka.wire import Record
from stack.process import end
from stack.registry import Registry, start_registry
from tests.apply_support import Bench, Topic, column, stamp_at, table
from tests.wires import recording

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.spark_apps.apply.context import ApplyContext
    from airflow_cdc.spark_apps.ports import Bounds, Ranges

FORM: Final = recording("mysql-avro-confluent")
RECORDS: Final = FORM.records["t"]
# the schemas of t's rows, in the order in which its records name them first
OF_ROWS: Final = (30, 36, 56, 70)
COLUMNS: Final = (column("id", "int", nullable=False), column("v", "varchar(10)"), column("n", "decimal(12,2)"), column("more", "int"))  # fmt: skip
T: Final = replace(table("t", COLUMNS, ("id",)), schema="wires")
# of `more` this converter writes the default where a row holds NULL
APPLIED: Final = [
    (1, None, Decimal("1.10"), 8),
    (2, "b", Decimal("-0.01"), None),
    (40, None, Decimal("4.00"), 7),
    (5, "e", Decimal("1234567890.12"), 5),
    (999, None, None, 7),
]
LOGIN: Final = ("reader", "s3cret of the registry")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(scope="module")
def schemas(folder: Path) -> Iterator[Registry]:
    """A registry that knows every schema of the records."""
    started = start_registry(folder / "r", folder)
    give(started.url, 1, max(OF_ROWS))
    yield started
    end(started.child)


@pytest.fixture
def bench(spark: SparkSession, lake_properties: dict[str, str]) -> Bench:
    return Bench(spark, Lake("lake", lake_properties))


def give(url: str, first: int, last: int) -> None:
    """Give a registry that has numbers below `first` its schemas up to this number: those of the records, and others."""
    with httpx.Client(timeout=30.0) as client:
        for number in range(first, last + 1):
            other = {"type": "record", "name": f"Other{number}", "fields": []}
            headers = {"X-Registry-ArtifactType": "AVRO", "X-Registry-ArtifactId": f"a{number}"}
            text = json.dumps(FORM.schemas.get(f"contentId:{number}", other))
            answer = client.post(f"{url}/groups/default/artifacts", content=text, headers=headers)
            assert (answer.status_code, answer.json()["contentId"]) == (200, number)


def asked_of(url: str, **more: Any) -> SchemaRegistry:
    """The product's own client, of a patience that suits a test."""
    return SchemaRegistry(RegistryEndpoint(url, retry_for=1.0, timeout=5.0, **more))


class OnceOnly(SchemaRegistry):
    """Between its first answer and the next question the registry ends."""

    def __init__(self, running: Registry) -> None:
        super().__init__(RegistryEndpoint(running.url, retry_for=1.0, timeout=5.0))
        self.running, self.answered = running, list[SchemaId]()

    def _asked(self, schema: SchemaId) -> str | None:
        text = super()._asked(schema)
        self.answered.append(schema)
        end(self.running.child)
        return text


def topic() -> Topic:
    return Topic(T, name=SETTINGS.topic_of(T.full_name), ends={0: len(RECORDS)})


SETTINGS: Final = ConnectorSettings.from_config(
    {**FORM.settings, **{f"{side}.converter.apicurio.registry.url": "http://localhost:1" for side in ("key", "value")}}
)


def context(bench: Bench, made: Topic, registry: SchemaRegistry, *, in_memory: bool) -> ApplyContext:
    """A context whose topic holds the records of t. `in_memory`: they are applied without Spark."""

    def read(spark: SparkSession, ranges: Ranges) -> DataFrame:
        low, high = ranges.get(made.name, {}).get(0, (0, 0))
        rows: list[tuple[Any, ...]] = [
            (made.name, 0, one.offset, one.key and bytearray(one.key), one.value and bytearray(one.value), [])
            for one in RECORDS
            if low <= one.offset < high
        ]
        return spark.createDataFrame(rows, f"{RAW_SCHEMA}, {RAW_HEADERS}")

    def few(_topic: str, bounds: Bounds, _most: int) -> list[Record]:
        low, high = bounds.get(0, (0, 0))
        return [Record(0, one.offset, one.key, one.value) for one in RECORDS if low <= one.offset < high]

    made_so = bench.context([made])
    return replace(made_so, read=read, few=few if in_memory else None, events=Events(SETTINGS, registry.texts))


@dataclass(frozen=True, slots=True)
class Sink:
    """One table to apply to."""

    bench: Bench
    target: Any
    topic: Topic

    @classmethod
    def of(cls, bench: Bench) -> Sink:
        bench.lake.ensure_table(
            dead_letters.NAMESPACE, dead_letters.table_name(bench.pipeline), dead_letters.COLUMNS, format_version=2
        )
        made = topic()
        return cls(bench, bench.target(T, stamp_at(made)), made)

    def apply(self, registry: SchemaRegistry, *, in_memory: bool) -> None:
        apply_batch(context(self.bench, self.topic, registry, in_memory=in_memory), [self.target], self.topic.upto)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return self.bench.rows(self.target.stage)

    @property
    def letters(self) -> list[Any]:
        return list(dead_letters.unresolved(self.bench.lake, self.bench.pipeline))


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize(
    "in_memory", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["in the process", "by Spark"]
)
def test_a_registry_that_goes_down_in_the_middle_loses_nothing_and_the_next_run_applies_all(
    bench: Bench, folder: Path, tmp_path: Path, *, in_memory: bool
) -> None:
    running = start_registry(folder / "r", tmp_path)
    sink, port = Sink.of(bench), int(running.url.split(":")[2].split("/")[0])
    give(running.url, 1, max(OF_ROWS))
    registry = OnceOnly(running)

    with pytest.raises(TransportError, match="the schema registry did not answer") as said:
        sink.apply(registry, in_memory=in_memory)

    assert len(registry.answered) == 1
    assert f"127.0.0.1:{port}" in str(said.value)
    assert (sink.rows, sink.letters) == ([], [])

    again = start_registry(folder / "r", tmp_path, port=port)
    try:
        give(again.url, 1, max(OF_ROWS))
        sink.apply(asked_of(again.url), in_memory=in_memory)
    finally:
        end(again.child)
    assert sink.rows == in_order(APPLIED)
    assert sink.letters == []


def test_records_of_schemas_that_the_registry_does_not_know_are_letters_that_name_them(
    bench: Bench, folder: Path, tmp_path: Path
) -> None:
    """A registry of before the last schemas, as one that lost a part of its storage. In the process, and by Spark."""
    running = start_registry(folder / "r", tmp_path)
    sinks = [Sink.of(bench), Sink.of(replace(bench, namespace=f"{bench.namespace}_2", pipeline=f"{bench.pipeline}_2"))]
    try:
        give(running.url, 1, OF_ROWS[1])
        for sink, in_memory in zip(sinks, (True, False), strict=True):
            sink.apply(asked_of(running.url), in_memory=in_memory)
    finally:
        end(running.child)
    names = {one.offset: int.from_bytes((one.value or b"")[1:5]) for one in RECORDS if one.value}
    unknown = {offset: number for offset, number in names.items() if number in OF_ROWS[2:]}
    assert len(unknown) == 5
    for sink in sinks:  # row 4 is gone: its key's tombstone can be read, although the delete before it can't
        assert sink.rows == [(1, "a", Decimal("1.10"), None), APPLIED[1]]
        assert {letter.offset for letter in sink.letters} == unknown.keys()
        for letter in sink.letters:
            said = f"the registry does not know the schema of the value, contentId {unknown[letter.offset]}"
            assert said in letter.reason


class Doorman(BaseHTTPRequestHandler):
    """Lets nobody through to the registry without the login: what stands before one that has none of its own."""

    behind = ""
    turned_away: Final = list[str]()

    def do_GET(self) -> None:
        shown = self.headers.get("Authorization", "")
        if shown != f"Basic {base64.b64encode(':'.join(LOGIN).encode()).decode()}":
            self.turned_away.append(shown)
            self.send_error(401)
            return
        answer = httpx.get(f"{self.behind}{self.path}", timeout=10.0)
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers["content-type"])
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def guarded(schemas: Registry) -> Iterator[str]:
    """The registry's address behind the doorman."""
    Doorman.behind = schemas.url.removesuffix("/apis/registry/v2")
    with ThreadingHTTPServer(("127.0.0.1", 0), Doorman) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/apis/registry/v2"
        server.shutdown()


def test_a_registry_that_wants_a_login_gets_the_connectors_and_says_nothing_of_it(bench: Bench, guarded: str) -> None:
    sink = Sink.of(bench)
    for user, password in (("", ""), (LOGIN[0], "another s3cret")):
        with pytest.raises(TransportError, match=r"refused the login \(HTTP 401\)") as said:
            sink.apply(asked_of(guarded, user=user, password=password), in_memory=True)
        assert "s3cret" not in str(said.value)
        assert (sink.rows, sink.letters) == ([], [])

    login = {"apicurio.registry.url": guarded, "apicurio.auth.username": LOGIN[0], "apicurio.auth.password": LOGIN[1]}
    own = {f"{side}.converter.{name}": value for side in ("key", "value") for name, value in login.items()}
    told = ConnectorSettings.from_config({**FORM.settings, **own}).registry
    assert told is not None
    sink.apply(asked_of(told.url, user=told.user, password=told.password), in_memory=True)
    assert sink.rows == in_order(APPLIED)
