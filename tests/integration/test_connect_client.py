"""The Connect client, the offsets and the schema history with a real worker and Debezium."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.converters import Format
from airflow_cdc.connectors.debezium.history import compare_history, fold_history
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec, MySqlOffset
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.connectors.kafka_connect.http import ConnectorMissingError
from airflow_cdc.connectors.kafka_connect.offsets_topic import read_raw_offsets, write_raw_offset
from airflow_cdc.core.errors import ConnectorError, OffsetRejectedError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.sources.mysql.schema import read_table_defs
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from stack.connect import SETTINGS
from stack.mysql import MySqlServer
from stack.process import wait_until
from tests.diagnosing import offset_for, offset_in
from tests.marks import gtids_of

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


@dataclass
class Shop:
    """A Debezium connector that streams one fresh database."""

    connect: DebeziumConnector
    transport: KafkaTransport
    source: MySqlSource
    server: MySqlServer
    name: str
    database: str
    history: str

    def execute(self, *statements: str) -> None:
        self.server.execute(f"USE `{self.database}`", *statements)

    def committed(self) -> MySqlOffset | None:
        value = self.connect.committed_offset(self.name, self.name)
        return None if value is None else MySqlOffset.from_value(value)

    def settle(self) -> None:
        """Let the connector read all there is: a DDL counts only with the transaction after it (see below)."""
        self.execute("UPDATE t SET n = n + 1 WHERE id = 1")
        self.wait_past(self.source.position())

    def wait_past(self, mark: Watermark) -> None:
        def there() -> bool | None:
            offset = self.committed()
            return True if offset and offset_in(offset.to_value()).has_read(mark) else None

        wait_until(there, timeout=60, interval=0.2, what="the connector reads past the watermark")


@pytest.fixture(scope="module")
def client(connect: str) -> Iterator[DebeziumConnector]:
    with closing(DebeziumConnector(ConnectEndpoint(connect), MySqlCodec())) as found:
        yield found


@pytest.fixture(scope="module")
def shop(mysql: MySqlServer, kafka: str, client: DebeziumConnector) -> Iterator[Shop]:
    name = f"cc_{uuid.uuid4().hex[:6]}"
    mysql.execute(
        f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20), n INT DEFAULT 5)"
    )
    mysql.execute(f"INSERT INTO {name}.t VALUES (1, 'one', 1)")
    made = Shop(
        client,
        KafkaTransport(KafkaEndpoint(kafka)),
        MySqlSource(MySqlEndpoint(mysql.host, mysql.port, mysql.cdc.user, mysql.cdc.password)),
        mysql,
        name,
        name,
        f"history-{name}",
    )
    client.create(name, config(mysql, kafka, made))
    client.wait_running(name)
    wait_until(made.committed, timeout=60, what="the first offset")
    yield made
    client.delete(name)
    mysql.execute(f"DROP DATABASE {name}")


def config(server: MySqlServer, kafka: str, shop: Shop) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.debezium.user,
        "database.password": server.debezium.password,
        "database.server.id": str(int(shop.name[3:], 16) % 10**8 + 1000),
        "database.include.list": shop.database,
        "database.ssl.mode": "disabled",
        "driver.allowPublicKeyRetrieval": "true",
        "topic.prefix": shop.name,
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": shop.history,
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        "heartbeat.interval.ms": "300",
        # the server tells of its idle log by heartbeats at 0.8 of this; only then does a quiet offset move (48 s by default)
        "connect.keep.alive.interval.ms": "1000",
    }


def test_root_and_names(client: DebeziumConnector, shop: Shop) -> None:
    assert client.root()["version"].startswith("4.")
    assert shop.name in client.names()


def test_facts_of_a_running_connector(client: DebeziumConnector, shop: Shop) -> None:
    facts = client.facts(shop.name)
    assert (facts.state, [task.state for task in facts.tasks], facts.offsets_count) == ("RUNNING", ["RUNNING"], 1)
    assert facts.key == {"server": shop.name}
    assert facts.offset is not None
    assert facts.offset.place.startswith("mysql-bin.")
    assert facts.config["database.password"] == "***"
    assert shop.server.debezium.password not in repr(facts)
    assert client.raw_config(shop.name)["database.password"] == shop.server.debezium.password


def test_a_config_makes_the_round_trip(client: DebeziumConnector, shop: Shop) -> None:
    raw = client.raw_config(shop.name)
    client.put_config(shop.name, {**raw, "heartbeat.interval.ms": "301"})
    assert client.raw_config(shop.name) == {**raw, "heartbeat.interval.ms": "301"}
    client.wait_running(shop.name)


def test_the_worker_takes_plugins_by_their_short_names(client: DebeziumConnector, shop: Shop) -> None:
    """What it then shows is what was written, so whoever reads it has to know these names.

    A connector's own short name runs with older releases of Debezium only: see connectors/debezium/error_texts.py.
    """
    raw = client.raw_config(shop.name)
    short = {**raw, "value.converter": "Json", "transforms": "t", "transforms.t.type": "ExtractNewRecordState"}
    kept = {**short, "transforms.t.delete.tombstone.handling.mode": "tombstone"}
    client.put_config(shop.name, kept)
    client.wait_running(shop.name)
    assert client.raw_config(shop.name) == kept
    settings = ConnectorSettings.from_config(kept)
    assert ([one.format for one in settings.converters], len(settings.flattened)) == ([Format.UNSEEN, Format.JSON], 1)
    assert client.version({"connector.class": "MySql"}) == client.version(raw) != ""
    client.put_config(shop.name, raw)
    client.wait_running(shop.name)


def test_inv_06_a_heartbeat_moves_the_offset_past_a_position_without_captured_events(shop: Shop) -> None:
    shop.server.execute(
        "CREATE DATABASE IF NOT EXISTS cc_elsewhere", "CREATE TABLE IF NOT EXISTS cc_elsewhere.t (a INT)"
    )
    shop.server.execute("INSERT INTO cc_elsewhere.t VALUES (1)")
    mark = shop.source.position()
    shop.wait_past(mark)
    shop.server.execute("DROP DATABASE cc_elsewhere")


def test_offsets_are_refused_while_the_connector_runs(client: DebeziumConnector, shop: Shop) -> None:
    with pytest.raises(OffsetRejectedError, match="STOPPED") as caught:
        client.alter_offsets(shop.name, {"server": shop.name}, {"file": "mysql-bin.000001", "pos": 4})
    assert caught.value.reasons


def test_offsets_of_a_connector_that_does_not_exist(client: DebeziumConnector) -> None:
    with pytest.raises(ConnectorMissingError):
        client.offsets("no-such-connector")
    with pytest.raises(ConnectorMissingError):
        client.stop("no-such-connector")


def test_stop_alter_read_back_resume(client: DebeziumConnector, shop: Shop) -> None:
    client.stop(shop.name)
    status = client.status(shop.name)
    assert (status["connector"]["state"], status["tasks"]) == ("STOPPED", [])
    shop.execute("INSERT INTO t VALUES (10, 'while stopped', 1)")
    mark = shop.source.watermark()
    written = offset_for(mark, 1795244529)
    assert "altered successfully" in client.alter_offsets(shop.name, {"server": shop.name}, written)
    assert client.committed_offset(shop.name, shop.name) == written
    client.stop(shop.name)  # again: no error
    client.resume(shop.name)
    client.wait_running(shop.name)
    shop.settle()


def test_the_raw_offsets_topic_says_the_same_as_rest(client: DebeziumConnector, shop: Shop) -> None:
    """Connect older than 3.6 has no other way; the layout is the one that REST reads."""
    client.stop(shop.name)
    topic = SETTINGS["offset.storage.topic"]
    (key,) = read_raw_offsets(shop.transport, topic, shop.name)
    raw = read_raw_offsets(shop.transport, topic)[key]
    assert key == f'["{shop.name}",{{"server":"{shop.name}"}}]'
    assert raw.value == client.committed_offset(shop.name, shop.name)
    mark = offset_for(shop.source.watermark(), 1795244530)
    sent = write_raw_offset(shop.transport, topic, shop.name, {"server": shop.name}, mark)
    assert sent.kafka_partition == raw.kafka_partition
    wait_until(
        lambda: client.committed_offset(shop.name, shop.name) == mark or None,
        timeout=20,
        what="REST sees the record that was written to the topic",
    )
    client.resume(shop.name)
    client.wait_running(shop.name)


def test_delete_offsets_and_put_them_back(client: DebeziumConnector, shop: Shop) -> None:
    client.stop(shop.name)
    kept = client.committed_offset(shop.name, shop.name)
    client.delete_offsets(shop.name)
    assert client.offsets(shop.name) == []
    assert client.committed_offset(shop.name, shop.name) is None
    client.alter_offsets(shop.name, {"server": shop.name}, kept)
    client.resume(shop.name)
    client.wait_running(shop.name)


def test_an_invalid_config_is_explained_without_its_password(client: DebeziumConnector, shop: Shop) -> None:
    """Connect 4.3.1 itself answers only 500 and a NullPointerException."""
    raw = client.raw_config(shop.name)
    bad = {**raw, "name": f"{shop.name}_bad", "database.password": "not-the-pa55word"}
    for change in (client.put_config, client.create):
        with pytest.raises(ConnectorError, match=r"config is invalid.*Access denied") as caught:
            change(bad["name"], bad)
        assert caught.value.status == 400
        assert "not-the-pa55word" not in str(caught.value)
    assert client.validate(raw) == ()


def test_connect_repeats_the_whole_config_in_an_error_and_we_do_not(client: DebeziumConnector, shop: Shop) -> None:
    raw = client.raw_config(shop.name)
    classless = {key: value for key, value in raw.items() if key != "connector.class"}
    with pytest.raises(ConnectorError, match=r"database\.password=\*\*\*") as caught:
        client.put_config(f"{shop.name}_bad", {**classless, "name": f"{shop.name}_bad"})
    assert raw["database.password"] not in str(caught.value)


def test_a_ddl_enters_the_committed_set_only_with_the_next_transaction(shop: Shop) -> None:
    """Position and set disagree until then: whoever waits by the set alone waits for ever on a quiet server."""
    shop.settle()
    shop.execute("ALTER TABLE t COMMENT 'changed'")
    mark = shop.source.position()

    def read() -> MySqlOffset | None:
        offset = shop.committed()
        return offset if offset and offset.position >= mysql_position(mark.position).place else None

    offset = wait_until(read, timeout=30, interval=0.2, what="the position of the DDL")
    assert mysql_position(mark.position).gtids is not None
    assert offset.gtids is not None
    assert (gtids_of(mark) - offset.gtids).count == 1
    shop.settle()


def test_a_purged_position_fails_with_its_real_error(client: DebeziumConnector, shop: Shop) -> None:
    """What the whole product is for; afterwards the offset is put right again."""
    client.stop(shop.name)
    shop.execute("INSERT INTO t VALUES (20, 'gap', 1)", "FLUSH BINARY LOGS", "DELETE FROM t WHERE id = 20")
    shop.execute("FLUSH BINARY LOGS", f"PURGE BINARY LOGS TO '{shop.source.facts().current.file}'")
    client.resume(shop.name)
    with pytest.raises(ConnectorError, match="no longer available on the server"):
        wait_until(lambda: client.wait_running(shop.name, timeout=60), timeout=60, what="the connector fails")
    client.stop(shop.name)
    client.alter_offsets(shop.name, {"server": shop.name}, offset_for(shop.source.watermark(), 1795244531))
    client.resume(shop.name)
    client.wait_running(shop.name)


EVERY_COLUMN = """
CREATE TABLE every (
  id BIGINT UNSIGNED NOT NULL, ti TINYINT(1), tu TINYINT UNSIGNED, si SMALLINT, mi MEDIUMINT UNSIGNED, i INT,
  iz INT(10) UNSIGNED ZEROFILL, d DECIMAL(65,30), du DECIMAL(10,2) UNSIGNED, nu NUMERIC(9), fx FIXED, f FLOAT,
  f2 FLOAT(7,3), f30 FLOAT(30), db DOUBLE, re REAL, dp DOUBLE PRECISION, b1 BIT, b64 BIT(64), bo BOOLEAN,
  da DATE, dt DATETIME, dt6 DATETIME(6), ts TIMESTAMP(3) NULL, t TIME(6), y YEAR,
  c CHAR(10), c1 CHAR, nc NCHAR(4), vc VARCHAR(20) CHARACTER SET latin1, nv NVARCHAR(5), chv CHARACTER VARYING(7),
  vb VARBINARY(30), bi BINARY(16), tx TEXT, tx70 TEXT(70000), tt TINYTEXT, lt LONGTEXT, lv LONG VARCHAR,
  bl BLOB, mb MEDIUMBLOB, lvb LONG VARBINARY, e ENUM('a','b''c','d,e'), s SET('x','y'), j JSON,
  g GEOMETRY, p POINT, gc GEOMETRYCOLLECTION, ge INT AS (i + 1) STORED, vcb VARCHAR(10) CHARACTER SET binary,
  PRIMARY KEY (id, tu)
)"""

CHANGING = """
CREATE TABLE {table} (
  id INT, n INT NOT NULL, a VARCHAR(10), b VARCHAR(10), e ENUM('new','old'), t DATETIME(3), PRIMARY KEY (id)
) DEFAULT CHARSET utf8mb4"""

# DDL → what of it the comparison must say when the history has not seen it
CHANGES = {
    "ALTER TABLE {table} DROP COLUMN a, ADD COLUMN c VARCHAR(10)": "column c: not in the history",
    "ALTER TABLE {table} MODIFY e ENUM('first','new','old')": "labels",
    "ALTER TABLE {table} MODIFY a VARCHAR(10) AFTER b": "order of columns",
    "ALTER TABLE {table} MODIFY n INT UNSIGNED": "unsigned",
    "ALTER TABLE {table} CONVERT TO CHARACTER SET latin1": "character set",
    "ALTER TABLE {table} MODIFY t DATETIME(6)": "length",
    "ALTER TABLE {table} DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)": "key",
}


def history_differs(shop: Shop, table: str) -> tuple[str, ...]:
    name = f"{shop.database}.{table}"
    with closing(shop.source.connect()) as connection:
        found = read_table_defs(connection, [name])[name]
    return compare_history(found, fold_history(shop.transport.history_records(shop.history)).get(name))


def test_a_streamed_history_equals_the_definition_for_every_type(shop: Shop) -> None:
    """The server keeps other words than the author's (BOOLEAN, NUMERIC, LONG VARCHAR …); they mean the same."""
    shop.execute(EVERY_COLUMN)
    shop.settle()
    assert history_differs(shop, "every") == ()
    shop.execute("ALTER TABLE every ADD COLUMN more INTEGER FIRST", "RENAME TABLE every TO all_types")
    shop.settle()
    assert history_differs(shop, "all_types") == ()
    assert f"{shop.database}.every" not in fold_history(shop.transport.history_records(shop.history))


def test_inv_12_a_change_the_history_has_not_seen_is_named(client: DebeziumConnector, shop: Shop) -> None:
    tables = {f"changing_{number}": ddl for number, ddl in enumerate(CHANGES)}
    for table in tables:
        shop.execute(CHANGING.format(table=table))
    shop.settle()
    assert {table: history_differs(shop, table) for table in tables} == dict.fromkeys(tables, ())
    client.stop(shop.name)
    for table, ddl in tables.items():
        shop.execute(ddl.format(table=table))
        found = history_differs(shop, table)
        assert any(CHANGES[ddl] in text for text in found), (ddl, found)
    client.resume(shop.name)
    client.wait_running(shop.name)
    shop.settle()
    assert {table: history_differs(shop, table) for table in tables} == dict.fromkeys(tables, ())


def test_the_history_of_a_snapshot_equals_the_definition_too(
    client: DebeziumConnector, shop: Shop, kafka: str, mysql: MySqlServer, databases: Callable[..., str]
) -> None:
    name = databases()
    mysql.execute(f"USE {name}", EVERY_COLUMN)
    other = Shop(client, shop.transport, shop.source, mysql, f"cc_{uuid.uuid4().hex[:6]}", name, f"history-{name}")
    client.create(other.name, config(mysql, kafka, other))
    try:
        client.wait_running(other.name)
        wait_until(other.committed, timeout=60, what="the snapshot's offset")
        assert history_differs(other, "every") == ()
    finally:
        client.delete(other.name)


LARGE = 20_000
ROUNDS = 20  # whether the reader waits for long enough depends on the machine, so both tests of it are slow ones
# a queue that is often full, a producer that is slow, and a keep-alive that takes the waiting reader for a lost connection
SLOW = {
    "connect.keep.alive.interval.ms": "100",
    "max.queue.size": "128",
    "max.batch.size": "64",
    "producer.override.linger.ms": "0",
    "producer.override.batch.size": "1",
    "producer.override.max.in.flight.requests.per.connection": "1",
}


def claims_until_past(shop: Shop, mark: Watermark) -> int:
    """Wait until the connector has read past `mark`; how often its offset named all of that, and was inside a transaction."""
    claims = 0

    def read() -> bool | None:
        nonlocal claims
        offset = shop.committed()
        if (
            offset is not None
            and mysql_position(mark.position).gtids is not None
            and gtids_of(mark).issubset(offset.gtids or GtidSet())
        ):
            claims += offset.in_transaction
        return True if offset and offset_in(offset.to_value()).has_read(mark) else None

    wait_until(read, timeout=240, interval=0.05, what="the connector reads past the large transaction")
    return claims


@pytest.mark.slow
def test_inv_38_a_transaction_counts_as_read_when_its_last_event_is_in_the_topic(
    shop: Shop, client: DebeziumConnector, kafka: str
) -> None:
    """A reader that lost its connection names the transaction as done that it reads again from its begin."""
    other = replace(shop, name=f"{shop.name}5", history=f"{shop.history}-s")
    shop.execute(
        "CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(200))",
        f"SET SESSION cte_max_recursion_depth = {LARGE}",
        f"INSERT INTO large WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {LARGE})"
        " SELECT i, REPEAT('x', 100) FROM n",
    )
    server_id = {"database.server.id": str(int(shop.name[3:9], 16) % 10**8 + 2000), "snapshot.mode": "no_data"}
    client.create(other.name, {**config(shop.server, kafka, other), **server_id, **SLOW})
    try:
        wait_until(other.committed, timeout=60, what="the first offset")
        topic, claims = f"{other.name}.{shop.database}.large", 0
        for round_ in range(1, ROUNDS + 1):
            shop.execute(f"UPDATE large SET v = REPEAT('{round_}', 100)")
            claims += claims_until_past(other, shop.source.position())
            ends = shop.transport.end_offsets([topic])[topic]
            assert sum(ends.values()) >= round_ * LARGE
            if claims:
                break
        assert claims, f"in {ROUNDS} rounds the connection was never taken for lost"
    finally:
        client.delete(other.name)
