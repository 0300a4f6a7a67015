"""What Canal says when it fails; what MySQL says to it (errno 1236) is known by MySQL's own texts."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, NO_LOG, WHICH_SERVER, KnownText
from airflow_cdc.decisions.diagnosis.pasted import Voice

VOICE: Final = Voice(
    "Canal",
    20,
    r"com\.alibaba\.otter\.canal|\bc\.a\.o\.c\w*\.|\bCanal\w*Exception|\[destination = ",
    ended=r"dump address \S+ has an error, retrying",
    healed=r"find start position successfully",
)
TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "SOURCE_MISCONFIGURED",
        128,
        r"pls check\. you need \(at least one of\) the SUPER,REPLICATION CLIENT",
        "the server answered Canal's `show master status` with nothing: it keeps no binary log, or Canal's user lacks"
        " REPLICATION CLIENT",
        ask="SELECT @@log_bin; SHOW GRANTS (of Canal's user)",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        148,
        r"show master status.{0,400}You have an error in your SQL syntax|"
        r"(otter|Canal|ErrorPacket).{0,2000}You have an error in your SQL syntax.{0,200}master status",
        "Canal asks `show master status`, which MySQL 8.4 and later do not know: it can start there from a given position only",
        otherwise=NO_LOG,
        ask=WHICH_SERVER,
    ),
    KnownText(
        "BINLOG_PURGED",
        143,
        r"can't find start position for|Didn't find the corresponding binlog files",
        "Canal looked for its place by time, and the log from that time on is no longer on the server",
        otherwise=(
            ("SOURCE_CHANGED", "the cursor is of another address, so Canal does not use its position, only its time"),
            ("OFFSET_MISSING", "neither a cursor nor instance.properties names a position"),
        ),
        ask="SHOW BINARY LOGS, and the cursor's timestamp and identity (is there a file from before that time, and is that the"
        " address in instance.properties?)",
        says="can't find start position for …",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        144,
        r"JSONException.{0,6000}(ZooKeeper|FileMixed)MetaManager|(ZooKeeper|FileMixed)MetaManager.{0,6000}JSONException|"
        r"autoType is not support|CanalMetaManagerException|JSONException[^\n]{0,200}clientDatas",
        "Canal's cursor (meta.dat, or its node in ZooKeeper) cannot be read, as one without its @type or with a class that this"
        " version does not know: a restart does not help",
        says="JSONException: read field error : clientDatas",
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
        r"column size is not match|parse row data failed|fetch failed by table meta|"
        r"unmatch column metadata|with command: show create table|process query failed\. pls submit",
        "Canal cannot decode an event: it does not know the table as it was when the event was written",
    ),
    KnownText(
        "POSITION_MID_EVENT",
        125,
        r"TableIdNotFoundException|not found tableId",
        "the cursor is inside a transaction, after the description of its tables: set it to where a transaction begins",
        otherwise=(
            (
                "CONNECTOR_FAILED_TRANSIENT",
                "said once: Canal looks for the transaction's beginning by itself and reads on",
            ),
        ),
        ask="SHOW BINLOG EVENTS IN 'FILE' FROM POSITION LIMIT 3 with the cursor's journalName and position (does a Gtid,"
        " Anonymous_Gtid or Query event come first?)",
        says="TableIdNotFoundException: not found tableId",
    ),
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        126,
        r"No route info (of|for) this topic",
        "RocketMQ's name server knows no broker for the topic: it does not exist there, or its name lacks the instance's",
        says="No route info of this topic",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        127,
        r"the message body size over max value|MQBrokerException|MQClientException: CODE|PulsarClientException\$\w+",
        "the message system refuses what it is sent (its size, the login, or a call that this version does not know), and is"
        " sent it again without end: the message says which",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        179,
        r"NoNode for /otter/canal|no alive canal server",
        "a client of Canal finds no server that runs its destination: none is started, or the destination has another name",
        otherwise=(
            ("CONNECTOR_FAILED_TRANSIENT", "a server of the cluster has ended, and another one has not taken over yet"),
        ),
        ask="ls /otter/canal/destinations in ZooKeeper (is the destination there, with a node below cluster?)",
        says="no alive canal server · NoNode for /otter/canal/destinations/…",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        198,
        r"Remoting(SendRequest|Timeout|Connect|TooMuchRequest)Exception|MQClientException|AsynchronousCloseException|"
        r"ClosedChannelException",
        CUT,
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        38,
        r"should execute connector\.connect\(\) first",
        "Canal's second connection, by which it asks for a table's columns, was closed: it connects again, or a restart does",
    ),
    KnownText(
        "SOURCE_MISCONFIGURED",
        37,
        r"Unsupported Binlog(Format|Image)",
        "the server's log does not hold whole rows (binlog_format=ROW and binlog_row_image=FULL do)",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        156,
        r"destination:\S+ should start first|ThreadPoolExecutor\.<init>.{0,600}MysqlMultiStageCoprocessor|"
        r"MysqlMultiStageCoprocessor.{0,600}ThreadPoolExecutor\.<init>",
        "Canal's configuration cannot work: the destination is not started, or parser.parallelThreadSize is 0",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        188,
        r"connect .{0,80} failure.{0,6000}(NullPointerException|IndexOutOfBoundsException)",
        "Canal could not read what the server answered at its login, as where the server refuses its address or it has no"
        " password: a client on Canal's machine, with its user, is told why",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        194,
        r"connect .{0,80} failure|EOF encountered|Connection refused|Connection reset|Broken pipe|No route to host|UnknownHostException|"
        r"unexpected end stream|EOFException|SocketTimeoutException|connect timed out|Read timed out|"
        r"Timeout occurred, failed to read|something goes wrong with channel",
        CUT,
    ),
)
