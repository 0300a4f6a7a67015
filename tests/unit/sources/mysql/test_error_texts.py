"""What MySQL prints to a connector that it no longer serves, and what it must be explained as; a clue said before names a failure more exactly."""

from __future__ import annotations

import pytest

from airflow_cdc.sources.mysql.error_texts import SHARED, TEXTS
from tests.diagnosing import finding
from tests.unit.explained import Said, are_all_met, are_on_the_page, have_ranks_of_their_own, is_explained

_1236 = "Error code: 1236; SQLSTATE: HY000."
_SYNTAX = "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near 'MASTER STATUS' at line 1"
_UNREAD = "known by the server but not processed yet 'a1:301-999', for replication are available only"
LINES = (
    Said("BINLOG_PURGED", "older than every file", "Connector requires binlog file 'binlog.000559', but MySQL only has binlog.000561, binlog.000562"),
    Said("POSITION_AHEAD", "newer than every file", "Connector requires binlog file 'binlog.000559', but MySQL only has binlog.000001, binlog.000002"),
    Said("SOURCE_CHANGED", "have another name", "Connector requires binlog file 'binlog.000559', but MySQL only has mysql-bin.000001, mysql-bin.000002"),
    Said("DUPLICATE_SERVER_ID", "two clients read the log", f"A replica with the same server_uuid/server_id as this replica has connected to the source; the first event 'binlog.000002' at 157 {_1236}"),
    Said("DUPLICATE_SERVER_ID", "two clients read the log", "[Warning] [MY-010988] [Repl] While initializing dump thread for slave with server_id <5401>, found a zombie dump thread with the same server_id. Master is killing the zombie dump thread(799).", ("CONNECTOR_FAILED_TRANSIENT",), "SHOW PROCESSLIST"),
    Said("SOURCE_MISCONFIGURED", "does not hold whole rows", "The MySQL server is not configured to use a ROW binlog_format, which is required for this connector to work properly."),
    Said("SOURCE_MISCONFIGURED", "a session wrote statements", "Received DML 'update orders set state = 'done' where id < 400' for processing, binlog probably contains events generated with statement or mixed based replication format"),
    Said("SOURCE_MISCONFIGURED", "the server keeps no binary log", "java.sql.SQLException: You are not using binary logging"),
    Said("CONNECTOR_FAILED", "read it with the MariaDB connector", f"Failed to replace GTID event with backwards-compatible event: corrupt event.; the first event 'mariadb-bin.000138' at 4 {_1236}"),
    Said("CONNECTOR_FAILED", "one event or row is larger", "com.mysql.cj.jdbc.exceptions.PacketTooBigException: Packet for query is too large (91,223,110 > 67,108,864). You can change this value on the server by setting the 'max_allowed_packet' variable."),
    Said("CONNECTOR_FAILED", "one event is larger", "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source; the first event 'binlog.000123' at 812, the last event read from './binlog.000123' at 126", ("POSITION_MID_EVENT",), "'binlog.000123' FROM 812"),
    Said("POSITION_MID_EVENT", "inside an event", "binlog truncated in the middle of event; consider out of disk space on source; the first event 'binlog.000044' at 9120"),
    Said("BINLOG_PURGED", "the file after the one that was read", "could not find next log; the first event 'bin.000201' at 88120, the last event read from '/var/lib/mysql/bin.000201' at 1073742020", ("POSITION_PAST_END",), "SHOW BINARY LOGS"),
    Said("POSITION_PAST_END", "beyond the end of the file", f"Client requested source to start replication from position > file size {_1236}"),
    Said("BINLOG_PURGED", "the requested binlog file is no longer", f"Could not find first log file name in binary log index file {_1236}"),
    Said("CONNECTOR_FAILED", "cannot read its own log file", "'Failed to decrypt content read from binlog file.; the first event '' at 4'"),
    Said("CONNECTOR_FAILED", "does not know the checksum", "'Slave can not handle replication events with the checksum that master is configured to log; the first event 'bin.000002' at 4'"),
    Said("SOURCE_MISCONFIGURED", "lacks the right to see where the log is", "Caused by: java.sql.SQLSyntaxErrorException: Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s) for this operation"),
    Said("CONNECTOR_FAILED", "lacks a privilege", "java.sql.SQLSyntaxErrorException: SELECT command denied to user 'cdc'@'10.20.9.1' for table 'orders'"),
    Said("CONNECTOR_FAILED", "refuses the connector's login", "java.sql.SQLException: Access denied for user 'cdc'@'10.20.9.1' (using password: YES)"),
    Said("CONNECTOR_FAILED", "refuses this kind of connection", "java.sql.SQLException: Connections using insecure transport are prohibited while --require_secure_transport=ON."),
    Said("CONNECTOR_FAILED", "asks `SHOW MASTER STATUS`", f"io.debezium.DebeziumException: java.sql.SQLSyntaxErrorException: {_SYNTAX}", ("SOURCE_MISCONFIGURED",), "@@version"),
    Said("CONNECTOR_FAILED", "asks `SHOW MASTER STATUS`", "io.debezium.DebeziumException: Cannot read the binlog filename and position via 'SHOW MASTER STATUS'. Make sure your server is correctly configured", ("SOURCE_MISCONFIGURED",), "@@log_bin"),
    Said("CONNECTOR_FAILED_TRANSIENT", "altered while the connector read it", "java.sql.SQLException: Table definition has changed, please retry transaction"),
    Said("CONNECTOR_FAILED_TRANSIENT", "a connection was cut", "WARNING: Failed to restore connection to db:3306. Next attempt in 60000ms"),
    Said("GTID_MODE_MISMATCH", "gtid_mode was switched", "The replication sender thread cannot start in AUTO_POSITION mode: this server has GTID_MODE = OFF_PERMISSIVE instead of ON."),
    Said("GTID_PURGED", "not yet read were purged", f"Cannot replicate because the source purged required binary logs. Replicate the missing transactions from elsewhere {_1236}"),
    Said("GTID_NOT_CONTAINED", "never had, or lost", f"Replica has more GTIDs than the source has, using the source's SERVER_UUID. {_1236}"),
    Said("CONNECTOR_FAILED", "refuses the connector's login", "Authentication plugin 'caching_sha2_password' reported error: Authentication requires secure connection."),
    Said("CONNECTOR_FAILED", "refuses the connector's login", "java.sql.SQLException: Unable to load authentication plugin 'caching_sha2_password'."),
    Said("CONNECTOR_FAILED", "parser does not know this statement", "io.debezium.text.ParsingException: DDL statement couldn't be parsed. Please open a Jira issue with the statement 'ALTER USER 'app'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$x''"),
)  # fmt: skip
LOOKED_FOR = (
    "same server_uuid/server_id",
    "ROW binlog_format",
    "Failed to replace GTID event",
    "exceeded max_allowed_packet",
    "binlog truncated in the middle of event",
    "could not find next log",
    "position > file size",
    "Could not find first log file name",
    "'SHOW MASTER STATUS'",
    "anonymous transaction when @@GLOBAL.GTID_MODE = ON",
    "the source purged required binary logs",
    "Slave has more GTIDs than the master has",
)
_AT = "[2026-10-02 02:1{}:00,000] {} [shop|task-0] {}\n"
# what is said of the failure, and the failure as the connector ends with it
PURGED = "Could not find first log file name in binary log index file"
GTIDS_PURGED = "Cannot replicate because the source purged required binary logs"
BY_SET = "The connector is trying to read redo log starting at X [restartGtidSet='a1:1-240'], but this is no longer available on the server"
REFUSED = "Access denied for user 'cdc'@'10.0.0.9' (using password: YES)"
FILES = (
    "Connector requires binlog file 'binlog.000559', but MySQL only has binlog.000001, binlog.000002 (io.debezium.X:1)"
)
MODE = "Connector used GTIDs previously, but MySQL server does not know of any GTIDs or they are not enabled (io.debezium.X:1)"
MISSING = f"GTIDs {_UNREAD} 'a1:801-999' (io.debezium.X:1)"
STRANGE = "GTID set 'a1:1-300' does not contain the GTID set 'a1:1-999' required by the connector (io.debezium.X:1)"
CLUES = (
    (FILES, PURGED, "POSITION_AHEAD"),
    (FILES, REFUSED, "POSITION_AHEAD"),
    (MODE, PURGED, "GTID_MODE_MISMATCH"),
    (MODE, GTIDS_PURGED, "GTID_MODE_MISMATCH"),
    (MISSING, PURGED, "GTID_PURGED"),
    (STRANGE, PURGED, "GTID_NOT_CONTAINED"),
    (STRANGE, BY_SET, "GTID_NOT_CONTAINED"),
)


@pytest.mark.parametrize("said", LINES, ids=[one.line[:70] for one in LINES])
def test_what_mysql_prints_is_explained(said: Said) -> None:
    is_explained(said)


def test_each_row_is_needed_and_its_place_is_decided() -> None:
    are_all_met(TEXTS, LINES)
    have_ranks_of_their_own(TEXTS)
    assert set(SHARED) < set(TEXTS)


def test_what_people_look_for_is_among_first_aid() -> None:
    are_on_the_page(TEXTS, LOOKED_FOR)


@pytest.mark.parametrize(("clue", "failure", "code"), CLUES)
def test_what_was_said_before_a_failure_names_it_more_exactly(clue: str, failure: str, code: str) -> None:
    ended = _AT.format(2, "ERROR", "WorkerSourceTask{id=shop-0} Task is being killed") + f"java.lang.X: {failure}\n"
    assert finding(_AT.format(1, "INFO", clue) + ended).leads.code == code


def test_what_a_connector_says_at_every_start_is_no_clue_to_another_failure() -> None:
    """Where the server has all that is missing, the two sets are the same, and a refused login stays one."""
    whole = f"GTIDs {_UNREAD} 'a1:301-999' (io.debezium.X:1)"
    ended = _AT.format(2, "ERROR", "WorkerSourceTask{id=shop-0} Task is being killed")
    for clue, failure, code in (
        (whole, PURGED, "BINLOG_PURGED"),
        (MISSING, REFUSED, "CONNECTOR_FAILED"),
        (STRANGE, REFUSED, "CONNECTOR_FAILED"),
    ):
        assert finding(_AT.format(1, "INFO", clue) + ended + f"java.lang.X: {failure}\n").leads.code == code
