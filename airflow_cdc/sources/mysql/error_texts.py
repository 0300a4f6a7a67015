"""MySQL's errors to a connector that it no longer serves, as connectors report them."""

from __future__ import annotations

import re
from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, KnownText
from airflow_cdc.sources.mysql.position import BinlogPosition

_SEEN_ON_SERVER: Final = re.compile(r"[\w\-]+\.\d+")


def _by_files(match: re.Match[str]) -> tuple[str, str]:
    """If the connector lists the server's files, they show whether its own file was older or newer than all of them."""
    wanted = BinlogPosition(match[1], 0)
    listed = [BinlogPosition(name, 0) for name in _SEEN_ON_SERVER.findall(match[2])]
    comparable = [one for one in listed if one.comparable(wanted)]
    if not comparable:
        return "SOURCE_CHANGED", "the server's log files have another name than the stored one"
    if all(one.file_number < wanted.file_number for one in comparable):
        return (
            "POSITION_AHEAD",
            "the stored file is newer than every file of the server: it was reset, rebuilt or restored",
        )
    return "BINLOG_PURGED", "the stored file is older than every file that the server still has"


BY_FILES: Final = KnownText(
    "BINLOG_PURGED",
    5,
    r"requires binlog file '([^'\s]+\.\d+)', but \w+ only has ((?:[\w.\-]+,\s*(?:…\s*)?)*[\w.\-]+)",
    "the connector lists the server's files",
    refined=_by_files,
)
# MariaDB's servers and clients say these in the same words
SHARED: Final[tuple[KnownText, ...]] = (
    BY_FILES,
    KnownText(
        "DUPLICATE_SERVER_ID",
        10,
        r"(slave|replica) with the same server_uuid/server_id",
        "two clients read the log with one server id, and the server disconnects one of them",
    ),
    KnownText(
        "POSITION_MID_EVENT",
        30,
        r"binlog truncated in the middle of event|bogus data in log event|log event entry exceeded max_allowed_packet",
        "the position is inside an event, or the event there is cut off (a full disk does that)",
    ),
    KnownText(
        "POSITION_PAST_END",
        40,
        r"(impossible position|position > file size|start(ing)? position.{0,40}past the end)",
        "the position is beyond the end of the file: the server lost changes that were read from it",
    ),
    KnownText(
        "BINLOG_PURGED",
        90,
        r"could not find first log file name in binary log index",
        "the requested binlog file is no longer on the server",
    ),
    KnownText("CONNECTOR_FAILED", 140, r"access denied|public key retrieval is not allowed", LOGIN_REFUSED),
    KnownText(
        "CONNECTOR_FAILED",
        150,
        r"(slave|replica) failed to (register|initialize)|REPLICATION (SLAVE|CLIENT|REPLICA) privilege",
        "the connector's user lacks a privilege",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        190,
        r"Communications link failure|EventDataDeserializationException.{0,200}end of stream|"
        r"Failed to read next byte from position|Lost connection to|server has gone away|Server shutdown in progress|"
        r"Too many connections|BinlogNetworkException|Connection was killed",
        CUT,
    ),
)
TEXTS: Final[tuple[KnownText, ...]] = (
    *SHARED,
    KnownText(
        "GTID_MODE_MISMATCH",
        20,
        r"anonymous transaction when @@GLOBAL\.GTID_MODE = ON|GTID_MODE\s*=\s*(OFF|ON).{0,60}AUTO_POSITION"
        r"|requested.{0,40}GTID.{0,60}GTID_MODE",
        "gtid_mode was switched while transactions of the other kind were still in the log",
    ),
    KnownText(
        "GTID_PURGED",
        50,
        r"purged binary logs containing GTIDs|start replication from purged GTIDs|purged required binary logs",
        "transactions that were not yet read were purged",
    ),
    KnownText(
        "GTID_NOT_CONTAINED",
        60,
        r"(slave|replica) has more GTIDs than|more GTIDs than the (master|source) has",
        "the stored set holds transactions that this server never had, or lost",
    ),
    KnownText("CONNECTOR_FAILED", 141, r"caching_sha2_password", LOGIN_REFUSED),
)
