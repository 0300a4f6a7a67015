"""Error texts of Debezium, Kafka Connect and the Java libraries below them when a connector fails."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, KnownText

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "SNAPSHOT_INTERRUPTED",
        70,
        r"previously stopped while taking a snapshot",
        "the connector stopped during its own snapshot; that copy is incomplete",
    ),
    KnownText(
        "SCHEMA_HISTORY_MISSING",
        80,
        r"db history topic (or its content )?is (fully or partially )?missing|(schema|database) history.{0,60}(missing|not found)",
        "the topic with the connector's table definitions is gone, or retention removed part of it",
    ),
    KnownText(
        "GTID_PURGED",
        100,
        r"trying to read (change stream|redo log|binlog) starting at [^\n]{0,8000}restartGtidSet='(?!null)[^']+'"
        r"[^\n]{0,8000}no longer available",
        "transactions after the connector's set are no longer on the server",
    ),
    KnownText(
        "BINLOG_PURGED",
        110,
        r"trying to read (binlog|change stream|redo log) starting at|is no longer available on the server",
        "the connector's position is no longer on the server",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        145,
        r"authentication failed|not authorized|could not open.{0,40}certificate|PKIX path",
        LOGIN_REFUSED,
    ),
    KnownText(
        "CONNECTOR_FAILED",
        160,
        r"configuration is invalid|ConfigException|ClassNotFoundException|NoClassDefFoundError|"
        r"invalid value .{0,80} for configuration",
        "the connector's configuration cannot work",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        170,
        r"Error while deserializing binlog data of (date|datetime|timestamp)|Invalid date '[A-Z]+ \d+'",
        "a row of some table of the server, captured or not, holds an impossible date such as 2020-02-31 (stored with"
        " sql_mode ALLOW_INVALID_DATES): Debezium can't read past it, and a restart does not help; correct such dates, and"
        " recover from a position after them",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        171,
        r"eventType=TABLE_MAP\b|Failed to read remaining \d+ of \d+ bytes from position \d+\. Block length: 0",
        "Debezium cannot read how the log describes some table of the server, captured or not. Seen with MySQL 8.0.15 and"
        " tables with YEAR columns: the server leaves them out of its list of numeric columns, Debezium counts them, and"
        " where that makes 9 of 8 (17 of 16, …) it fails at every change of the table. Make its YEAR columns SMALLINT, and"
        " recover from a position after that; a restart does not help",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        172,
        r"internal schema size \d+, but row size \d+",
        "the connector's list of a table's columns is not the server's: a session logged less than whole rows"
        " (binlog_row_image), or Debezium misread a DDL (a column with a backtick in its name that was dropped). A restart"
        " does not help; recover by full_snapshot, which reads past it",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        180,
        r"Tolerance exceeded in error handler|DataException|SerializationException|RecordTooLargeException|"
        r"Failed to deserialize data|Encountered change event .{0,200}whose schema isn't known",
        "one record or event cannot be converted: a restart does not help",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        191,
        r"Connection refused|Connection reset|Broken pipe|No route to host|UnknownHostException|SocketException|"
        r"EOFException|SocketTimeoutException|connect timed out|Read timed out|Failed to connect to",
        CUT,
    ),
)
