"""What a Flink job says when its MySQL source fails; the server's own messages are known by MySQL's texts."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, KnownText

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "BINLOG_PURGED",
        109,
        r"trying to read binlog starting at Struct\{version=1\.[^\n]{0,400}name=mysql_binlog_source",
        "the position that the job stored is not on the server: its log was purged, or another server answers (Flink CDC says"
        " the same of both, and never names the GTID set)",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        152,
        r"Failed to rollback to checkpoint/savepoint|There is no operator for the state|Cannot map checkpoint/savepoint state",
        "the job does not fit the state that it was started from: its statement changed, or an operator has another id",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        149,
        r"Cannot read the binlog filename and position via 'SHOW MASTER STATUS'|"
        r"You have an error in your SQL syntax[^\n]{0,200}MASTER STATUS",
        "Flink CDC asks `SHOW MASTER STATUS`, which MySQL 8.4 and later do not know: it cannot read this server",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        195,
        r"Communications link failure|Connection refused|Connection reset|Broken pipe|No route to host|UnknownHostException|"
        r"EOFException|SocketTimeoutException|connect timed out|Read timed out|TaskManager .{0,80}(no longer reachable|timed out)",
        CUT,
    ),
)
