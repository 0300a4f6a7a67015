"""What we write of a row of a real PostgreSQL is the record that Debezium's own snapshot writes of it (INV 47).

A table with a column of each type at its edges is snapshotted by two connectors, which send decimals in two ways. Each row is
read as a recovery reads it, and written like the topic's newest record, a streamed change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

import stack
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.events.frame import Standing
from airflow_cdc.events.record import RawRecord
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.adapters.postgres import PostgresReader
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.process import wait_until
from tests.contract.test_encoder import TIMES, event, parts
from tests.contract.test_encoder_postgres import REFUSED
from tests.integration.postgres.support import connector_config, endpoint
from tests.integration.snapshot_records import every_postgres
from tests.integration.wire_records import PLAIN, SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from airflow_cdc.core.table import Table
    from stack.postgres import PostgresServer

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

DATABASE: Final = "encoded"
EVERY: Final = f"{SCHEMA}.every"
ROWS: Final = 6
# how decimals are sent → the declared types that are left out
MODES: Final[Mapping[str, set[str]]] = {"precise": REFUSED | {"numeric"}, "string": REFUSED}
# What is written otherwise than the snapshot writes it, and means the same: column → (the snapshot's, ours). The snapshot moves
# the days that were left out in October 1582, and the log does not. PostgreSQL calls -0 and 0 equal, and we read 0. Of -1e23
# Java 17 writes a digit more than the number needs.
OTHERWISE: Final = {
    "c20": {(b"-141422", b"-141432")},
    "c14": {(b"-0.0", b"0.0")},
    "c13": {(b"-0.0", b"0.0")},
    "f": {(b"-9.999999999999999E22", b"-1.0E23")},
}


@pytest.fixture(scope="module")
def server(running: stack.Stack) -> PostgresServer:
    made = running.postgres["postgres"]
    made.execute(f"CREATE DATABASE {DATABASE}")
    creates, inserts = every_postgres()
    made.execute(
        f"CREATE SCHEMA {SCHEMA}",
        *creates,
        *inserts,
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO cdc, debezium",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {SCHEMA} TO cdc, debezium",
        dbname=DATABASE,
    )
    return made


@pytest.mark.parametrize("mode", MODES)
def test_inv_47_each_row_is_the_record_of_the_connector_s_own_snapshot(
    running: stack.Stack, server: PostgresServer, spark: SparkSession, mode: str
) -> None:
    register_functions(spark)
    source = PostgresSource(endpoint(server, DATABASE))
    whole = source.definitions([EVERY])[EVERY]
    refused = {column.name for column in whole.columns if column.native.type in MODES[mode]}
    table = replace(whole, columns=tuple(one for one in whole.columns if one.name not in refused))
    config, (*snapshot, newest) = followed(running, server, mode, sorted(refused))
    watermark = source.watermark()
    keys = [str(number) for number in range(ROWS)]
    rows = PostgresReader(source).rows_of_keys(spark, table, keys, at=watermark).orderBy("id").toArrow()
    place = Standing({"lsn": 4711}, 1_800_000_000_000_000, watermark.position)
    recorded, compared = {one.key: one for one in snapshot}, 0
    sealed = written(config, table, rows, newest, place)
    assert len(snapshot) == len(sealed) == ROWS
    assert {one.key for one in sealed} == recorded.keys()
    for ours in sealed:
        theirs = recorded[ours.key]
        assert ours.headers == theirs.headers
        assert without_row(ours.value) == without_row(theirs.value)
        mine, own = (parts(event(value)["after"]) for value in (ours.value, theirs.value))
        assert list(mine) == list(own) == [column.name for column in table.columns]
        for name in mine:
            assert is_equal(name, own[name], mine[name]), (name, own[name][:100], mine[name][:100])
            compared += own[name] != b"null"
    assert compared > 130


def followed(
    running: stack.Stack, server: PostgresServer, mode: str, excluded: Sequence[str]
) -> tuple[Mapping[str, str], Sequence[RawRecord]]:
    """A connector's configuration, and its records: a snapshot of all rows, and a change that leaves a long value out."""
    assert running.connect is not None
    assert running.kafka is not None
    name = f"encoded_{mode}"
    server.execute(f"CREATE PUBLICATION {name} FOR TABLE {EVERY}", dbname=DATABASE)
    config = {
        **connector_config(server, name, DATABASE, [EVERY]),
        **PLAIN,
        "decimal.handling.mode": mode,
        "interval.handling.mode": "string",
        "value.converter.replace.null.with.default": "false",
        "column.exclude.list": ",".join(rf"{SCHEMA}\.every\.{column}" for column in excluded),
    }
    running.connect.call("PUT", f"/connectors/{name}/config", config)
    transport = KafkaTransport(KafkaEndpoint(running.kafka.bootstrap))
    try:
        records(transport, name, ROWS)
        server.execute(f"UPDATE {EVERY} SET c0 = c0 WHERE id = 0", dbname=DATABASE)
        return config, records(transport, name, ROWS + 1)
    finally:
        running.connect.call("DELETE", f"/connectors/{name}")


def records(transport: KafkaTransport, name: str, count: int) -> Sequence[RawRecord]:
    """So many records of the topic, once it has them."""
    topic = f"{name}.{EVERY}"

    def there() -> Sequence[RawRecord] | None:
        if topic not in transport.topic_states([topic]):
            return None
        found = [RawRecord(one.partition, one.offset, one.key, one.value, ()) for one in transport.records(topic)]
        return found if len(found) >= count else None

    return wait_until(there, timeout=120, what=f"{count} records of {topic}")


def written(config: Mapping[str, str], table: Table, rows: pa.Table, newest: RawRecord, place: Standing) -> list[Any]:
    events = Events(ConnectorSettings.from_config(config))
    seal = events.sealer(table, newest, place)
    return [record for change in events.encoder(table).changes(rows) for record in seal(change)]


def without_row(value: bytes | None) -> bytes:
    """A record without its row, what it says of times and the log, and the place of a row in its snapshot."""
    whole = value or b""
    row = event(value)["after"]
    assert whole.count(row) == 1
    told = TIMES.sub(rb"\1", whole.replace(row, b"row"))
    return re.sub(rb'"snapshot":"\w+"', b'"snapshot":"true"', told)


def is_equal(column: str, theirs: bytes, ours: bytes) -> bool:
    """Byte by byte, but for OTHERWISE and the order of an hstore's keys."""
    if column == "h" and ours != b"null":
        return bool(json.loads(json.loads(ours)) == json.loads(json.loads(theirs)))
    return ours == theirs or (theirs, ours) in OTHERWISE.get(column, ())
