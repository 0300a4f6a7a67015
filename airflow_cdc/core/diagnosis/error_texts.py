"""What connectors, servers and clients say when something is wrong, and which problem that is: one table of texts.

A text names a problem; it proves nothing about the server. The diagnosis therefore uses these rows only to tell one
connector failure from another, and `explain`, which has nothing but text, says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_cdc.core.diagnosis.evidence import shorten
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.sources.mysql.position import BinlogPosition

UNNAMED: Final = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Saying:
    """A row: a text (regular expression, case does not matter) and the problem that it names, with its meaning."""

    code: str
    pattern: str
    meaning: str

    def found(self, text: str) -> str:
        """The line in which the text stands, without secrets; "" if it does not."""
        match = re.search(self.pattern, text, re.IGNORECASE | re.DOTALL)
        if match is None:
            return ""
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.start())
        return shorten(mask_text(text[start : end if end >= 0 else None].strip()), 600)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a pasted text names: the problem, what it means, and the line that says so."""

    code: str
    meaning: str
    line: str


_REQUIRES: Final = re.compile(
    r"requires binlog file '([^']+)', but \w+ only has ((?:[\w.\-]+,\s*(?:…\s*)?)*[\w.\-]+)", re.IGNORECASE
)
_SEEN_ON_SERVER: Final = re.compile(r"[\w\-]+\.\d+")

# The first row that fits wins, so what is more exact stands first.
SAYINGS: Final[tuple[Saying, ...]] = (
    Saying(
        "DUPLICATE_SERVER_ID",
        r"(slave|replica) with the same server_uuid/server_id",
        "two clients read the log under one server id, and the server cuts one of them off",
    ),
    Saying(
        "GTID_MODE_MISMATCH",
        r"anonymous transaction when @@GLOBAL\.GTID_MODE = ON|GTID_MODE\s*=\s*(OFF|ON).{0,60}AUTO_POSITION"
        r"|requested.{0,40}GTID.{0,60}GTID_MODE",
        "gtid_mode was switched while transactions of the other kind were still in the log",
    ),
    Saying(
        "POSITION_MID_EVENT",
        r"binlog truncated in the middle of event|bogus data in log event|log event entry exceeded max_allowed_packet",
        "the position is inside an event, or the event there is cut off (a full disk does that)",
    ),
    Saying(
        "POSITION_PAST_END",
        r"(impossible position|position > file size|start(ing)? position.{0,40}past the end)",
        "the position is beyond the end of the file: the server lost what was read from it",
    ),
    Saying(
        "GTID_PURGED",
        r"purged binary logs containing GTIDs|start replication from purged GTIDs|purged required binary logs"
        r"|could not find GTID state requested by (slave|replica)",  # MariaDB
        "transactions that were not read yet were purged",
    ),
    Saying(
        "GTID_NOT_CONTAINED",
        r"(slave|replica) has more GTIDs than|more GTIDs than the (master|source) has"
        r"|requested to start from GTID [\d-]+, which is not in the (master|source)'s binlog",  # MariaDB
        "the stored set holds transactions that this server never had, or lost",
    ),
    Saying(
        "SNAPSHOT_INTERRUPTED",
        r"previously stopped while taking a snapshot",
        "the connector ended while it copied its tables; that copy is not whole",
    ),
    Saying(
        "SCHEMA_HISTORY_MISSING",
        r"db history topic (or its content )?is (fully or partially )?missing|(schema|database) history.{0,60}(missing|not found)",
        "the topic with the connector's table definitions is gone, or retention removed part of it",
    ),
    Saying(
        "BINLOG_PURGED",
        r"could not find first log file name in binary log index",
        "the binlog file that was asked for is not on the server any more",
    ),
    Saying(
        "GTID_PURGED",
        r"trying to read (change stream|redo log|binlog) starting at [^\n]{0,8000}restartGtidSet='(?!null)[^']+'"
        r"[^\n]{0,8000}no longer available",
        "transactions after the connector's set are not on the server any more",
    ),
    Saying(
        "BINLOG_PURGED",
        r"trying to read (binlog|change stream|redo log) starting at|is no longer available on the server",
        "the connector's position is not on the server any more",
    ),
    Saying(
        "BINLOG_PURGED",
        r"cannot advance replication slot to \S+, minimum is",
        "a replication slot only moves forward: what was asked for lies before it and is gone",
    ),
    Saying(
        "TRANSPORT_MISCONFIGURED",
        r"One or more records have been rejected|Compacted topic cannot accept message without key",
        "a table without a key writes into a compacted topic, which refuses messages without a key",
    ),
    Saying(
        "CONNECTOR_FAILED",
        r"access denied|authentication failed|not authorized|caching_sha2_password|"
        r"could not open.{0,40}certificate|PKIX path|public key retrieval is not allowed",
        "the server refuses the connector's login",
    ),
    Saying(
        "CONNECTOR_FAILED",
        r"(slave|replica) failed to (register|initialize)|REPLICATION (SLAVE|CLIENT|REPLICA) privilege",
        "the connector's user lacks a right",
    ),
    Saying(
        "CONNECTOR_FAILED",
        r"configuration is invalid|ConfigException|ClassNotFoundException|NoClassDefFoundError|"
        r"invalid value .{0,80} for configuration",
        "the connector's configuration cannot work",
    ),
    Saying(
        "CONNECTOR_FAILED",
        r"Error while deserializing binlog data of (date|datetime|timestamp)|Invalid date '[A-Z]+ \d+'",
        "a row of any table of the server, captured or not, holds a day that no month has, such as 2020-02-31 (stored under"
        " sql_mode ALLOW_INVALID_DATES): Debezium can't read past it, and a restart meets it again; correct such days, and"
        " recover from a position behind them",
    ),
    Saying(
        "CONNECTOR_FAILED",
        r"Tolerance exceeded in error handler|DataException|SerializationException|RecordTooLargeException|"
        r"Failed to deserialize data|Encountered change event .{0,200}whose schema isn't known",
        "one record or event cannot be converted: a restart meets it again",
    ),
    Saying(
        "CONNECTOR_FAILED_TRANSIENT",
        r"Communications link failure|Connection refused|Connection reset|Broken pipe|No route to host|"
        r"UnknownHostException|SocketException|EOFException|EventDataDeserializationException.{0,200}end of stream|"
        r"Failed to read next byte from position|"
        r"SocketTimeoutException|connect timed out|Read timed out|Lost connection to|server has gone away|"
        r"Server shutdown in progress|Too many connections|"
        r"TimeoutException|NotLeaderOrFollowerException|NetworkException|DisconnectException|"
        r"BinlogNetworkException|Failed to connect to|Connection was killed",
        "a connection was cut: once the other side answers again, the connector can go on",
    ),
)


def named(text: str) -> Explanation | None:
    """The first row that the text fits, or None."""
    for saying in SAYINGS:
        if line := saying.found(text):
            return Explanation(saying.code, saying.meaning, line)
    return None


def explain(text: str) -> Explanation:
    """The problem that a pasted log names, from its text alone; UNKNOWN where no row fits."""
    if (told := _by_files(text)) is not None:
        return told
    found = named(text)
    return found or Explanation(UNNAMED, "no text that is known stands in it", "")


def _by_files(text: str) -> Explanation | None:
    """A connector that lists the server's files says more than its error: was its own older, or newer than them all?"""
    match = _REQUIRES.search(text)
    if match is None:
        return None
    wanted = BinlogPosition(match[1], 0)
    listed = [BinlogPosition(name, 0) for name in _SEEN_ON_SERVER.findall(match[2])]
    comparable = [one for one in listed if one.comparable(wanted)]
    line = Saying("", re.escape(match[0]), "").found(text)
    if not comparable:
        return Explanation("SOURCE_CHANGED", "the server's log files have another name than the stored one", line)
    if all(one.file_number < wanted.file_number for one in comparable):
        meaning = "the stored file is newer than every file of the server: it was reset, rebuilt or restored"
        return Explanation("POSITION_AHEAD", meaning, line)
    return Explanation("BINLOG_PURGED", "the stored file is older than every file that the server still has", line)
