"""What a real connector sends, in the forms that its settings give, applied: the sink is the source, hash by hash."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.chunk import quote_table
from airflow_cdc.core.encoding import mysql_row_hash, spark_row_hash
from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.types import sink_type
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.merge import append_nothing
from airflow_cdc.systems.kafka import KafkaEndpoint, KafkaTransport
from airflow_cdc.systems.kafka_connect import ConnectEndpoint, KafkaConnect
from tests.integration.every_type import LOAD_MODE, create_sql, insert_sql
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

TABLES = {
    "items": "CREATE TABLE items (a BIGINT, b SMALLINT, name VARCHAR(40), price DECIMAL(10,4) NOT NULL, PRIMARY KEY (a, b))",
    "names": "CREATE TABLE names (code VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT DEFAULT 5)",
    "events": "CREATE TABLE events (at TIMESTAMP(3) NOT NULL, kind VARCHAR(20), payload JSON)",
}
FIRST = (
    "INSERT INTO items VALUES (1, 1, 'a', 1.5), (1, 2, 'b', -2), (2, 1, 'c', 3), (2, 2, NULL, 0)",
    "INSERT INTO names VALUES ('abc', 1), ('ünï 😀', NULL), ('x', 3)",
    "INSERT INTO events VALUES ('2026-01-01 00:00:00.001', 'k', '{\"b\": 1, \"a\": 2.5}'), ('2026-01-01', 'k', NULL), ('2026-01-01', 'k', NULL)",
)
SECOND = (
    "UPDATE items SET b = 9 WHERE a = 1 AND b = 2",  # a changed key: a delete and a create
    "DELETE FROM items WHERE a = 2 AND b = 1",
    "INSERT INTO items VALUES (2, 1, 'again', 7)",
    "UPDATE names SET code = 'ABC' WHERE code = 'abc'",  # the same key to MySQL, another to the sink
    "UPDATE names SET n = NULL WHERE code = 'x'",
    "DELETE FROM events WHERE payload IS NULL LIMIT 1",
    "UPDATE events SET kind = 'changed' WHERE payload IS NOT NULL",
)
FORMS: dict[str, dict[str, str]] = {
    "as_the_worker_has_it": {},
    "plain_and_routed": {
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "binary.handling.mode": "hex",
        "skipped.operations": "none",
        "transforms": "all",
        "transforms.all.type": "io.debezium.transforms.ByLogicalTableRouter",
        "transforms.all.topic.regex": r"([^.]+)\.([^.]+)\.(items|names)",
        "transforms.all.topic.replacement": "$1.together",
    },
}


class Followed:
    """A database that a connector follows from before its first row, and the run that applies its events."""

    def __init__(self, rig: Rig, worker: ConnectWorker, kafka: str, folder: Path) -> None:
        self.rig, self.worker, self.kafka = rig, worker, kafka
        self.connector = KafkaConnect(ConnectEndpoint(worker.url))
        transport = KafkaTransport(KafkaEndpoint(kafka))
        for ddl in TABLES.values():
            rig.run(ddl)
        rig.run(create_sql(f"{rig.schema}.every"))
        self.base = rig.recovery_run((*TABLES, "every"), folder, self.connector, transport)

    def follow(self, settings: Mapping[str, str]) -> None:
        server, name = self.rig.server, self.base.pipeline.connector.name
        config = {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.debezium.user,
            "database.password": server.debezium.password,
            "database.server.id": str(80000 + int(uuid.uuid4().hex[:4], 16)),
            "database.include.list": self.rig.schema,
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
            "topic.prefix": name,
            "snapshot.mode": "no_data",
            "schema.history.internal.kafka.bootstrap.servers": self.kafka,
            "schema.history.internal.kafka.topic": f"history-{name}",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.replace.null.with.default": "false",
            "heartbeat.interval.ms": "500",
            "connect.keep.alive.interval.ms": "500",  # the clock of its heartbeats while nothing comes
            "enable.time.adjuster": "false",
            **settings,
        }
        self.worker.call("PUT", f"/connectors/{name}/config", config)
        poll_until(self._streams, timeout=120, what=f"{name} to have a position")

    def _streams(self) -> bool | None:
        return True if self.connector.facts(self.base.pipeline.connector.name).offset else None

    def stamp(self) -> None:
        """Every sink table empty, to be read from the beginning of its topic."""
        for table in (*TABLES, "every"):
            made = self.rig.table(table)
            self.rig.lake.ensure_table(self.rig.schema, table, [(c.name, sink_type(c)) for c in made.mirrored])
            append_nothing(self.rig.spark, self.sink(table), Stamp(0).to_summary())

    def sink(self, table: str) -> str:
        return f"`{self.rig.lake.name}`.`{self.rig.schema}`.`{table}`"

    def apply(self, run_id: str) -> dict[str, Any]:
        """Apply all that the source has committed so far."""
        position = self.rig.source.position()
        poll_until(lambda: self._past(position), timeout=120, what=f"the connector to commit an offset past {position}")
        done = apply_changes(replace(self.base, run_id=run_id), self.rig.spark)["tables"]
        return {name.partition(".")[2]: result for name, result in done.items()}

    def _past(self, position: Any) -> bool | None:
        facts = self.connector.facts(self.base.pipeline.connector.name)
        stored = GtidSet.parse(str((facts.offset or {}).get("gtids") or ""))
        return True if position.gtids.issubset(stored) else None

    def differences(self, table: str) -> tuple[list[Any], list[Any]]:
        """Row hashes that only the source has, and that only the sink has."""
        made = self.rig.table(table)
        with closing(self.rig.server.connect(database=self.rig.schema)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s, time_zone = '+00:00'", [LOAD_MODE])
            cursor.execute(f"SELECT {mysql_row_hash(made)} FROM {quote_table(made)}")
            theirs = Counter(row[0] for row in cursor.fetchall())
        found = self.rig.spark.sql(f"SELECT {spark_row_hash(made)} FROM {self.sink(table)}").collect()
        ours = Counter(row[0] for row in found)
        return list(theirs - ours), list(ours - theirs)


@pytest.fixture(params=FORMS, ids=list(FORMS))
def followed(
    request: pytest.FixtureRequest, rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path
) -> Iterator[Followed]:
    made = Followed(rig, connect_worker, kafka, tmp_path)
    made.follow(FORMS[request.param])
    made.stamp()
    yield made
    connect_worker.call("DELETE", f"/connectors/{made.base.pipeline.connector.name}")


def test_the_sink_is_the_source_after_each_batch(followed: Followed) -> None:
    followed.rig.run(*FIRST, *insert_sql(f"{followed.rig.schema}.every", real_days=True))
    done = followed.apply("run-1")
    assert all(result["published"] and not result["dead_letters"] for result in done.values())
    for table in (*TABLES, "every"):
        assert followed.differences(table) == ([], []), table
    followed.rig.run(*SECOND, "DELETE FROM every ORDER BY id LIMIT 2")
    done = followed.apply("run-2")
    assert sum(result["deletes"] for result in done.values()) == 6
    for table in (*TABLES, "every"):
        assert followed.differences(table) == ([], []), table
    assert len(followed.rig.spark.table(followed.sink("names")).where("n IS NULL").collect()) == 2


@pytest.mark.parametrize("followed", ["plain_and_routed"], indirect=True)
def test_truncate_and_a_column_added_under_way(followed: Followed) -> None:
    followed.rig.run(*FIRST)
    followed.apply("run-1")
    followed.rig.run(
        "INSERT INTO events VALUES ('2026-02-02', 'gone', NULL)",
        "TRUNCATE TABLE events",
        "INSERT INTO events VALUES ('2026-03-03', 'stays', '[1]')",
    )
    followed.rig.run("ALTER TABLE items ADD COLUMN note VARCHAR(20)", "INSERT INTO items VALUES (5, 5, 'e', 5, 'new')")
    done = followed.apply("run-2")
    assert done["events"]["truncates"] == 1
    assert done["items"]["added"] == ["note"]
    for table in ("items", "events"):
        assert followed.differences(table) == ([], []), table
