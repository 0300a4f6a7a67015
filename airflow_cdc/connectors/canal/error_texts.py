"""What Canal says when it fails; what MySQL says to it (errno 1236) is known by MySQL's own texts."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, KnownText

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "CONNECTOR_FAILED",
        148,
        r"show master status.{0,400}You have an error in your SQL syntax|"
        r"You have an error in your SQL syntax.{0,400}(master status|command\s*:?\s*'?show master)",
        "Canal asks `show master status`, which MySQL 8.4 and later do not know: it can start there from a given position only",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        143,
        r"can't find start position for",
        "Canal finds no position to start at: neither a cursor nor instance.properties names one that it can use",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        144,
        r"JSONException.{0,2000}ZooKeeperMetaManager|ZooKeeperMetaManager.{0,2000}JSONException|autoType is not support",
        "a cursor in ZooKeeper cannot be read, as one without its @type",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        146,
        r"NullPointerException.{0,400}MysqlEventParser\.findStartPosition",
        "a cursor has no identity, or not all of it",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        147,
        r"TableIdNotFoundException|column size is not match|parse row data failed",
        "Canal cannot decode an event: it does not know the table as it was when the event was written",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        194,
        r"connect .{0,80} failure|Connection refused|Connection reset|Broken pipe|No route to host|UnknownHostException|"
        r"unexpected end stream|EOFException|SocketTimeoutException|connect timed out|Read timed out",
        CUT,
    ),
)
