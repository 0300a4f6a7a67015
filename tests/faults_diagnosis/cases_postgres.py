"""Faults of a PostgreSQL source: its slots, its log, its publications, and which server answers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow_cdc.sources.postgres.session import connect
from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.cases_connector import offset_deleted
from tests.faults_diagnosis.cases_sink import CASES as OF_SINKS
from tests.faults_diagnosis.postgres import KEPT_GB, PostgresSubject
from tests.faults_diagnosis.subject import TABLES

Make = Callable[[PostgresSubject], None]
KEEP, IDLE = "max_slot_wal_keep_size", "idle_replication_slot_timeout"
AHEAD_BYTES = 64 << 20
UNREAD_S = 125.0  # the diagnosis allows two minutes
# what readers hold until the fault is undone
_HELD: list[Any] = []


# ---- the slot ----------------------------------------------------------------------------------


def slot_dropped(subject: PostgresSubject) -> None:
    subject.stop()
    subject.drop_slot()
    subject.write(20)
    subject.sql(f"DELETE FROM {subject.name}.orders WHERE id = 10")


def slot_dropped_with_ddl(subject: PostgresSubject) -> None:
    """No event tells of a column that was added in the gap."""
    slot_dropped(subject)
    subject.sql(f"ALTER TABLE {subject.name}.orders ADD COLUMN price numeric(8,2) DEFAULT 9.5")
    subject.write(30)


def slot_dropped_under_it(subject: PostgresSubject) -> None:
    """The connector loses it while it runs: to itself that looks like its connection."""
    end = f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{subject.name}'"
    drop = f"SELECT pg_drop_replication_slot('{subject.name}')"
    subject.sql(end)
    subject.wait(lambda: _tried(subject, drop), "the slot is dropped")
    subject.wait_failed()
    subject.write(20)


def _tried(subject: PostgresSubject, statement: str) -> bool:
    import psycopg

    try:
        subject.sql(statement)
    except psycopg.Error:
        subject.sql(
            f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{subject.name}'"
        )
        return subject.slot("slot_name") is None
    return True


def slot_lost(subject: PostgresSubject) -> None:
    """The slot kept more log than the server allows."""
    subject.stop()
    _set(subject, KEEP, "48MB")
    subject.wait(lambda: _filled(subject, lambda safe: safe <= 0), "the slot's allowance is used up", 60)
    subject.sql("CHECKPOINT")
    subject.wait(lambda: subject.slot("wal_status") == "lost", "the slot is lost")
    subject.write(20)


def slot_idle(subject: PostgresSubject) -> None:
    """Nobody read it for longer than the server allows."""
    subject.stop()
    _set(subject, IDLE, "1s")
    subject.wait(lambda: _checked(subject), "the slot is invalidated")
    subject.write(20)


def _checked(subject: PostgresSubject) -> bool:
    subject.fill_log()
    subject.sql("CHECKPOINT")
    return bool(subject.slot("invalidation_reason") == "idle_timeout")


def slot_at_risk(subject: PostgresSubject) -> None:
    """The connector stands still, and 30 MB are left."""
    subject.stop()
    _set(subject, KEEP, "48MB")
    subject.wait(lambda: _filled(subject, lambda safe: safe < 30 << 20), "some of the allowance is used up", 60)


def _filled(subject: PostgresSubject, enough: Callable[[int], bool]) -> bool:
    subject.fill_log()
    return enough(int(subject.slot("safe_wal_size") or 0))


def slot_grows(subject: PostgresSubject) -> None:
    """No limit, and a slot that keeps more than the pipeline's limit, which is set to nothing here."""
    subject.here_world.kept_gb = 0
    subject.world.register(subject.name, subject.server, [f"{subject.name}.{table}" for table in TABLES])
    subject.fill_log()


def kept_again(subject: PostgresSubject) -> None:
    subject.here_world.kept_gb = KEPT_GB


def slot_of_another_kind(subject: PostgresSubject) -> None:
    subject.stop()
    subject.drop_slot()
    subject.sql(f"SELECT pg_create_physical_replication_slot('{subject.name}')")


def slot_read_by_another(subject: PostgresSubject) -> None:
    subject.stop()
    endpoint = subject.source.endpoint
    reader = connect(endpoint, replication="database")
    name = subject.name
    start = f"START_REPLICATION SLOT \"{name}\" LOGICAL 0/0 (proto_version '1', publication_names '{name}')"
    reader.pgconn.send_query(start.encode())
    _HELD.append(reader)
    subject.wait(lambda: subject.slot("active") is True, "another reader has the slot")


def no_senders(subject: PostgresSubject) -> None:
    subject.stop()
    most = int(subject.sql("SHOW max_wal_senders")[0][0])
    _HELD.extend(connect(subject.source.endpoint, replication="database") for _ in range(most))
    subject.wait(lambda: subject.source.facts().wal_senders >= most, "all senders are taken")


# ---- the position ------------------------------------------------------------------------------


def slot_moved_on(subject: PostgresSubject) -> None:
    """Somebody moved the slot to the end of the log, past what the connector has read."""
    subject.stop()
    subject.write(20)
    subject.sql(f"SELECT pg_replication_slot_advance('{subject.name}', pg_current_wal_lsn())")


def offset_of_long_ago(subject: PostgresSubject) -> None:
    """An offset from before the slot: somebody put a backup of it back."""
    subject.stop()
    subject.patch({"lsn": 1, "lsn_proc": 1, "lsn_commit": 1, "txId": 1, "ts_usec": 1})
    subject.write(20)


def offset_ahead(subject: PostgresSubject) -> None:
    """An offset that is of another server, or of files that are not there any more."""
    subject.stop()
    stored = subject.offset()
    at = int(stored["lsn"]) + AHEAD_BYTES
    subject.patch({**stored, "lsn": at, "lsn_proc": at, "lsn_commit": at})
    subject.write(20)


def older_files(subject: PostgresSubject) -> None:
    """The server is restored from a copy of its files: same system, same timeline."""
    subject.stop()
    copy = Path(subject.postgres.folder) / "older"
    subject.stop_server()
    shutil.copytree(subject.data, copy)
    subject.start_server()
    subject.write(20)
    for _ in range(3):
        subject.fill_log()
    subject.resume()
    subject.wait_running()
    subject.catch_up()
    subject.stop()
    subject.put_back(copy)


def promoted(subject: PostgresSubject) -> None:
    """A standby that has the slot took over: another timeline."""
    subject.stop()
    subject.stop_server()
    (subject.data / "standby.signal").touch()
    subject.start_server()
    subject.sql("SELECT pg_promote()")
    subject.wait(lambda: subject.sql("SELECT pg_is_in_recovery()")[0][0] is False, "the standby is promoted")
    subject.write(20)


def promoted_without_slot(subject: PostgresSubject) -> None:
    promoted(subject)
    subject.drop_slot()


def other_cluster(subject: PostgresSubject) -> None:
    """The tables were moved to another cluster, and connector and pipeline led there."""
    subject.stop()
    subject.server = "own"
    subject.make_tables()
    subject.write(10)
    subject.sql(f"SELECT pg_create_logical_replication_slot('{subject.name}', 'pgoutput')")
    subject.world.register(subject.name, subject.server, [f"{subject.name}.{table}" for table in TABLES])
    subject.call("PUT", "/config", subject.settings())
    subject.write(20)


# ---- publication and tables --------------------------------------------------------------------


def publication_dropped(subject: PostgresSubject) -> None:
    subject.stop()
    subject.sql(f"DROP PUBLICATION {subject.name}")
    subject.write(20)


def table_unpublished(subject: PostgresSubject) -> None:
    """The connector runs, and the table's changes do not come."""
    subject.sql(f"ALTER PUBLICATION {subject.name} DROP TABLE {subject.name}.orders")
    subject.write(20)


def publication_made(subject: PostgresSubject) -> None:
    tables = ", ".join(f"{subject.name}.{table}" for table in TABLES)
    subject.sql(f"CREATE PUBLICATION {subject.name} FOR TABLE {tables}")


def table_published(subject: PostgresSubject) -> None:
    subject.sql(f"ALTER PUBLICATION {subject.name} ADD TABLE {subject.name}.orders")


def inserts_alone(subject: PostgresSubject) -> None:
    subject.sql(f"ALTER PUBLICATION {subject.name} SET (publish = 'insert')")


def identity_nothing(subject: PostgresSubject) -> None:
    subject.sql(f"ALTER TABLE {subject.name}.orders REPLICA IDENTITY NOTHING")


def inherited(subject: PostgresSubject) -> None:
    subject.sql(f"CREATE TABLE {subject.name}.more () INHERITS ({subject.name}.orders)")


def rights_taken(subject: PostgresSubject) -> None:
    subject.sql(f"REVOKE SELECT ON {subject.name}.orders FROM cdc")


def long_values(subject: PostgresSubject) -> None:
    """An update after the recovery leaves a long value alone: its event has a placeholder for it."""
    name = subject.name
    subject.sql(f"ALTER TABLE {name}.orders ALTER v SET STORAGE EXTERNAL")
    slot_dropped(subject)
    subject.sql(f"UPDATE {name}.orders SET v = repeat('long', 2000) WHERE id = 11")
    subject.after = (f"UPDATE {name}.orders SET id = id WHERE id = 11",)


# ---- the server --------------------------------------------------------------------------------


def not_logical(subject: PostgresSubject) -> None:
    """The log does not hold what decoding needs: the connector cannot even make its slot."""
    subject.world.register(subject.name, subject.server, [f"{subject.name}.{table}" for table in TABLES])
    subject.make_tables()
    subject.call("PUT", "/config", subject.settings())
    subject.wait_failed()


def silent(subject: PostgresSubject) -> None:
    subject.stop_server()


def password_changed(subject: PostgresSubject) -> None:
    """Its task does not fail: it tries again for ever, RUNNING, and the server says that nobody reads the slot."""
    subject.admin("ALTER ROLE debezium PASSWORD 'another'")
    subject.call("POST", "/restart?includeTasks=true")
    unread = "extract(epoch FROM clock_timestamp() - inactive_since)"
    subject.wait(lambda: (subject.slot(unread) or 0) > UNREAD_S, "nobody has read the slot for long", 240)


# ---- what undoes them --------------------------------------------------------------------------


def limits_gone(subject: PostgresSubject) -> None:
    _set(subject, KEEP, "-1")
    if subject.server != "pg15":
        _set(subject, IDLE, "0")


def readers_gone(_subject: PostgresSubject) -> None:
    while _HELD:
        _HELD.pop().close()


def password_back(subject: PostgresSubject) -> None:
    subject.admin(f"ALTER ROLE debezium PASSWORD '{subject.postgres.debezium.password}'")


def started_again(subject: PostgresSubject) -> None:
    subject.start_server()


def _set(subject: PostgresSubject, setting: str, value: str) -> None:
    subject.admin(f"ALTER SYSTEM SET {setting} = '{value}'", "SELECT pg_reload_conf()")
    subject.wait(lambda: subject.admin(f"SHOW {setting}")[0][0] == value, f"{setting} is {value}")


def _case(
    name: str, fault: str, expected: str, make: Make, undo: Make | None = None, *, server: str = "pg18", **more: Any
) -> Case:
    # a case of this module is only ever given a pipeline of PostgreSQL
    given: Any = make
    undone: Any = undo
    return Case(name, fault, expected, server, given, undone, pipeline=PostgresSubject, **more)


def _nothing(_subject: PostgresSubject) -> None:
    pass


# Of systems that are the same for every source, and whose faults tell of no log: made on a pipeline of PostgreSQL too.
_SHARED = (
    "new",
    "events_eaten",
    "topic_recreated",
    "apply_paused",
    "put_back",
    "died_half_way",
    "stamp_gone",
    "table_gone",
)
CASES: tuple[Case, ...] = (
    _case("healthy", "nothing", "HEALTHY", _nothing),
    _case("stopped", "somebody stopped the connector", "CONNECTOR_STOPPED", lambda s: s.stop()),
    _case("offset_deleted", "the offset was deleted", "OFFSET_MISSING", offset_deleted),
    _case("password", "the connector's password was changed", "CONNECTOR_LOOPING", password_changed, password_back),
    _case("slot_dropped", "the slot was dropped", "SLOT_MISSING", slot_dropped),
    _case("slot_dropped_15", "the slot was dropped", "SLOT_MISSING", slot_dropped, server="pg15"),
    _case("slot_dropped_keyless", "the slot was dropped, tables without a key", "SLOT_MISSING", slot_dropped, keyless=True),
    _case("slot_dropped_ddl", "the slot was dropped, and a column added in the gap", "SLOT_MISSING", slot_dropped_with_ddl),
    _case("slot_dropped_running", "the slot was dropped under a running task", "SLOT_MISSING", slot_dropped_under_it),
    _case("long_values", "the slot was dropped, long values in the rows", "SLOT_MISSING", long_values),
    _case("slot_lost", "max_slot_wal_keep_size was exceeded", "SLOT_INVALIDATED", slot_lost, limits_gone),
    _case("slot_lost_15", "max_slot_wal_keep_size was exceeded", "SLOT_INVALIDATED", slot_lost, limits_gone, server="pg15"),
    _case("slot_idle", "idle_replication_slot_timeout was exceeded", "SLOT_INVALIDATED", slot_idle, limits_gone),
    _case("slot_at_risk", "stopped, 30 MB of log left", "AT_RISK", slot_at_risk, limits_gone),
    _case("slot_grows", "nothing limits what the slot keeps", "SLOT_GROWS", slot_grows, kept_again),
    _case("slot_physical", "the slot is a physical one", "SOURCE_MISCONFIGURED", slot_of_another_kind),
    _case("slot_in_use", "another reader has the slot", "SLOT_ACTIVE_ELSEWHERE", slot_read_by_another, readers_gone),
    _case("no_senders", "max_wal_senders are taken", "MAX_WAL_SENDERS", no_senders, readers_gone),
    _case("slot_moved_on", "the slot was moved past the offset", "LSN_BEFORE_SLOT", slot_moved_on, asked=False),
    _case("offset_old", "an offset from before the slot", "LSN_BEHIND_RESTART", offset_of_long_ago),
    _case("offset_ahead", "an offset beyond the end of the log", "LSN_AHEAD", offset_ahead),
    _case("trusts_offset", "offset.mismatch.strategy=trust_offset", "CONNECTOR_MISCONFIGURED", _nothing, config={"offset.mismatch.strategy": "trust_offset"}),
    _case("drops_slot", "slot.drop.on.stop=true", "CONNECTOR_MISCONFIGURED", _nothing, config={"slot.drop.on.stop": "true"}),
    _case("publication_dropped", "the publication was dropped", "PUBLICATION_MISSING", publication_dropped, put_right=publication_made),
    _case("publication_dropped_15", "the publication was dropped", "PUBLICATION_MISSING", publication_dropped, put_right=publication_made, server="pg15"),
    _case("table_unpublished", "a table was taken out of the publication", "PUBLICATION_MISSING", table_unpublished, put_right=table_published),
    _case("inserts_alone", "the publication sends inserts alone", "SOURCE_MISCONFIGURED", inserts_alone),
    _case("identity_nothing", "REPLICA IDENTITY NOTHING", "REPLICA_IDENTITY", identity_nothing),
    _case("inherited", "another table inherits from it", "LOG_INCOMPLETE", inherited),
    _case("rights_taken", "SELECT was revoked", "SOURCE_MISCONFIGURED", rights_taken),
    *(replace(case, server="pg18", pipeline=PostgresSubject) for case in OF_SINKS if case.name in _SHARED),
    _case("not_logical", "wal_level = replica", "WAL_LEVEL", not_logical, set_up=False, server="plain"),
    _case("older_files", "the server was put back to older files", "LSN_AHEAD", older_files, server="own"),
    _case("promoted", "a standby with the slot was promoted", "OTHER_TIMELINE", promoted, server="own"),
    _case("promoted_bare", "a standby without the slot was promoted", "SLOT_MISSING", promoted_without_slot, server="own"),
    _case("other_cluster", "another cluster answers", "OTHER_SYSTEM", other_cluster, beside=("own",)),
    _case("silent", "the source does not answer", "UNKNOWN", silent, started_again, server="own"),
)  # fmt: skip
