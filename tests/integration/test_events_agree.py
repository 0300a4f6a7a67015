"""What Debezium writes for every type, decoded by `from_event`, is the row that MySQL holds, hash by hash."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.values.mysql import DecodeModes, from_event
from airflow_cdc.connectors.debezium.values.mysql_plain import converter
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import Geometry, Json
from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.sources.mysql.encoding import row_hash as mysql_row_hash
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.sources.mysql.types import words_of
from airflow_cdc.spark_apps.adapters.debezium_mysql import Events
from airflow_cdc.spark_apps.adapters.kafka import read_topics
from airflow_cdc.spark_apps.adapters.mysql import MySqlLog
from airflow_cdc.spark_apps.apply import few
from airflow_cdc.spark_apps.apply.counts import read_change
from airflow_cdc.spark_apps.compare import tail
from airflow_cdc.spark_apps.compare.encoding import row_hash as spark_row_hash
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.types import arrow_rows
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.process import wait_until
from stack.rest import RestError
from tests.integration.apply_support import CONFIG
from tests.integration.every_type import LOAD_MODE, create_sql, insert_sql, row_count, row_id
from tests.integration.test_encoding_agrees import NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.core.table import Column
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

    def images(self, name: str, table: Table, count: int) -> DataFrame:
        """The `after` of each event as (id text, map of column → raw JSON text)."""
        topic = f"{self.schema}_{name}.{table.full_name}"
        wait_until(
            lambda: self._records(topic) >= count or None,
            timeout=120,
            interval=1,
            what=f"{count} events in {topic}",
        )
        return self._read(topic)

    def _records(self, topic: str) -> int:
        """Records of a topic that may not be there yet: Spark would fail on it."""
        states = KafkaTransport(KafkaEndpoint(self.kafka)).topic_states([topic])
        return sum(last for state in states.values() for _, last in state.partitions.values())

    def _read(self, topic: str) -> DataFrame:
        records = (
            self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.kafka).option("subscribe", topic)
        )
        text = "CAST(value AS string)"
        return records.load().selectExpr(
            f"from_json(from_json({text}, 'after string').after, 'map<string,string>') AS a"
        )


def decoded(images: DataFrame, table: Table, modes: DecodeModes) -> DataFrame:
    texts = images.selectExpr(*(f"a[{name_literal(c.name)}] AS t{i}" for i, c in enumerate(table.mirrored)))
    pairs = enumerate(table.mirrored)
    return texts.selectExpr(*(f"{from_event(c, modes, f't{i}')} AS {quote_ident(c.name)}" for i, c in pairs))


def name_literal(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


@pytest.fixture(scope="module")
def captured(mysql: MySqlServer, connect_worker: ConnectWorker, kafka: str, spark: SparkSession) -> Iterator[Captured]:
    register_functions(spark)
    made = Captured(mysql, connect_worker, kafka, spark)
    clock = ", ".join(f"{name} {kind}" for name, (kind, *_) in CLOCK.items())
    made.run(
        f"CREATE DATABASE {made.schema}",
        create_sql(f"{made.schema}.every"),
        f"CREATE TABLE {made.schema}.clock (id int PRIMARY KEY, {clock})",
    )
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
    yield made
    for connector in made.connectors:
        connect_worker.call("DELETE", f"/connectors/{connector}")
    made.run(f"DROP DATABASE {made.schema}")


@pytest.mark.parametrize("name", VALUE_MODES)
def test_events_decode_to_the_row(captured: Captured, name: str) -> None:
    table = captured.table("every")
    frame = decoded(captured.images(name, table, row_count()), table, DecodeModes.from_config(VALUE_MODES[name]))
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
    frame = decoded(captured.images(mode, table, 3), table, DecodeModes(time=mode))
    frame.createOrReplaceTempView("clock_events")
    ours = dict(captured.spark.sql(f"SELECT id, {spark_row_hash(table)} FROM clock_events").collect())
    theirs = dict(captured.run(f"SELECT id, {mysql_row_hash(table)} FROM {quote_table(table)}"))
    assert ours == theirs, differing_columns(captured, table, "clock_events")


# Values that are left to Spark's expressions.
LEFT_TO_SPARK = {"tsn": 1}  # the epoch, which stands for a zero date


@pytest.mark.parametrize("name", VALUE_MODES)
def test_in_memory_every_value_decodes_as_by_spark(captured: Captured, name: str) -> None:
    """A value is converted to the same value, or left to Spark; `every` has each type at its edges."""
    table, modes = captured.table("every"), DecodeModes.from_config(VALUE_MODES[name])
    captured.images(name, table, row_count())  # waits for them
    by_hand = {c.name for c in table.mirrored if converter(c, modes) is None}
    binary = {"bn", "vbn", "bl", "lb"} if modes.binary not in {"bytes", "base64"} else set()
    assert by_hand == binary
    compare_in_memory(captured, name, table, modes, LEFT_TO_SPARK)


@pytest.mark.parametrize("mode", TIME_MODES)
def test_in_memory_each_time_mode_decodes_as_by_spark(captured: Captured, mode: str) -> None:
    whole = captured.table("clock")
    table = replace(whole, columns=tuple(c for c in whole.columns if c.name not in REFUSED.get(mode, ())))
    captured.images(mode, table, 3)
    compare_in_memory(captured, mode, table, DecodeModes(time=mode), {})


def compare_in_memory(captured: Captured, name: str, table: Table, modes: DecodeModes, left: Mapping[str, int]) -> None:
    """Each column's values, converted one by one from the same records, against Spark's frame of the rows."""
    topic = f"{captured.schema}_{name}.{table.full_name}"
    records = KafkaTransport(KafkaEndpoint(captured.kafka)).records(topic)
    bodies = [json.loads(record.value) for record in records if record.value]
    events = [body.get("payload", body)["after"] for body in bodies]
    table = replace(table, columns=tuple(c for c in table.columns if converter(c, modes) is not None))
    frame = decoded(captured._read(topic), table, modes).selectExpr(*map(as_arrow_takes_it, table.mirrored)).toArrow()
    rows = {row["id"]: row for row in frame.to_pylist()}
    assert len(rows) == len(events)
    for column in table.mirrored:
        convert = converter(column, modes)
        assert convert is not None
        ids, values, given_up = [], [], 0
        for event in events:
            try:
                value = None if event[column.name] is None else convert(event[column.name])
            except ValueError:
                given_up += 1
                continue
            ids.append(event["id"])
            values.append(value)
        ours = arrow_rows([column], [(value,) for value in values]).column(0).to_pylist()
        ours = list(map(flat_geometry, ours)) if isinstance(column.type, Geometry) else ours
        wanted = [rows[one][column.name] for one in ids]
        assert list(map(repr, ours)) == list(map(repr, wanted)), column
        assert given_up == left.get(column.name, 0), column


def as_arrow_takes_it(column: Column) -> str:
    """Spark hands no struct to Arrow that may be NULL, and whose fields may not."""
    name = quote_ident(column.name)
    return f"concat({name}.srid, ' ', hex({name}.wkb)) AS {name}" if isinstance(column.type, Geometry) else name


def flat_geometry(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else f"{value['srid']} {value['wkb'].hex().upper()}"


def test_whole_records_decode_in_memory_as_by_spark(captured: Captured) -> None:
    """Keys, rows, operations, and the places in the log, by which the stamps are made."""
    table, connector = captured.table("clock"), f"{captured.schema}_microseconds"
    captured.images("microseconds", table, 3)
    captured.run(
        f"UPDATE {captured.schema}.clock SET id = 30 WHERE id = 1",
        f"DELETE FROM {captured.schema}.clock WHERE id = 2",
        f"UPDATE {captured.schema}.clock SET da = NULL WHERE id = 0",
    )
    topic = f"{connector}.{table.full_name}"
    # two deletes with their tombstones, a create, and an update
    wait_until(lambda: captured._records(topic) >= 9 or None, timeout=120, what="all changes in the topic")
    config = {**CONFIG, "topic.prefix": connector, "database.include.list": captured.schema}
    config |= {"time.precision.mode": "microseconds"}
    events = Events(ConnectorSettings.from_config(config))
    decoder = events.plain(table)
    assert decoder is not None
    records = KafkaTransport(KafkaEndpoint(captured.kafka)).records(topic)
    ours = [(one.offset, one.op, one.key, one.after, one.change, one.defaulted) for one in decoder.decode(records)]
    start = SimpleNamespace(topic=topic, decoded_as=table)
    context = SimpleNamespace(spark=captured.spark, events=events)
    theirs = []
    for row in few._decoded(context, records, start).toArrow().to_pylist():  # type: ignore[arg-type]
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
    assert without is not None
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


WRONG = ["x", "", "1.5x", "[1]", "{}", "=="]


def test_text_of_another_kind_is_null_and_never_an_error(captured: Captured) -> None:
    """In ANSI mode a plain cast would end the job at the first bad record."""
    table = captured.table("every")
    free = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json", "binary", "varbinary",
            "tinyblob", "blob", "mediumblob", "longblob"}  # fmt: skip
    columns = [c for c in table.mirrored if words_of(c).data_type not in free]
    frame = captured.spark.createDataFrame(
        [(text,) for text in [*WRONG, "9" * 80, "-" + "9" * 80, "AAAAAAAAAAAAAAAAAAAAAA=="]], "t string"
    )
    for modes in (DecodeModes(), DecodeModes("string", bigint_unsigned="precise", binary="hex")):
        rows = frame.selectExpr("t", *(f"{from_event(c, modes, 't')} AS c{i}" for i, c in enumerate(columns))).collect()
        for i, column in enumerate(columns):
            decoded_wrong = {row["t"]: row[f"c{i}"] for row in rows if row["t"] in WRONG and row[f"c{i}"] is not None}
            assert decoded_wrong == {}, column
    nulls = (
        frame.limit(1)
        .selectExpr("CAST(NULL AS string) AS t")
        .selectExpr(*(f"{from_event(c, DecodeModes(), 't')} AS c{i}" for i, c in enumerate(table.mirrored)))
        .collect()[0]
    )
    assert set(nulls) == {None}
