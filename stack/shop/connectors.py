"""The two connectors of the demo on one Connect worker: the shop's, and a peer that heals itself as Debezium does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stack.connect import JDBC_SINK_CLASS, POSTGRES_CLASS, ConnectWorker
from stack.mysql import MySqlServer
from stack.postgres import PostgresServer
from stack.process import wait_until
from stack.rest import RestError
from stack.shop.dataset import SCHEMA, TABLES

# without the schema in every record, which makes it several times as large; a NULL stays NULL where a column has a default
PLAIN = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "key.converter.replace.null.with.default": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.converter.replace.null.with.default": "false",
}
# What Debezium's documentation says for a large snapshot: larger fetches, batches and queues, tables side by side, and
# a producer that waits for more.
FAST_SNAPSHOT = {
    "snapshot.fetch.size": "10000",
    "snapshot.max.threads": "2",
    "max.batch.size": "16384",
    "max.queue.size": "65536",
    "producer.override.linger.ms": "20",
    "producer.override.batch.size": "262144",
}
NAMES = {"shop": 5401, "peer": 5402}  # connector → the server id it registers with


def config(name: str, mysql: MySqlServer, bootstrap: str, **more: str) -> dict[str, str]:
    """An ordinary Debezium MySQL configuration; `name` is also the topic prefix. "" in `more` leaves a setting out."""
    settings = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": mysql.host,
        "database.port": str(mysql.port),
        "database.user": mysql.debezium.user,
        "database.password": mysql.debezium.password,
        "database.server.id": str(NAMES[name]),
        "database.ssl.mode": "preferred",
        "driver.allowPublicKeyRetrieval": "true",
        "topic.prefix": name,
        "database.include.list": SCHEMA,
        "table.include.list": ",".join(f"{SCHEMA}.{table}" for table in TABLES),
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "schema.history.internal.kafka.topic": f"{name}.schema-history",
        "decimal.handling.mode": "precise",
        "include.schema.changes": "true",
        "heartbeat.interval.ms": "1000",
        "connect.keep.alive.interval.ms": "1000",
        **PLAIN,
        **more,
    }
    return {key: value for key, value in settings.items() if value}


def postgres_config(name: str, postgres: PostgresServer, bootstrap: str, **more: str) -> dict[str, str]:
    """An ordinary Debezium PostgreSQL configuration; `name` is also the topic prefix, the slot and the publication."""
    del bootstrap  # it keeps no history of definitions
    return {
        "connector.class": POSTGRES_CLASS,
        "plugin.name": "pgoutput",
        "database.hostname": postgres.host,
        "database.port": str(postgres.port),
        "database.user": postgres.debezium.user,
        "database.password": postgres.debezium.password,
        "database.dbname": SCHEMA,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "disabled",
        "topic.prefix": name,
        "table.include.list": ",".join(f"{SCHEMA}.{table}" for table in TABLES),
        "decimal.handling.mode": "string",
        "interval.handling.mode": "string",
        "provide.transaction.metadata": "true",
        "heartbeat.interval.ms": "1000",
        **PLAIN,
        **more,
    }


def jdbc_sink(postgres: PostgresServer, schema: str, topics: str, **more: str) -> dict[str, str]:
    """Debezium's JDBC sink of topics (a regular expression) into a schema of PostgreSQL. It needs the schema in every record."""
    return {
        "connector.class": JDBC_SINK_CLASS,
        "topics.regex": topics,
        "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/postgres",
        "connection.username": postgres.user,
        "connection.password": postgres.password,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": schema + ".${source.table}",
        "consumer.override.metadata.max.age.ms": "1000",
        "consumer.override.auto.offset.reset": "earliest",
        **more,
    }


def make_schema(postgres: PostgresServer, schema: str) -> None:
    """An empty schema for copies, whose tables the user `cdc` may read."""
    postgres.execute(f"CREATE SCHEMA {schema}", f"GRANT USAGE ON SCHEMA {schema} TO cdc")
    postgres.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO cdc")


def create(worker: ConnectWorker, name: str, settings: Mapping[str, str]) -> None:
    """Create a connector and wait until its task runs."""
    worker.call("PUT", f"/connectors/{name}/config", dict(settings))
    wait_running(worker, name)


def state(worker: ConnectWorker, name: str) -> tuple[str, list[dict[str, Any]]]:
    """The connector's state and its tasks."""
    try:
        answer = worker.call("GET", f"/connectors/{name}/status")
    except RestError as error:
        if error.status != 404:
            raise
        return "UNASSIGNED", []  # just created: no worker has taken it yet
    return str(answer["connector"]["state"]), list(answer["tasks"])


def wait_running(worker: ConnectWorker, name: str, timeout: float = 120.0) -> None:
    """Wait until connector and task are RUNNING."""

    def running() -> bool | None:
        connector_state, tasks = state(worker, name)
        return True if connector_state == "RUNNING" and [t["state"] for t in tasks] == ["RUNNING"] else None

    wait_until(running, timeout=timeout, what=f"connector {name} to run", child=worker.child)


def stop(worker: ConnectWorker, *names: str) -> None:
    """Stop connectors and wait until they are."""
    for name in names:
        worker.call("PUT", f"/connectors/{name}/stop")
    for name in names:
        wait_until(
            lambda name=name: True if state(worker, name) == ("STOPPED", []) else None,  # type: ignore[misc]
            timeout=60,
            what=f"connector {name} to stop",
            child=worker.child,
        )


def failure(worker: ConnectWorker, name: str, timeout: float = 120.0) -> str:
    """Resume a connector and wait until its task has FAILED; returns the reason it gives."""
    worker.call("PUT", f"/connectors/{name}/resume")
    return wait_until(
        lambda: failed(worker, name), timeout=timeout, what=f"connector {name} to fail", child=worker.child
    )


def failed(worker: ConnectWorker, name: str) -> str | None:
    """The reason that a connector's task gives for having FAILED, None if it has not."""
    _, tasks = state(worker, name)
    if not tasks or tasks[0]["state"] != "FAILED":
        return None
    lines = [line.strip() for line in str(tasks[0]["trace"]).splitlines()]
    reasons = [line for line in lines if "no longer available" in line]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return (reasons or causes or lines[:1])[-1].removeprefix("Caused by: ")


def wait_read(worker: ConnectWorker, name: str, mysql: MySqlServer) -> None:
    """Wait until the connector has read all that the server has executed: by the set, or by the place.

    A statement that is logged by itself, as a DDL or XA ROLLBACK, enters the set with the next transaction.
    """
    executed = str(mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
    end = tuple(mysql.execute("SHOW BINARY LOGS")[-1][:2])

    def read() -> bool | None:
        held = stored(worker, name)
        at_end = (held.get("file"), held.get("pos")) == end
        covers = f"SELECT GTID_SUBSET('{executed}', '{held.get('gtids', '')}')"
        return True if at_end or mysql.execute(covers)[0][0] else None

    wait_until(read, timeout=180, what=f"{name} to read all that was written")


def stored(worker: ConnectWorker, name: str) -> dict[str, Any]:
    """The offset a connector has stored; {} when none."""
    offsets = worker.call("GET", f"/connectors/{name}/offsets")["offsets"]
    return dict(offsets[0]["offset"]) if offsets else {}


def copied(offset: Mapping[str, Any]) -> bool:
    """Whether a stored offset is one behind the connector's own snapshot; PostgreSQL's keeps the word until an event comes."""
    return bool(offset) and (not offset.get("snapshot") or bool(offset.get("snapshot_completed")))


def copy_again(worker: ConnectWorker, settings: Mapping[str, str], timeout: float = 900.0) -> None:
    """Let the failed peer begin anew: its offset is deleted, and it takes its first snapshot again.

    What is left where Debezium does not see by itself that its position was purged, as its MariaDB connector.
    """
    stop(worker, "peer")
    worker.call("DELETE", "/connectors/peer/offsets")
    worker.call("PUT", "/connectors/peer/config", {**settings, "snapshot.mode": "initial"})
    _wait_copied(worker, {}, timeout)


def heal_itself(worker: ConnectWorker, settings: Mapping[str, str], timeout: float = 900.0) -> None:
    """Let the failed peer recover as Debezium does: `snapshot.mode=when_needed`.

    It is complete when its task runs and its stored offset is a new one outside a snapshot.
    """
    lost = stored(worker, "peer")
    worker.call("PUT", "/connectors/peer/config", {**settings, "snapshot.mode": "when_needed"})
    _wait_copied(worker, lost, timeout)


def _wait_copied(worker: ConnectWorker, lost: Mapping[str, Any], timeout: float) -> None:
    worker.call("PUT", "/connectors/peer/resume")

    def complete() -> bool | None:
        connector_state, tasks = state(worker, "peer")
        offset = stored(worker, "peer")
        runs = connector_state == "RUNNING" and [t["state"] for t in tasks] == ["RUNNING"]
        return True if runs and offset != lost and copied(offset) else None

    wait_until(complete, timeout=timeout, what="the peer's re-snapshot to end", child=worker.child)
