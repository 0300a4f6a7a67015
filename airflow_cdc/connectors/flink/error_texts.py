"""What a Flink job says when its source fails; the server's own messages are known by the sources' texts."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, NO_LOG, WHICH_SERVER, KnownText
from airflow_cdc.decisions.diagnosis.pasted import Voice

VOICE: Final = Voice(
    "Flink CDC",
    10,
    r"org\.apache\.flink\.|com\.ververica\.cdc|com\.alibaba\.ververica|mysql_binlog_source|\bo\.a\.f\.",
    ended=r"switched from (state )?\w+ to FAIL|one or more fetchers have encountered exception|recovery is suppressed by|tolerable failure threshold",
    healed=r"switched from (state )?INITIALIZING to RUNNING|restored? from checkpoint|restoring job \S+ from",
)
TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "BINLOG_PURGED",
        99,
        r"trying to read binlog starting at Struct\{version=1\..{0,400}?name=mysql_binlog_source",
        "the position that the job stored is not on the server: its log was purged, or another server answers (Flink CDC says"
        " the same of both, and never names the GTID set)",
        otherwise=(("SOURCE_CHANGED", "another server answers, with other files"),),
        ask="SHOW BINARY LOGS, SELECT @@server_uuid, @@gtid_purged",
        says="trying to read binlog starting at Struct{version=1.9.8.Final,connector=mysql,name=mysql_binlog_source …",
    ),
    KnownText(
        "SCHEMA_HISTORY_MISSING",
        82,
        r"(flink|ververica|mysql_binlog_source).{0,20000}whose schema isn't known|"
        r"whose schema isn't known.{0,20000}(flink|ververica|mysql_binlog_source)",
        "the job has no definition of a table that it reads: the table is not in the state of the savepoint that it was started"
        " from. Start it with scan.newly-added-table.enabled, or from a savepoint that has the table",
    ),
    KnownText(
        "OFFSET_MISSING",
        85,
        r"Cannot find checkpoint or savepoint file/directory|Could not find any checkpoint|savepoint [^\n]{0,200}does not exist",
        "the checkpoint or savepoint that the job was started from is not there, so its position is not, either",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        152,
        r"Failed to rollback to checkpoint/savepoint|There is no operator for the state|Cannot map checkpoint/savepoint state",
        "the job does not fit the state that it was started from: its statement changed, or an operator has another id",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        129,
        r"(flink|ververica|mysql_binlog_source).{0,8000}(Cannot read the binlog filename and position via 'SHOW MASTER STATUS'|"
        r"You have an error in your SQL syntax.{0,400}MASTER STATUS)|"
        r"Cannot read the binlog filename and position via 'SHOW MASTER STATUS'.{0,8000}(flink|ververica)",
        "Flink CDC asks `SHOW MASTER STATUS`, which MySQL 8.4 and later do not know: it cannot read this server",
        otherwise=NO_LOG,
        ask=WHICH_SERVER,
    ),
    KnownText(
        "CONNECTOR_FAILED",
        153,
        r"Can't find any matched tables|does not match the configured timezone|Could not find any factory for identifier|"
        r"must be set when the table|primary key is necessary|flink\.table\.api\.ValidationException|The MySQL server has a timezone offset",
        "the job's options cannot work: tables that do not exist, a time zone that is not the server's, or a missing jar",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        158,
        r"Exceeded checkpoint tolerable failure threshold|Checkpoint expired before completing|"
        r"NoResourceAvailableException|Could not acquire the minimum required resources|Insufficient number of network buffers",
        "the job cannot work with what its cluster gives it: slots, memory, or time for a checkpoint",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        195,
        r"Communications link failure|Connection refused|Connection reset|Broken pipe|No route to host|UnknownHostException|"
        r"EOFException|SocketTimeoutException|connect timed out|Read timed out|"
        r"TaskManager .{0,80}(no longer reachable|timed out)|Connection unexpectedly closed by remote task manager",
        CUT,
    ),
)
