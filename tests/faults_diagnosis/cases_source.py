"""Faults of the source and of the position in its log."""

from __future__ import annotations

import os

from airflow_cdc.core.report import Verdict
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.gtid import GtidSet
from stack.process import end
from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.subject import TABLES, Subject

UNLOGGED_CASCADE = "LOG_INCOMPLETE"
_TRANSACTION = ("gtid", "anonymous_gtid")
_ALWAYS_GTID = "MariaDB always counts by GTID"


def purge(subject: Subject) -> None:
    subject.stop()
    subject.write(20)
    subject.purge()


def reset(subject: Subject) -> None:
    for _ in range(3):
        subject.rotate()
    subject.write(20)
    subject.catch_up()
    subject.stop()
    subject.reset()


def reset_and_written(subject: Subject) -> None:
    reset(subject)
    subject.write(30)


def other_server(subject: Subject) -> None:
    """The same files under another server_uuid: what a rebuilt server looks like."""
    subject.stop()
    _restart(subject, forget_uuid=True)
    subject.write(20)


def cut_behind(subject: Subject) -> None:
    """The file ends before the stored position, as after a crash without sync_binlog."""
    file, at = _closed_file(subject)
    events = subject.sql(f"SHOW BINLOG EVENTS IN '{file}' LIMIT 9")
    begins = next(int(event[1]) for event in events if str(event[2]).lower() in _TRANSACTION)
    assert begins < at
    _restart(subject, cut=(file, begins))


def cut_within(subject: Subject) -> None:
    """The event at the stored position is cut off, as on a full disk."""
    file, at = _closed_file(subject)
    _restart(subject, cut=(file, at + 21))


def moved_by_hand(subject: Subject) -> None:
    """A position that somebody mistyped: some bytes into an event."""
    file, at = _closed_file(subject)
    subject.patch({"file": file, "pos": at + 3, "ts_sec": 1})


def lagging_replica(subject: Subject) -> None:
    """Another server, a copy of the first that lacks its last transactions."""
    subject.catch_up()
    subject.stop()
    (_mariadb_lags if subject.version.mariadb else _mysql_lags)(subject, subject.executed())


def _mariadb_lags(subject: Subject, held: str, by: int = 5) -> None:
    """Under its own id the server holds all but the last `by` transactions."""
    *_, last = held.split(",")
    domain, server, number = map(int, last.split("-"))
    subject.reset()
    subject.sql("SET GLOBAL server_id = 999", f"SET GLOBAL gtid_binlog_state = '{domain}-{server}-{number - by}'")


def _mysql_lags(subject: Subject, held: str) -> None:
    uuid = str(subject.sql("SELECT @@server_uuid")[0][0])
    last = max(high for server, _tag, spans in GtidSet.parse(held).items if server == uuid for _low, high in spans)
    lacks = f"{uuid}:{last - 4}-{last}"
    kept = str(subject.sql(f"SELECT GTID_SUBTRACT('{held}', '{lacks}')")[0][0])
    _restart(subject, forget_uuid=True)
    subject.reset()
    subject.sql(f"SET GLOBAL gtid_purged = '{kept}'")


def promoted(subject: Subject) -> None:
    """Another server under the old address, a copy of the first that lacks nothing.

    MySQL's connector has failed meanwhile. MariaDB's fails when it starts there, once the new server has written.
    """
    subject.catch_up()
    if subject.version.mariadb:
        subject.stop()
        _mariadb_lags(subject, subject.executed(), by=0)
        subject.write(20)
        subject.resume()
    else:
        _restart(subject, forget_uuid=True)
    subject.wait_failed()


def permissive(subject: Subject) -> None:
    subject.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE")


def strict(subject: Subject) -> None:
    subject.sql("SET GLOBAL gtid_mode = ON")


def gtids_forgotten(subject: Subject) -> None:
    """Somebody copied file and position only."""
    subject.catch_up()
    subject.stop()
    offset = subject.offset()
    subject.patch({"file": offset["file"], "pos": offset["pos"], "ts_sec": 1})


def ddl_passed(subject: Subject) -> None:
    """A column goes and another comes in a purged gap; then the position is moved to the end by hand."""
    table = f"{subject.name}.{TABLES[0]}"
    subject.stop()
    subject.sql(f"ALTER TABLE {table} ADD COLUMN w INT", f"ALTER TABLE {table} DROP COLUMN v")
    subject.purge()
    file, at = subject.end()
    subject.patch({"file": file, "pos": at, "gtids": subject.executed(), "ts_sec": 1})
    subject.resume()
    subject.wait_running()
    subject.sql(f"INSERT INTO {subject.name}.{TABLES[1]} VALUES (50, 'after')")
    subject.catch_up()


def half_rows(subject: Subject) -> None:
    subject.sql("SET GLOBAL binlog_row_image = 'MINIMAL'")


def whole_rows(subject: Subject) -> None:
    subject.sql("SET GLOBAL binlog_row_image = 'FULL'")


def partial_json(subject: Subject) -> None:
    subject.sql("SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'")


def whole_json(subject: Subject) -> None:
    subject.sql("SET GLOBAL binlog_row_value_options = ''")


def database_ignored(subject: Subject) -> None:
    """The server logs nothing of the pipeline's database; the connector sees an empty log and runs."""
    end(subject.mysql.child)
    subject.restart_server(f"--binlog-ignore-db={subject.name}")
    subject.call("POST", "/restart?includeTasks=true&onlyFailed=false")
    subject.wait_running()


def rolled_back(subject: Subject) -> None:
    """A table is compared; then an XA transaction writes into it, whose rows are sent at PREPARE, and is rolled back.

    The row is written again, so that the suite's last comparison finds both sides equal: what the night does about a ghost
    is tested beside the night.
    """
    table = f"{subject.name}.{TABLES[0]}"
    subject.control.compared(subject.source.xa(), {table: Verdict.MATCH})
    subject.sql("XA START 'x'", f"INSERT INTO {table} VALUES (90, 'ghost')", "XA END 'x'", "XA PREPARE 'x'")
    subject.sql("XA ROLLBACK 'x'", f"INSERT INTO {table} VALUES (90, 'written after all')")
    subject.write(91, 1)
    subject.catch_up()


def short_retention(subject: Subject) -> None:
    subject.catch_up()
    subject.stop()
    subject.write(20)
    subject.rotate()
    subject.sql("SET GLOBAL binlog_expire_logs_seconds = 7200")


def long_retention(subject: Subject) -> None:
    subject.sql("SET GLOBAL binlog_expire_logs_seconds = 2592000")


def cascade(subject: Subject) -> None:
    child, parent = (f"{subject.name}.{table}" for table in reversed(TABLES))
    subject.sql(
        f"ALTER TABLE {child} ADD CONSTRAINT goes FOREIGN KEY (id) REFERENCES {parent} (id) ON DELETE CASCADE",
        f"INSERT INTO {parent} VALUES (60, 'x')",
    )
    subject.catch_up()


def cascades(subject: Subject) -> str:
    """Only servers that do not log cascades have the fault."""
    return "HEALTHY" if subject.version.can(Capability.CASCADES_LOGGED) else UNLOGGED_CASCADE


def down(subject: Subject) -> None:
    end(subject.mysql.child)


def up(subject: Subject) -> None:
    subject.restart_server()


def _closed_file(subject: Subject) -> tuple[str, int]:
    """Stop at a position with changes behind it in the same file, which is then closed; (file, position)."""
    subject.catch_up()
    subject.stop()
    subject.write(20)
    subject.rotate()
    offset = subject.offset()
    return str(offset["file"]), int(offset["pos"])


def _restart(subject: Subject, *, cut: tuple[str, int] | None = None, forget_uuid: bool = False) -> None:
    end(subject.mysql.child)
    data = subject.mysql.datadir
    if forget_uuid:
        (data / "auto.cnf").unlink()
    if cut is not None:
        os.truncate(data / cut[0], cut[1])
    subject.restart_server()


CASES = (
    Case("healthy", "nothing", "HEALTHY", "gtid", lambda _s: None),
    Case("healthy_files", "nothing, without GTID", "HEALTHY", "files", lambda _s: None, not_on_mariadb=_ALWAYS_GTID),
    Case("source_down", "the source does not answer", "UNKNOWN", "files", down, up),
    Case("gtid_purged", "purged past the offset", "GTID_PURGED", "gtid", purge),
    Case(
        "binlog_purged",
        "purged past the offset, without GTID",
        "BINLOG_PURGED",
        "files",
        purge,
        not_on_mariadb=_ALWAYS_GTID,
    ),
    Case("reset_files", "RESET, without GTID", "POSITION_AHEAD", "files", reset, not_on_mariadb=_ALWAYS_GTID),
    Case(
        "other_server",
        "other server_uuid, same file names",
        "SOURCE_CHANGED",
        "files",
        other_server,
        not_on_mariadb="MariaDB has no server_uuid",
    ),
    Case("cut_behind", "the file ends before the position", "POSITION_PAST_END", "files", cut_behind),
    Case("cut_within", "the event at the position is cut off", "POSITION_MID_EVENT", "files", cut_within),
    Case("moved_by_hand", "a position inside an event", "POSITION_MID_EVENT", "files", moved_by_hand),
    Case(
        "permissive",
        "gtid_mode switched to ON_PERMISSIVE",
        "GTID_MODE_MISMATCH",
        "gtid",
        permissive,
        strict,
        not_on_mariadb="MariaDB has no gtid_mode",
    ),
    Case("gtids_forgotten", "offset with file and position only", "GTID_MISSING_IN_OFFSET", "gtid", gtids_forgotten),
    Case("ddl_passed", "position moved past a purged DDL", "DDL_IN_GAP", "gtid", ddl_passed),
    Case("half_rows", "binlog_row_image=MINIMAL", "SOURCE_MISCONFIGURED", "gtid", half_rows, whole_rows),
    Case(
        "partial_json",
        "binlog_row_value_options=PARTIAL_JSON",
        "SOURCE_MISCONFIGURED",
        "gtid",
        partial_json,
        whole_json,
        not_on_mariadb="MariaDB has no binlog_row_value_options",
    ),
    Case("database_ignored", "binlog_ignore_db", "SOURCE_MISCONFIGURED", "files", database_ignored, up),
    Case(
        "rolled_back",
        "XA ROLLBACK after XA PREPARE",
        "XA_ROLLED_BACK",
        "gtid",
        rolled_back,
    ),
    Case("short_retention", "stopped, two hours of log left", "AT_RISK", "gtid", short_retention, long_retention),
    Case("cascade", "ON DELETE CASCADE", cascades, "gtid", cascade),
    Case("lagging_replica", "a lagging copy was promoted", "GTID_NOT_CONTAINED", "gtid", lagging_replica),
    Case("reset_gtid", "RESET on a GTID server", "POSITION_AHEAD", "gtid", reset_and_written),
    Case(
        "reset_unwritten",
        "RESET on a GTID server, nothing written since",
        "POSITION_AHEAD",
        "gtid",
        reset,
        put_right_on_mariadb=lambda subject: subject.write(30, 1),
    ),
    Case(
        "promoted",
        "a copy that lacks nothing was promoted",
        "SOURCE_FAILED_OVER",
        "gtid",
        promoted,
        on_mariadb="CONNECTOR_FAILED",
    ),
)
