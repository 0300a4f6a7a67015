"""What Debezium writes for every type, decoded, is the row that MySQL holds, hash by hash."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import Json
from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.sources.mysql.encoding import row_hash as mysql_row_hash
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.spark_apps.adapters.debezium import Events
from airflow_cdc.spark_apps.adapters.kafka import read_topics
from airflow_cdc.spark_apps.adapters.mysql import MySqlLog
from airflow_cdc.spark_apps.apply.counts import read_change
from airflow_cdc.spark_apps.canonical.spark import row_hash as spark_row_hash
from airflow_cdc.spark_apps.compare import tail
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.types import arrow_rows
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.process import wait_until
from stack.rest import RestError
from tests.apply_support import CONFIG
from tests.integration.every_type import LOAD_MODE, create_sql, insert_sql, row_count, row_id
from tests.integration.test_encoding_agrees import NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stack.connect import ConnectWorker
    from stack.mysql import MySqlServer

VALUE_MODES = {
    "defaults": {},
    "strings": {
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "hex",
    },
    "url_safe": {"binary.handling.mode": "base64-url-safe", "decimal.handling.mode": "string"},
}
TIME_MODES = ("connect", "isostring", "microseconds", "nanoseconds")
CLOCK = {
    "da": ("date", "'0001-01-01'", "'9999-12-31'", "'1969-12-31'"),
    "dt3": ("datetime(3)", "'1582-10-10 01:02:03.004'", "'9999-12-31 23:59:59.999'", "'1970-01-01'"),
    "ti": ("time(3)", "'00:00:00.001'", "'23:59:59.999'", "'12:00:00'"),
    "ts": ("timestamp(6) NULL", "'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'", "'2021-10-31 01:30'"),
}
# decimals that come back from doubles: with 15 digits and fewer
DIGITS = {
    "a": ("decimal(15,0)", "999999999999999", "-999999999999999", "NULL"),
    "b": ("decimal(15,15)", "0.999999999999999", "-0.000000000000001", "0"),
    "c": ("decimal(15,6)", "999999999.999999", "-123456789.100001", "0.1"),
    "d": ("decimal(9,2)", "9999999.99", "-0.01", "0.29"),
}
REFUSED = {"connect": {"ti"}, "isostring": {"ti"}, "nanoseconds": {"dt3"}}


class Captured:
    """A database that one connector per set of modes follows from before its first row."""

    def __init__(self, server: MySqlServer, worker: ConnectWorker, kafka: str, spark: SparkSession) -> None:
        self.server, self.worker, self.kafka, self.spark = server, worker, kafka, spark
        self.schema = f"ev_{uuid.uuid4().hex[:6]}"
        self.connectors: dict[str, Mapping[str, str]] = {}

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [LOAD_MODE])
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
            connection.commit()
        return rows

    def table(self, name: str) -> Table:
        with closing(self.server.connect()) as connection:
            return read_table_defs(connection, [f"{self.schema}.{name}"])[f"{self.schema}.{name}"]

    def follow(self, name: str, table: str, modes: Mapping[str, str], columns: str = "") -> None:
        """Start a connector on one table, from here on."""
        connector = f"{self.schema}_{name}"
        config = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": self.server.debezium.user,
            "database.password": self.server.debezium.password,
            "database.server.id": str(70000 + int(uuid.uuid4().hex[:5], 16)),
            "database.include.list": self.schema,
            "table.include.list": f"{self.schema}.{table}",
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
            "topic.prefix": connector,
            "snapshot.mode": "no_data",
            "schema.history.internal.kafka.bootstrap.servers": self.kafka,
            "schema.history.internal.kafka.topic": f"history-{connector}",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "value.converter.replace.null.with.default": "false",
            "enable.time.adjuster": "false",  # it makes 2001 of the year 1
            **({"column.include.list": columns} if columns else {}),
            **modes,
        }
        self.worker.call("PUT", f"/connectors/{connector}/config", config)
        self.connectors[connector] = modes

    def wait_streaming(self) -> None:
        for connector in self.connectors:
            wait_until(partial(self._offset, connector), timeout=120, what=f"{connector} has a position")

    def _offset(self, connector: str) -> bool | None:
        try:
            status = self.worker.call("GET", f"/connectors/{connector}/status")
        except RestError as error:
            if error.status == 404:  # just made: its status is not there yet
                return None
            raise
        failed = [task["trace"] for task in status["tasks"] if task["state"] == "FAILED"]
        if failed:
            raise AssertionError(failed[0][:2000])
        return True if self.worker.call("GET", f"/connectors/{connector}/offsets")["offsets"] else None

    def events(self, name: str) -> Events:
        """The decoder of a connector's events."""
        connector = f"{self.schema}_{name}"
        config = {
            **CONFIG,
            "topic.prefix": connector,
            "database.include.list": self.schema,
            **self.connectors[connector],
        }
        return Events(ConnectorSettings.from_config(config))

    def rows(self, name: str, table: Table, count: int) -> DataFrame:
        """The rows after the events of a table, decoded with Spark."""
        topic = self.topic(name, table)
        wait_until(
            lambda: self._records(topic) >= count or None, timeout=120, interval=1, what=f"{count} events in {topic}"
        )
        raw = read_topics(self.spark, KafkaEndpoint(self.kafka), {topic: self._states(topic)})
        decoded = self.events(name).decode(raw, table, ("after",)).localCheckpoint()
        assert decoded.where("cdc.bad IS NOT NULL OR cdc.unknown IS NOT NULL").select("cdc").collect() == []
        return decoded.where("after IS NOT NULL").select("after.*")

    def topic(self, name: str, table: Table) -> str:
        return f"{self.schema}_{name}.{table.full_name}"

    def _states(self, topic: str) -> Mapping[int, tuple[int, int]]:
        states = KafkaTransport(KafkaEndpoint(self.kafka)).topic_states([topic])
        return states[topic].partitions if topic in states else {}

    def _records(self, topic: str) -> int:
        """Records of a topic that may not be there yet: Spark would fail on it."""
        return sum(last for _, last in self._states(topic).values())


@pytest.fixture(scope="module")
def captured(mysql: MySqlServer, connect_worker: ConnectWorker, kafka: str, spark: SparkSession) -> Iterator[Captured]:
    register_functions(spark)
    made = Captured(mysql, connect_worker, kafka, spark)
    digits = ", ".join(f"{name} {kind}" for name, (kind, *_) in DIGITS.items())
    clock = ", ".join(f"{name} {kind}" for name, (kind, *_) in CLOCK.items())
    made.run(
        f"CREATE DATABASE {made.schema}",
        create_sql(f"{made.schema}.every"),
        f"CREATE TABLE {made.schema}.clock (id int PRIMARY KEY, {clock})",
        f"CREATE TABLE {made.schema}.digits (k decimal(4,2) PRIMARY KEY, {digits})",
    )
    made.follow("double", "digits", {"decimal.handling.mode": "double"})
    for name, modes in VALUE_MODES.items():
        made.follow(name, "every", modes)
    for mode in TIME_MODES:
        kept = [c for c in ("id", *CLOCK) if c not in REFUSED.get(mode, ())]
        columns = ",".join(f"{made.schema}.clock.{c}" for c in kept)
        made.follow(mode, "clock", {"time.precision.mode": mode}, columns)
    made.wait_streaming()
    made.run(*insert_sql(f"{made.schema}.every", real_days=True))
    rows = [[values[at] for values in CLOCK.values()] for at in (1, 2, 3)]
    made.run(*(f"INSERT INTO {made.schema}.clock VALUES ({i}, {', '.join(row)})" for i, row in enumerate(rows)))
    numbers = [[values[at] for values in DIGITS.values()] for at in (1, 2, 3)]
    made.run(*(f"INSERT INTO {made.schema}.digits VALUES ({i}.07, {', '.join(row)})" for i, row in enumerate(numbers)))
    yield made
    for connector in made.connectors:
        connect_worker.call("DELETE", f"/connectors/{connector}")
    made.run(f"DROP DATABASE {made.schema}")


@pytest.mark.parametrize("name", VALUE_MODES)
def test_events_decode_to_the_row(captured: Captured, name: str) -> None:
    table = captured.table("every")
    frame = captured.rows(name, table, row_count())
    frame.createOrReplaceTempView("events")
    ours = dict(captured.spark.sql(f"SELECT id, {spark_row_hash(table)} FROM events").collect())
    theirs = dict(captured.run(f"SELECT id, {mysql_row_hash(table)} FROM {quote_table(table)}"))
    assert ours == theirs, differing_columns(captured, table, "events")
    generated = captured.run(f"SELECT id, gv, gs FROM {quote_table(table)}")
    assert {tuple(row) for row in frame.select("id", "gv", "gs").collect()} == set(generated)
    stored = captured.run(f"SELECT id, CAST(j AS CHAR) FROM {quote_table(table)}")
    wanted = {i: None if j is None else json_canonical(j) for i, j in stored}
    arrived = {row["id"]: row["j"] for row in frame.select("id", "j").collect()}
    assert arrived == wanted
    assert [arrived[row_id(number)] for number in (4, 5, 6)] == NUMBERS


def differing_columns(captured: Captured, table: Table, view: str) -> list[str]:
    """Which columns are to blame: each hashed alone."""
    found = []
    for column in table.compared:
        if isinstance(column.type, Json):
            continue
        alone = Table(table.schema, table.name, (column,))
        ours = dict(captured.spark.sql(f"SELECT id, {spark_row_hash(alone)} FROM {view}").collect())
        theirs = dict(captured.run(f"SELECT id, {mysql_row_hash(alone)} FROM {quote_table(table)}"))
        if bad := [i for i in theirs if theirs[i] != ours.get(i)]:
            rows = dict(captured.run(f"SELECT id, CAST({quote_ident(column.name)} AS CHAR) FROM {quote_table(table)}"))
            read = dict(captured.spark.sql(f"SELECT id, {quote_ident(column.name)} FROM {view}").collect())
            found.append(f"{column.name}: {[(i, rows[i], read.get(i)) for i in bad][:4]}")
    return found


@pytest.mark.parametrize("mode", TIME_MODES)
def test_each_time_mode_decodes_exactly(captured: Captured, mode: str) -> None:
    whole = captured.table("clock")
    columns = tuple(c for c in whole.columns if c.name not in REFUSED.get(mode, ()))
    table = Table(whole.schema, whole.name, columns, whole.key)
    frame = captured.rows(mode, table, 3)
    frame.createOrReplaceTempView("clock_events")
    ours = dict(captured.spark.sql(f"SELECT id, {spark_row_hash(table)} FROM clock_events").collect())
    theirs = dict(captured.run(f"SELECT id, {mysql_row_hash(table)} FROM {quote_table(table)}"))
    assert ours == theirs, differing_columns(captured, table, "clock_events")


def test_decimals_of_15_digits_come_back_from_doubles(captured: Captured) -> None:
    table = captured.table("digits")
    captured.rows("double", table, 3).createOrReplaceTempView("digits_events")
    ours = dict(captured.spark.sql(f"SELECT k, {spark_row_hash(table)} FROM digits_events").collect())
    theirs = dict(captured.run(f"SELECT k, {mysql_row_hash(table)} FROM {quote_table(table)}"))
    assert len(theirs) == 3
    assert ours == theirs


def test_whole_records_decode_in_memory_as_by_spark(captured: Captured) -> None:
    """Keys, rows, operations, and the places in the log, by which the stamps are made."""
    table = captured.table("clock")
    captured.rows("microseconds", table, 3)
    captured.run(
        f"UPDATE {captured.schema}.clock SET id = 30 WHERE id = 1",
        f"DELETE FROM {captured.schema}.clock WHERE id = 2",
        f"UPDATE {captured.schema}.clock SET da = NULL WHERE id = 0",
    )
    topic = captured.topic("microseconds", table)
    # two deletes with their tombstones, a create, and an update
    wait_until(lambda: captured._records(topic) >= 9 or None, timeout=120, what="all changes in the topic")
    events = captured.events("microseconds")
    decoder = events.plain(table)
    records = KafkaTransport(KafkaEndpoint(captured.kafka)).records(topic)
    ours = [(one.offset, one.op, one.key, one.after, one.change, one.defaulted) for one in decoder.decode(records)]
    theirs = []
    raw = read_topics(captured.spark, KafkaEndpoint(captured.kafka), {topic: captured._states(topic)})
    for row in events.decode(raw, table, ("after",)).toArrow().to_pylist():
        cdc = row["cdc"]
        change = None if cdc["origin"] is None else read_change(cdc)
        theirs.append((cdc["offset"], cdc["op"], row["key"], row["after"], change, bool(cdc["defaulted"])))
        assert (cdc["bad"], cdc["unknown"], cdc["other_table"], cdc["snapshot"]) == (None, None, None, None)
    assert [one[:2] + one[4:] for one in ours] == [one[:2] + one[4:] for one in sorted(theirs, key=lambda one: one[0])]
    spread = {0: (0, max(record.offset for record in records) + 1)}
    endpoint = KafkaEndpoint(captured.kafka)
    read = tail.Topic(
        table, topic, {}, MySqlLog(), events, lambda session, wanted: read_topics(session, endpoint, wanted)
    )
    rows_of = tail.event_rows(captured.spark, read, spread)
    by_spark = sorted(tail.own_events(rows_of.collect()), key=lambda one: one.offset)
    assert tail.plain_events(table, decoder.decode(records, before=True)) == by_spark
    keyless, without = replace(table, key=()), events.plain(replace(table, key=()))
    rows_of = tail.event_rows(captured.spark, replace(read, table=keyless), spread)
    unkeyed = sorted(tail.own_events(rows_of.collect()), key=lambda one: one.offset)
    assert tail.plain_events(keyless, without.decode(records, before=True)) == unkeyed
    assert {one.op: (one.before is None, one.after is None) for one in by_spark} == {
        "c": (True, False),
        "u": (False, False),
        "d": (False, True),
    }
    keys = arrow_rows(table.key_columns, [one[2] for one in ours]).to_pylist()
    assert keys == [one[2] for one in sorted(theirs, key=lambda one: one[0])]
    rows = arrow_rows(table.mirrored, [one[3] for one in ours if one[3] is not None]).to_pylist()
    assert rows == [one[3] for one in sorted(theirs, key=lambda one: one[0]) if one[3] is not None]
