"""What Canal writes for every type, decoded, is the row that MySQL holds, hash by hash; what is not carried is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.canal.capture import FLAT, CanalCapture
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import Json
from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.sources.mysql.encoding import row_hash as mysql_row_hash
from airflow_cdc.sources.mysql.quoting import quote_ident, quote_table
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.spark_apps.adapters.canal import Events
from airflow_cdc.spark_apps.canonical.spark import row_hash as spark_row_hash
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.canal import CanalSettings, make_canal
from stack.process import wait_until
from tests.integration.every_type import LOAD_MODE, create_sql, insert_sql
from tests.unit.connectors.canal.settings import FOLLOWED, PROTOBUF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stack.mysql import MySqlServer

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

_GARBLED = "text is decoded as UTF-8"
REFUSED = {
    "vl": f"latin1 {_GARBLED}",
    "vs": f"sjis {_GARBLED}",
    "v16": f"utf16 {_GARBLED}",
    "va": f"ascii {_GARBLED}",
    "sep`'\"|": "a backtick in its name arrives doubled",
}
LAST = 1000
# in the last record; in protobuf after the field's number and length
ENDS = {"true": b'"table":"ends"', "false": b"\x4a\x04ends"}


@dataclass(frozen=True)
class Sent:
    """A table of every type, and what Canal sent of it: an insert of each row, and then an update of it."""

    server: MySqlServer
    spark: SparkSession
    schema: str
    form: Mapping[str, str]
    whole: Table
    raw: DataFrame

    @property
    def carried(self) -> Table:
        """Without the columns that are refused."""
        columns = tuple(c for c in self.whole.columns if c.name not in REFUSED)
        return replace(self.whole, columns=columns)

    @property
    def events(self) -> Events:
        return Events(CanalCapture.from_config({**self.form, "canal.mq.topic": self.schema}))

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        return run(self.server, *statements)


def run(server: MySqlServer, *statements: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [LOAD_MODE])
        for statement in statements:
            cursor.execute(statement)
            rows = list(cursor.fetchall())
        connection.commit()
    return rows


@pytest.fixture(params=[FOLLOWED, pytest.param(PROTOBUF, marks=pytest.mark.slow)], ids=["flat", "protobuf"])
def sent(
    request: pytest.FixtureRequest,
    mysql: MySqlServer,
    kafka: str,
    spark: SparkSession,
    databases: Callable[..., str],
    *,
    tmp_path: Path,
) -> Iterator[Sent]:
    register_functions(spark)
    schema = databases()
    run(mysql, create_sql(f"{schema}.every"), f"CREATE TABLE {schema}.ends (id int PRIMARY KEY)")
    file, position, *_ = mysql.execute("SHOW MASTER STATUS")[0]
    executed = str(mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
    by_gtid = {"canal.instance.gtidon": "true", "canal.instance.master.gtid": executed}
    more = {"canal.instance.filter.regex": rf"{schema}\..*", **by_gtid}
    address = f"{mysql.host}:{mysql.port}"
    start, sends = (str(file), int(position)), {FLAT: request.param[FLAT]}
    settings = CanalSettings(schema, address, mysql.debezium, kafka, schema, start, "", more, sends)
    canal = make_canal(tmp_path / "canal", settings)
    topics = KafkaTransport(KafkaEndpoint(kafka))

    def ended() -> bool | None:
        records = topics.records(schema) if topics.topic_states([schema]) else []
        return any(ENDS[request.param[FLAT]] in (record.value or b"") for record in records) or None

    try:
        canal.start()
        # rows with days that no month has, too: Canal writes them as they are
        run(mysql, *insert_sql(f"{schema}.every"), f"INSERT INTO {schema}.ends VALUES ({LAST})")
        wait_until(ended, timeout=120, what="Canal to send all")
        with closing(mysql.connect()) as connection:
            table = read_table_defs(connection, [f"{schema}.every"])[f"{schema}.every"]
        kafka_rows = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka).option("subscribe", schema)
        raw = kafka_rows.load().selectExpr("topic", "partition", "offset", "key", "value").persist()
        yield Sent(mysql, spark, schema, request.param, table, raw)
        raw.unpersist()
    finally:
        canal.stop()


def test_every_type_is_the_row_of_the_server_or_refused_by_name(sent: Sent) -> None:
    with pytest.raises(SchemaError) as refused:
        sent.events.routing.check_table(sent.whole)
    for name, why in REFUSED.items():
        assert f"{name} ({why})" in str(refused.value)
    table = sent.carried
    sent.events.routing.check_table(table)
    everything = sent.events.decode(sent.raw, table, ("after",)).localCheckpoint()  # decoded once
    decoded = everything.where("cdc.other_table IS NULL")
    assert {row["bad"] for row in decoded.select("cdc.bad").collect()} == {None}
    decoded.select("after.*").createOrReplaceTempView("events")
    ours = dict(sent.spark.sql(f"SELECT id, {spark_row_hash(table)} FROM events").collect())
    theirs = dict(sent.run(f"SELECT id, {mysql_row_hash(table)} FROM {quote_table(table)}"))
    assert ours == theirs, differing_columns(sent, table)
    stored = sent.run(f"SELECT id, CAST(j AS CHAR) FROM {quote_table(table)}")
    arrived = {row["id"]: row["j"] for row in sent.spark.table("events").select("id", "j").collect()}
    assert arrived == {i: None if j is None else json_canonical(j) for i, j in stored}


def differing_columns(sent: Sent, table: Table) -> list[str]:
    """Which columns are to blame: each hashed alone."""
    blamed = []
    for column in table.compared:
        if isinstance(column.type, Json):
            continue
        alone = Table(table.schema, table.name, (column,))
        ours = dict(sent.spark.sql(f"SELECT id, {spark_row_hash(alone)} FROM events").collect())
        theirs = dict(sent.run(f"SELECT id, {mysql_row_hash(alone)} FROM {quote_table(table)}"))
        if bad := [i for i in theirs if theirs[i] != ours.get(i)]:
            held = dict(sent.run(f"SELECT id, CAST({quote_ident(column.name)} AS CHAR) FROM {quote_table(table)}"))
            read = dict(sent.spark.sql(f"SELECT id, {quote_ident(column.name)} FROM events").collect())
            blamed.append(f"{column.name}: {[(i, held[i], read.get(i)) for i in bad][:4]}")
    return blamed
