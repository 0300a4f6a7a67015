"""MySQL's errors to a connector that it no longer serves, as connectors report them."""

from __future__ import annotations

import re
from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, NO_LOG, WHICH_SERVER, KnownText
from airflow_cdc.sources.mysql.position import BinlogPosition

_SEEN_ON_SERVER: Final = re.compile(r"[\w\-]+\.\d+")
_EVENTS: Final = "SHOW BINLOG EVENTS IN '{file}' FROM {position} LIMIT 2"
_AT: Final = r"(?:[^\n]{0,200}?the first event '(?P<file>[^']+)' at (?P<position>\d+))?"
_INSIDE: Final = "the position is inside an event, or the event there is cut off (a full disk does that)"


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
    r"requires binlog file '([^'\s]+\.\d+)', but (?:the )?\w+ only has \[?((?:[\w.\-]+,\s*(?:…\s*)?)*[\w.\-]+)",
    "the connector lists the server's files",
    refined=_by_files,
    clue_for=("BINLOG_PURGED", "CONNECTOR_FAILED"),
)
_CLIENTS: Final = "SHOW PROCESSLIST (the clients with Command = 'Binlog Dump') and each connector's database.server.id"
# MariaDB's servers and clients say these in the same words
SHARED: Final[tuple[KnownText, ...]] = (
    BY_FILES,
    KnownText(
        "DUPLICATE_SERVER_ID",
        10,
        r"(slave|replica) with the same server_uuid/server_id|"
        r"'server-id' in the mysql cdc connector should be globally unique",
        "two clients read the log with one server id, and the server disconnects one of them",
        says="A replica with the same server_uuid/server_id as this replica has connected",
    ),
    KnownText(
        "DUPLICATE_SERVER_ID",
        9,
        r"found a zombie dump thread with the same (uuid|server_?id)",
        "two clients read the log with one server id, and the server disconnects one of them",
        otherwise=(
            ("CONNECTOR_FAILED_TRANSIENT", "the connector's own earlier connection was still there when it came back"),
        ),
        ask=_CLIENTS,
    ),
    KnownText(
        "SOURCE_MISCONFIGURED",
        22,
        r"(not configured to use|not appear to be using|is configured with|unexpected|unsupported)[^\n]{0,40}"
        r"binlog[_ ]?(format|row_image|row_value_options|image)|not appear to be using a full row-level binlog",
        "the server's log does not hold whole rows (binlog_format=ROW and binlog_row_image=FULL do)",
        says="not configured to use a ROW binlog_format (FULL binlog_row_image)",
    ),
    KnownText(
        "SOURCE_MISCONFIGURED",
        23,
        r"Received DML '[^\n]{0,8000}events generated with statement or mixed",
        "a session wrote statements instead of rows to the log: it set binlog_format for itself. What it changed is in no"
        " event, so compare the table afterwards",
    ),
    KnownText(
        "SOURCE_MISCONFIGURED",
        24,
        r"binary log is not open|you are not using binary logging|misconfigured (master|source) - server.?id was not set|"
        r"server is not configured with (the )?binlog|must be configured with (the )?log.bin",
        "the server keeps no binary log that a connector could read (log_bin, server_id)",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        25,
        r"Failed to replace GTID event with backwards-compatible event",
        "the server is MariaDB and the connector speaks MySQL: read it with the MariaDB connector",
        says="Failed to replace GTID event with backwards-compatible event",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        27,
        r"(log event entry exceeded max_allowed_packet[^\n]{0,200}?the first event '[^']+' at 4\b)|"
        r"Packet for query is too large|Got a packet bigger than 'max_allowed_packet'",
        "one event or row is larger than max_allowed_packet: raise it on the server, up to 1G, and restart the connector",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        28,
        rf"log event entry exceeded max_allowed_packet{_AT}",
        "one event is larger than max_allowed_packet: raise it on the server, up to 1G, and restart the connector",
        otherwise=(
            ("POSITION_MID_EVENT", f"{_INSIDE}: then no event begins at the position and its length is read from data"),
        ),
        ask=r"SHOW BINLOG EVENTS IN '\g<file>' FROM \g<position> LIMIT 2 (an error: no event begins there)",
        says="log event entry exceeded max_allowed_packet",
    ),
    KnownText(
        "POSITION_MID_EVENT",
        30,
        r"binlog truncated in the middle of event|bogus data in log event|event crc check failed|event invalid\b|"
        r"did not pass crc check",
        _INSIDE,
        says="binlog truncated in the middle of event · bogus data in log event",
    ),
    KnownText(
        "BINLOG_PURGED",
        31,
        r"could not find next log",
        "the file after the one that was read is not there: it was purged or moved away",
        otherwise=(("POSITION_PAST_END", "the position is beyond the end of the last file that there is"),),
        ask="SHOW BINARY LOGS (is the file that follows the one in the message in the list, and how long is that one?)",
        says="could not find next log",
    ),
    KnownText(
        "POSITION_PAST_END",
        40,
        r"(impossible position|position > file size|start(ing)? position.{0,40}past the end)",
        "the position is beyond the end of the file: the server lost changes that were read from it",
        says="Client requested source to start replication from position > file size",
    ),
    KnownText(
        "BINLOG_PURGED",
        90,
        r"could not find first log file name in binary log index|could not open log file|"
        r"File '[^'\n]+\.\d{6,}' not found \((OS errno|errcode)",
        "the requested binlog file is no longer on the server",
        says="Could not find first log file name in binary log index file (MySQL error 1236)",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        118,
        r"Failed to decrypt content read from binlog|I/O error reading log event|error reading log entry|"
        r"memory allocation failed reading log event|could not set up decryption for binlog",
        "the server cannot read its own log file (disk, memory or keyring): its error log says why",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        119,
        r"can not handle replication events with the checksum",
        "the connector does not know the checksum that the server adds to events (binlog_checksum)",
    ),
    KnownText(
        "SOURCE_MISCONFIGURED",
        137,
        r"you need \(at least one of\) the [^\n]{0,120}(SUPER|REPLICATION|BINLOG MONITOR|SLAVE MONITOR)",
        "the connector's user lacks the right to see where the log is: GRANT REPLICATION CLIENT (BINLOG MONITOR on MariaDB) and"
        " REPLICATION SLAVE",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        138,
        r"(slave|replica) failed to (register|initialize)|REPLICATION (SLAVE|CLIENT|REPLICA)\b[^\n]{0,40}privilege|"
        r"you need \(at least one of\) the|command denied to user|LOCK TABLES' privilege|"
        r"Access denied for user [^\n]{0,120} to database|\b(error|errno|code|errorNumber)\s*[=:]?\s*1(227|142|044)\b",
        "the connector's user lacks a privilege",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        140,
        r"access denied|public key retrieval is not allowed|\b(error|errno|code|errorNumber)\s*[=:]?\s*1045\b|"
        r"Failed to authenticate to the database|is not allowed to connect to this (MySQL|MariaDB) server|"
        r"Plugin '?\w+'? is not loaded|unsupported authentication (method|plugin)|Unexpected authentication result|"
        r"hat keine Zugriffsberechtigung|Accès refusé pour|Acceso negado para|Acesso negado para|Доступ закрыт для|"
        r"のアクセスは拒否されました|Accesso non consentito|접근이 거부",
        LOGIN_REFUSED,
    ),
    KnownText(
        "CONNECTOR_FAILED",
        141,
        r"insecure transport are prohibited|does not support SSL|SSLHandshakeException|No appropriate protocol|"
        r"is blocked because of many connection errors",
        "the server refuses this kind of connection: TLS, or too many failed tries from this host (FLUSH HOSTS)",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        149,
        r"(?P<error>You have an error in your SQL syntax).{0,400}master status|"
        r"master status.{0,2000}You have an error in your SQL syntax",
        "the engine asks `SHOW MASTER STATUS`, which MySQL 8.4 and later do not know: it needs a newer version",
        otherwise=NO_LOG,
        ask=WHICH_SERVER,
    ),
    KnownText(
        "CONNECTOR_FAILED",
        150,
        r"Cannot read the binlog filename and position via 'SHOW (MASTER|BINARY LOG) STATUS'",
        "the engine asks `SHOW MASTER STATUS`, which MySQL 8.4 and later do not know: it needs a newer version",
        otherwise=NO_LOG,
        ask=WHICH_SERVER,
        says="Cannot read the binlog filename and position via 'SHOW MASTER STATUS'",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        187,
        r"Table definition has changed, please retry transaction",
        "a table was altered while the connector read it for a snapshot: restart it when no statement changes the tables",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        190,
        r"Communications link failure|EventDataDeserializationException.{0,200}end of stream|"
        r"Failed to read next byte from position|Lost connection to|server has gone away|Server shutdown in progress|"
        r"Too many connections|BinlogNetworkException|Connection was killed|"
        r"Failed to connect to (MySQL|MariaDB)|No operations allowed after connection closed|"
        r"Could not create connection to database server|disconnected by the server because of inactivity|"
        r"Lock wait timeout exceeded|Deadlock found when trying|"
        r"Failed to restore (lost )?connection to|Trying to restore lost connection|BinaryLogClient was unable to connect|Query execution was interrupted|Unable to connect to the [^\n]{0,20}database",
        CUT,
    ),
)
TEXTS: Final[tuple[KnownText, ...]] = (
    *SHARED,
    KnownText(
        "GTID_MODE_MISMATCH",
        20,
        r"anonymous transaction when @@GLOBAL\.GTID_MODE = ON|anonymous transaction when AUTO_POSITION|"
        r"GTID_MODE\s*=\s*(OFF|ON).{0,60}AUTO_POSITION|requested.{0,40}GTID.{0,60}GTID_MODE|"
        r"GTID-transaction when @@GLOBAL\.GTID_MODE = OFF|"
        r"cannot start in AUTO_POSITION mode|used GTIDs previously, but [^\n]{0,40}does not know of any GTIDs",
        "gtid_mode was switched while transactions of the other kind were still in the log",
        clue_for=("BINLOG_PURGED", "GTID_PURGED"),
        says="Cannot replicate anonymous transaction when @@GLOBAL.GTID_MODE = ON",
    ),
    KnownText(
        "GTID_PURGED",
        50,
        r"purged binary logs containing GTIDs|start replication from purged GTIDs|purged required binary logs|"
        r"GTID that is not in the given gtid set|GTIDs needed to replicate have been already purged|"
        # said at every start with GTIDs: only where the two sets differ something is missing
        r"known by the server but not processed yet '?(?P<new>[^'\n]*?)'?, for replication are available only (?!'?(?P=new)'?\s)",
        "transactions that were not yet read were purged",
        clue_for=("BINLOG_PURGED",),
        says="the source purged required binary logs",
    ),
    KnownText(
        "GTID_NOT_CONTAINED",
        60,
        r"(slave|replica) has more GTIDs than|more GTIDs than the (master|source) has|"
        r"GTID set '[^\n']{0,20000}' does not contain the GTID set",
        "the stored set holds transactions that this server never had, or lost",
        clue_for=("BINLOG_PURGED", "GTID_PURGED"),
        says="Slave has more GTIDs than the master has · Replica has more GTIDs than the source has",
    ),
    # a statement may name the plugin, too: ALTER USER … IDENTIFIED WITH 'caching_sha2_password'
    KnownText(
        "CONNECTOR_FAILED",
        142,
        r"authentication[^\n]{0,40}caching_sha2_password|caching_sha2_password\W[^\n]{0,60}(authentication|loaded|requires)|"
        r"mysql_native_password' is not",
        LOGIN_REFUSED,
    ),
)
