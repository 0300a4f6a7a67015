"""Faults of the connector: its offset, its definitions, its connections."""

from __future__ import annotations

import time

from stack.process import end
from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.cases_sink import with_admin
from tests.faults_diagnosis.subject import TABLES, Subject

# Debezium then starts its task again and again instead of failing
RETRIES_FOR_EVER = {
    "custom.retriable.exception": "(?s).*",
    "errors.max.retries": "-1",
    "retriable.restart.connector.wait.ms": "1000",
}

# from when on an offset that rests may be stuck
LONG_AGO_S = 125.0
# as many events as the offset must count beyond those of its transaction
HEARTBEATS = 10


def offset_deleted(subject: Subject) -> None:
    subject.stop()
    subject.call("DELETE", "/offsets")


def second_key(subject: Subject) -> None:
    subject.stop()
    subject.patch({"file": "mysql-bin.000001", "pos": 4, "ts_sec": 1}, server=f"{subject.name}x")


def history_deleted(subject: Subject) -> None:
    subject.stop()
    with_admin(subject, lambda admin: admin.delete_topics([subject.history_topic]))
    subject.wait(lambda: not subject.transport.topic_states([subject.history_topic]), "the history is gone")


def copy_cut_off(subject: Subject) -> None:
    """The connector is stopped while it copies its tables, before the end."""
    subject.world.register(subject.name, subject.server, [f"{subject.name}.{table}" for table in TABLES])
    subject.make_tables()
    name = f"{subject.name}.{TABLES[0]}"
    subject.sql(
        f"SET SESSION {subject.dialect.recursion} = 400000",
        f"INSERT INTO {name} WITH RECURSIVE n AS (SELECT 100 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
        " SELECT i, REPEAT('x', 100) FROM n",
    )
    subject.call("PUT", "/config", subject.settings())
    subject.wait(lambda: subject.offset().get("snapshot"), "an offset inside the copy")
    subject.stop()
    assert subject.offset().get("snapshot"), "the copy ended before the connector was stopped"
    subject.close_a_recovery()
    subject.fill_sink(subject.stamp())


def network_cut(subject: Subject) -> None:
    end(subject.mysql.child)
    subject.wait_failed()
    subject.restart_server()


def there_again(subject: Subject) -> None:
    """The other faults need the server, also where this one could not be made."""
    if not subject.mysql.child.alive:
        subject.restart_server()


def locked_out(subject: Subject) -> None:
    """The connector's password is changed; its running connection is cut, as by a failover."""
    _set_password(subject, "another")
    subject.call("POST", "/restart?includeTasks=true&onlyFailed=false")
    subject.wait_failed()


def let_in(subject: Subject) -> None:
    _set_password(subject, subject.mysql.debezium.password)


def same_server_id(subject: Subject) -> None:
    """A second connector with the same database.server.id; the server cuts the first one off."""
    twin = f"{subject.name}-twin"
    config = {
        **subject.settings(),
        "topic.prefix": twin,
        "schema.history.internal.kafka.topic": f"{twin}.history",
        "snapshot.mode": "no_data",
    }
    subject.world.connect.call("PUT", f"/connectors/{twin}/config", config)
    subject.wait_failed()


def twin_gone(subject: Subject) -> None:
    subject.world.connect.call("DELETE", f"/connectors/{subject.name}-twin")


def loops(subject: Subject) -> None:
    """The connector's way to the source goes dark: it reconnects for ever, RUNNING; its last event is of long ago.

    Where an event's time can be set, that is at once; Debezium takes 9.7's from the commit, and then it has to pass.
    """
    subject.world.register(subject.name, subject.server, [f"{subject.name}.{table}" for table in TABLES])
    path = subject.world.dark_path(subject.server)
    subject.config["database.port"] = str(path.port)
    subject.make_tables()
    subject.create_connector()
    subject.sql("SET timestamp = UNIX_TIMESTAMP() - 3600", f"INSERT INTO {subject.name}.{TABLES[0]} VALUES (10, 'old')")
    subject.catch_up()
    subject.close_a_recovery()
    subject.fill_sink(subject.stamp())
    path.dark.set()
    subject.write(20)
    subject.wait(lambda: time.time() - subject.offset()["ts_sec"] > LONG_AGO_S, "its last event is of long ago", 200.0)


def heals_itself(subject: Subject) -> None:
    """A purged gap that the connector closes by a snapshot of its own; then the setting is taken out again."""
    subject.stop()
    subject.sql(f"DELETE FROM {subject.name}.{TABLES[0]} WHERE id = 10")
    subject.purge()
    lost = subject.offset()
    subject.call("PUT", "/config", {**subject.settings(), "snapshot.mode": "when_needed"})
    subject.resume()
    subject.wait(lambda: subject.offset() != lost and subject._at_end(), "the connector's own snapshot is done")
    subject.call("PUT", "/config", subject.settings())
    subject.wait_running()


def default_added(subject: Subject) -> None:
    """An ordinary column: nullable, with a default; the converter is as Connect ships it."""
    table = f"{subject.name}.{TABLES[0]}"
    subject.sql(f"ALTER TABLE {table} ALTER COLUMN v SET DEFAULT 'new'", f"INSERT INTO {table} VALUES (70, NULL)")
    subject.catch_up()


def half_sent(subject: Subject) -> None:
    """The offset that Debezium stores after it has read a transaction again from its begin (see test_half_sent.py).

    On MariaDB the one that it stores on a quiet server after a DDL: it counts the server's heartbeats as events.
    """
    if subject.version.mariadb:
        subject.sql(f"CREATE TABLE {subject.name}.another (id INT)")
        subject.wait(lambda: subject.offset().get("event", 0) > HEARTBEATS, "some heartbeats are counted")
        subject.stop()
        subject.write(80, 5)
        return
    subject.stop()
    rows = ", ".join(f"({n}, 'of one transaction')" for n in range(80, 90))
    subject.sql(f"INSERT INTO {subject.name}.{TABLES[0]} VALUES {rows}")
    file, _ = subject.end()
    begin = [row for row in subject.sql(f"SHOW BINLOG EVENTS IN '{file}'") if str(row[2]) == "Query"][-1]
    inside = {"file": file, "pos": int(begin[1]), "gtids": subject.executed(), "event": 2, "row": 5}
    subject.write(90)
    subject.patch({"ts_sec": int(time.time()), "server_id": subject.offset().get("server_id"), **inside})


def _set_password(subject: Subject, password: str) -> None:
    subject.sql(subject.dialect.password.format(plugin=subject.mysql.auth_plugin, password=password))


CASES = (
    Case("stopped", "somebody stopped the connector", "CONNECTOR_STOPPED", "gtid", lambda s: s.stop()),
    Case("offset_deleted", "the offset was deleted", "OFFSET_MISSING", "gtid", offset_deleted),
    Case("second_key", "an offset under a mistyped prefix", "OFFSET_AMBIGUOUS", "gtid", second_key),
    Case(
        "half_sent",
        "stopped inside of a transaction that counts as done",
        "TRANSACTION_HALF_SENT",
        "gtid",
        half_sent,
        asked=False,
    ),
    Case("history_deleted", "the schema history topic was deleted", "SCHEMA_HISTORY_MISSING", "gtid", history_deleted),
    Case("copy_cut_off", "stopped while copying", "SNAPSHOT_INTERRUPTED", "gtid", copy_cut_off, set_up=False),
    Case(
        "network_cut",
        "the source was away for a moment",
        "CONNECTOR_FAILED_TRANSIENT",
        "gtid",
        network_cut,
        there_again,
        not_on_mariadb="its connector (3.5.0) connects again by itself and does not fail",
    ),
    Case("locked_out", "the connector's password was changed", "CONNECTOR_FAILED", "gtid", locked_out, let_in),
    Case("same_server_id", "two connectors, one server id", "DUPLICATE_SERVER_ID", "gtid", same_server_id, twin_gone),
    Case(
        "loops",
        "RUNNING, but never past its position",
        "CONNECTOR_LOOPING",
        "gtid",
        loops,
        set_up=False,
        config=dict(RETRIES_FOR_EVER),
    ),
    Case(
        "self_healing_set",
        "snapshot.mode=when_needed",
        "CONNECTOR_MISCONFIGURED",
        "gtid",
        lambda _s: None,
        config={"snapshot.mode": "when_needed"},
    ),
    Case(
        "ddl_filtered",
        "schema.history.internal.ddl.filter",
        "CONNECTOR_MISCONFIGURED",
        "gtid",
        lambda _s: None,
        config={"schema.history.internal.ddl.filter": "ALTER TABLE .* ADD .*"},
    ),
    Case(
        "ddl_skipped",
        "schema.history.internal.skip.unparseable.ddl=true",
        "CONNECTOR_MISCONFIGURED",
        "gtid",
        lambda _s: None,
        config={"schema.history.internal.skip.unparseable.ddl": "true"},
    ),
    Case(
        "ddl_events_dropped",
        "SchemaChangeEventFilter",
        "CONNECTOR_MISCONFIGURED",
        "gtid",
        lambda _s: None,
        config={
            "transforms": "ddl",
            "transforms.ddl.type": "io.debezium.transforms.SchemaChangeEventFilter",
            "transforms.ddl.schema.change.event.exclude.list": "ALTER",
        },
    ),
    Case(
        "deletes_dropped",
        "delete.tombstone.handling.mode=drop",
        "DELETES_DROPPED",
        "gtid",
        lambda _s: None,
        config={
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode": "drop",
        },
    ),
    Case(
        "null_default",
        "NULL arrives as the column's default",
        "CONNECTOR_MISCONFIGURED",
        "gtid",
        default_added,
    ),
    Case(
        "heals_itself",
        "it snapshotted by itself",
        "SELF_HEALED",
        "gtid",
        heals_itself,
        not_on_mariadb="its connector (3.5.0) does not see a purged position at its start, and fails instead of copying",
    ),
)
