"""What Flink prints when a job of Flink CDC fails, and what it must be explained as; and how its log tells an end from a recovery."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.flink.error_texts import TEXTS, VOICE
from tests.diagnosing import finding
from tests.unit.explained import Said, are_all_met, are_on_the_page, have_ranks_of_their_own, is_explained

LINES = (
    Said("BINLOG_PURGED", "the position that the job stored is not on the server", "Caused by: java.lang.IllegalStateException: The connector is trying to read binlog starting at Struct{version=1.9.8.Final,connector=mysql,name=mysql_binlog_source,ts_ms=1790000000000,db=,server_id=0,file=binlog.000090,pos=154,row=0}, but this is no longer available on the server. Reconfigure the connector to use a snapshot when needed.", ("SOURCE_CHANGED",), "SHOW BINARY LOGS"),
    Said("SCHEMA_HISTORY_MISSING", "the job has no definition of a table", "Caused by: org.apache.flink.util.FlinkRuntimeException: Read split MySqlBinlogSplit{splitId='binlog-split', offset={ts_sec=0, file=binlog.000003, pos=4}} error due to Encountered change event for table shop.orders whose schema isn't known to this connector."),
    Said("OFFSET_MISSING", "checkpoint or savepoint that the job was started from is not there", "java.io.FileNotFoundException: Cannot find checkpoint or savepoint file/directory 's3://jobs/savepoints/savepoint-26ea42-09c1' on file system 's3'."),
    Said("CONNECTOR_FAILED", "the job does not fit the state", "java.lang.IllegalStateException: Failed to rollback to checkpoint/savepoint s3://jobs/savepoints/savepoint-26ea42-09c1. Cannot map checkpoint/savepoint state for operator 9f1c to the new program, because the operator is not available in the new program."),
    Said("CONNECTOR_FAILED", "Flink CDC asks `SHOW MASTER STATUS`", "org.apache.flink.util.FlinkRuntimeException: Cannot read the binlog filename and position via 'SHOW MASTER STATUS'. Make sure your server is correctly configured", ("SOURCE_MISCONFIGURED",), "@@version"),
    Said("CONNECTOR_FAILED", "the job's options cannot work", "org.apache.flink.table.api.ValidationException: 'scan.incremental.snapshot.chunk.key-column' must be set when the table doesn't have primary keys."),
    Said("CONNECTOR_FAILED", "what its cluster gives it", "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire the minimum required resources."),
    Said("CONNECTOR_FAILED_TRANSIENT", "a connection was cut", "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException: Connection unexpectedly closed by remote task manager '10.0.0.7/10.0.0.7:41221'. This might indicate that the remote task manager was lost."),
)  # fmt: skip
OLDER = "2026-10-02 04:11:09,201 ERROR o.a.f.r.T [] - Access denied for user 'cdc'@'10.0.0.9' (using password: YES)\n"
READS = (
    "2026-10-02 04:12:09,201 INFO  o.a.f.r.e.ExecutionGraph [] - Source: orders (1/1) switched from INITIALIZING to RUNNING.\n",
    "2026-10-02 04:12:09,201 INFO  o.a.f.r.c.CheckpointCoordinator [] - Restoring job 8a9f from Checkpoint 12 @ 1790000000000.\n",
)
_MOON = "java.lang.IllegalStateException: the moon is full\n"
_FAILED = "2026-10-02 04:13:09,201 WARN  o.a.f.r.e.ExecutionGraph [] - "
ENDED = (
    f"{_FAILED}Source: orders (1/1) switched from RUNNING to FAILED on 10.0.0.7.\n{_MOON}",
    f"{_FAILED}Recovery is suppressed by NoRestartBackoffTimeStrategy\n{_MOON}",
)


@pytest.mark.parametrize("said", LINES, ids=[one.means for one in LINES])
def test_what_flink_prints_is_explained(said: Said) -> None:
    is_explained(said)


def test_each_row_is_needed_and_its_place_is_decided() -> None:
    are_all_met(TEXTS, LINES)
    have_ranks_of_their_own(TEXTS)


def test_the_purged_position_of_a_job_is_among_first_aid() -> None:
    are_on_the_page(TEXTS, ["name=mysql_binlog_source"])


@pytest.mark.parametrize("ended", ENDED)
def test_a_job_that_failed_for_a_reason_in_no_list_is_not_given_the_reason_of_an_older_error(ended: str) -> None:
    leads = finding(OLDER + ended).leads
    assert (leads.code, "in no list of ours" in leads.meaning) == ("CONNECTOR_FAILED", True)


@pytest.mark.parametrize("reads", READS)
def test_a_job_that_went_on_from_its_checkpoint_is_called_healed(reads: str) -> None:
    assert not finding(OLDER).healed
    assert finding(OLDER + reads).healed


@pytest.mark.parametrize(
    "package",
    [
        "org.apache.flink.runtime.taskmanager.Task",
        "com.ververica.cdc.connectors.mysql.MySqlSource",
        "com.alibaba.ververica.cdc.debezium.DebeziumSourceFunction",
        "o.a.f.r.taskmanager.Task",
    ],
)
def test_flink_is_named_by_its_packages_although_it_holds_debeziums(package: str) -> None:
    assert (
        finding(f"java.lang.OutOfMemoryError: x\n\tat {package}.run(T.java:1)\n\tat io.debezium.A.b(A.java:1)").engine
        == "Flink CDC"
    )
    assert VOICE.speaks(f"at {package}.run")
