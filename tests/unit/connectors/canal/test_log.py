"""What Canal's log says, from lines of a real server (Canal 1.1.7, MySQL 8.0.15), and what its errors name."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_cdc.connectors.canal.error_texts import TEXTS
from airflow_cdc.connectors.canal.log import LogState, read_log, state_of
from airflow_cdc.core.error_texts import match
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.sources.mysql.error_texts import TEXTS as OF_MYSQL

THREAD = "[destination = shop , address = /127.0.0.1:34353 , EventParser]"
BEGUN = "2026-11-24 02:06:59.797 [main] INFO  c.a.o.c.i.s.CanalInstanceWithSpring - start CannalInstance for 1-shop "
FOUND = (
    f"2026-11-24 02:07:00.069 {THREAD} WARN  c.a.o.c.p.i.mysql.MysqlEventParser - ---> find start position successfully, "
    "EntryPosition[included=false,journalName=mysql-bin.000001,position=801] cost : 102ms , the next step is binlog dump"
)
REGISTERED = (
    f"2026-11-24 02:07:00.081 {THREAD} INFO  c.a.o.c.p.i.mysql.MysqlConnection - Register slave RegisterSlaveCommandPacket"
    "[reportHost=127.0.0.1,reportPort=42380,reportUser=debezium,reportPasswd=ce26bdc344313268,serverId=1979711489,command=21]"
)
REFUSED = (
    "java.io.IOException: Received error packet: errno = 1236, sqlstate = HY000 errmsg = "
    "Could not find first log file name in binary log index file"
)
FAILED = (
    f"2026-11-24 02:07:00.098 {THREAD} ERROR c.a.o.c.p.i.m.d.DirectLogFetcher - I/O error while reading from client socket",
    REFUSED,
    "\tat com.alibaba.otter.canal.parse.inbound.mysql.dbsync.DirectLogFetcher.fetch(DirectLogFetcher.java:102)",
    f"2026-11-24 02:07:00.104 {THREAD} ERROR c.a.o.c.c.alarm.LogAlarmHandler - destination:shop[{REFUSED}",
    "]",
    f"2026-11-24 02:07:00.105 {THREAD} INFO  c.a.o.c.p.d.mysql.MysqlConnector - disConnect MysqlConnection",
)
ENDED = (
    "2026-11-24 02:06:57.612 [Thread-3] INFO  c.a.o.c.i.c.AbstractCanalInstance - stop CannalInstance for null-shop "
)


def test_a_start_that_was_found_reads_and_an_error_after_it_does_not() -> None:
    assert state_of([]) == state_of([BEGUN]) == LogState()
    assert state_of([BEGUN, FOUND, REGISTERED]) == LogState(reads=True)
    failed = state_of([BEGUN, FOUND, REGISTERED, *FAILED])
    assert failed.failure.splitlines()[0] == f"I/O error while reading from client socket: {REFUSED}"
    assert not failed.reads


def test_an_error_counts_until_a_later_start_was_found_or_the_server_ended() -> None:
    assert state_of([BEGUN, FOUND, *FAILED, FOUND]) == LogState(reads=True)
    assert state_of([BEGUN, FOUND, *FAILED, ENDED]) == state_of([FOUND, *FAILED, BEGUN]) == LogState()


def test_an_error_of_another_thread_is_not_the_readers() -> None:
    sending = "2026-11-24 02:07:00.104 [pool-2-thread-1] ERROR c.a.o.canal.server.CanalMQStarter - process error!"
    assert state_of([FOUND, sending]) == LogState(reads=True)


def test_a_password_in_the_log_is_not_shown() -> None:
    shown = state_of(
        [FOUND, FAILED[0].replace("client socket", "client socket reportPasswd=hush-1,serverId=1"), REFUSED]
    )
    assert "hush-1" not in shown.failure
    assert "reportPasswd=***" in shown.failure


def test_a_log_that_is_not_there_yet_says_nothing_and_a_folder_is_an_error(tmp_path: Path) -> None:
    assert read_log(str(tmp_path / "shop.log"), "Canal") == LogState()
    with pytest.raises(ConnectorError, match=r"connector\.log"):
        read_log(str(tmp_path), "Canal")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Could not find first log file name in binary log index file", "BINLOG_PURGED"),
        ("Client requested source to start replication from position > file size", "POSITION_PAST_END"),
        ("bogus data in log event; the first event 'mysql-bin.000004' at 4469, the last event", "POSITION_MID_EVENT"),
        ("Cannot replicate because the source purged required binary logs. Replicate the missing", "GTID_PURGED"),
        ("Replica has more GTIDs than the source has, using the source's SERVER_UUID.", "GTID_NOT_CONTAINED"),
        (
            "A slave with the same server_uuid/server_id as this slave has connected to the master",
            "DUPLICATE_SERVER_ID",
        ),
    ],
)
def test_1236_is_told_by_its_message(text: str, code: str) -> None:
    packet = f"java.io.IOException: Received error packet: errno = 1236, sqlstate = HY000 errmsg = {text}"
    named = match((*OF_MYSQL, *TEXTS), packet)
    assert named is not None
    assert named.code == code
    assert match((*OF_MYSQL, *TEXTS), "java.io.IOException: Received error packet: errno = 1236") is None


def test_show_master_status_on_a_server_that_does_not_know_it() -> None:
    text = (
        "com.alibaba.otter.canal.parse.exception.CanalParseException: command : 'show master status' has an error!\n"
        "Caused by: java.io.IOException: ErrorPacket [errorNumber=1064, message=You have an error in your SQL syntax; check"
    )
    named = match((*OF_MYSQL, *TEXTS), text)
    assert named is not None
    assert (named.code, "given position" in named.meaning) == ("CONNECTOR_FAILED", True)


def test_a_connection_that_was_cut_is_transient() -> None:
    named = match(
        (*OF_MYSQL, *TEXTS),
        "java.io.IOException: connect /127.0.0.1:34353 failure\nCaused by: java.net.ConnectException",
    )
    assert named is not None
    assert named.code == "CONNECTOR_FAILED_TRANSIENT"
