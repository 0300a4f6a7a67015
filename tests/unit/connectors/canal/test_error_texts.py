"""What Canal prints when it fails, and what it must be explained as; and how its log tells a failure from a start."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.canal.error_texts import TEXTS, VOICE
from tests.diagnosing import finding
from tests.unit.explained import Said, are_all_met, are_on_the_page, have_ranks_of_their_own, is_explained

_NPE = "java.lang.NullPointerException: null"
LINES = (
    Said("SOURCE_MISCONFIGURED", "answered Canal's `show master status` with nothing", "com.alibaba.otter.canal.parse.exception.CanalParseException: command : 'show master status' has an error! pls check. you need (at least one of) the SUPER,REPLICATION CLIENT privilege(s) for this operation", (), "@@log_bin"),
    Said("CONNECTOR_FAILED", "Canal asks `show master status`", "Caused by: java.io.IOException: ErrorPacket [errorNumber=1064, fieldCount=-1, message=You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near 'master status' at line 1, sqlState=42000, sqlStateMarker=#]", ("SOURCE_MISCONFIGURED",), "@@version"),
    Said("BINLOG_PURGED", "Canal looked for its place by time", "com.alibaba.otter.canal.parse.exception.CanalParseException: can't find start position for shop", ("SOURCE_CHANGED", "OFFSET_MISSING"), "SHOW BINARY LOGS"),
    Said("CONNECTOR_FAILED", "Canal's cursor (meta.dat", "com.alibaba.fastjson.JSONException: autoType is not support. com.alibaba.otter.canal.protocol.position.LogPosition"),
    Said("CONNECTOR_FAILED", "a cursor has no identity", f"{_NPE}\n\tat com.alibaba.otter.canal.parse.inbound.mysql.MysqlEventParser.findStartPositionInternal(MysqlEventParser.java:409)"),
    Said("CONNECTOR_FAILED", "Canal cannot decode an event", "com.alibaba.otter.canal.parse.exception.CanalParseException: column size is not match for table:shop.orders,9 vs 8"),
    Said("POSITION_MID_EVENT", "the cursor is inside a transaction", "com.alibaba.otter.canal.parse.exception.TableIdNotFoundException: not found tableId:902", ("CONNECTOR_FAILED_TRANSIENT",), "SHOW BINLOG EVENTS"),
    Said("TRANSPORT_MISCONFIGURED", "RocketMQ's name server knows no broker", "org.apache.rocketmq.client.exception.MQClientException: No route info of this topic: shop"),
    Said("CONNECTOR_FAILED", "the message system refuses what it is sent", "org.apache.rocketmq.client.exception.MQClientException: CODE: 13  DESC: the message body size over max value, MAX: 4194304"),
    Said("CONNECTOR_FAILED", "a client of Canal finds no server", 'Exception in thread "main" org.I0Itec.zkclient.exception.ZkNoNodeException: org.apache.zookeeper.KeeperException$NoNodeException: KeeperErrorCode = NoNode for /otter/canal/destinations/shop/cluster', ("CONNECTOR_FAILED_TRANSIENT",), "ls /otter/canal/destinations"),
    Said("CONNECTOR_FAILED_TRANSIENT", "a connection was cut", "org.apache.rocketmq.remoting.exception.RemotingSendRequestException: send request to <10.0.0.7:10911> failed"),
    Said("CONNECTOR_FAILED_TRANSIENT", "a connection was cut", "com.alibaba.otter.canal.protocol.exception.CanalClientException: java.nio.channels.AsynchronousCloseException"),
    Said("CONNECTOR_FAILED_TRANSIENT", "Canal's second connection", "Caused by: com.alibaba.otter.canal.parse.exception.CanalParseException: java.io.IOException: should execute connector.connect() first"),
    # as a terminal wraps it; in one line MySQL's own text, which says the same, is first
    Said("SOURCE_MISCONFIGURED", "does not hold whole rows", "com.alibaba.otter.canal.parse.exception.CanalParseException: Unsupported\n    BinlogFormat STATEMENT"),
    Said("CONNECTOR_FAILED", "parser.parallelThreadSize is 0", "java.lang.IllegalArgumentException: null\n\tat java.util.concurrent.ThreadPoolExecutor.<init>(ThreadPoolExecutor.java:1314)\n\tat com.alibaba.otter.canal.parse.inbound.mysql.MysqlMultiStageCoprocessor.start(MysqlMultiStageCoprocessor.java:84)"),
    Said("CONNECTOR_FAILED", "what the server answered at its login", f"com.alibaba.otter.canal.parse.exception.CanalParseException: java.io.IOException: connect /192.0.2.7:3306 failure\nCaused by: java.io.IOException: connect /192.0.2.7:3306 failure\nCaused by: {_NPE}"),
    Said("CONNECTOR_FAILED_TRANSIENT", "a connection was cut", "java.io.IOException: EOF encountered."),
)  # fmt: skip
LOOKED_FOR = (
    "can't find start position for",
    "JSONException: read field error",
    "not found tableId",
    "No route info of this topic",
    "no alive canal server",
)
_AT = "2026-10-02 04:1{}:09.201 [destination = shop , address = /192.0.2.7:3306 , EventParser] {} "
OLDER = _AT.format(1, "ERROR") + "c.a.o.c.X - Access denied for user 'cdc'@'10.0.0.9' (using password: YES)\n"


@pytest.mark.parametrize("said", LINES, ids=[one.line[:70] for one in LINES])
def test_what_canal_prints_is_explained(said: Said) -> None:
    is_explained(said)


def test_each_row_is_needed_and_its_place_is_decided() -> None:
    are_all_met(TEXTS, LINES)
    have_ranks_of_their_own(TEXTS)


def test_what_people_look_for_is_among_first_aid() -> None:
    are_on_the_page(TEXTS, LOOKED_FOR)


def test_a_dump_that_ended_for_a_reason_in_no_list_is_not_given_the_reason_of_an_older_error() -> None:
    ended = _AT.format(3, "ERROR") + "c.a.o.c.p.X - dump address /192.0.2.7:3306 has an error, retrying. caused by \n"
    leads = finding(f"{OLDER}{ended}java.lang.IllegalStateException: the moon is full\n").leads
    assert (leads.code, "in no list of ours" in leads.meaning) == ("CONNECTOR_FAILED", True)


def test_a_canal_that_found_its_start_again_is_called_healed() -> None:
    found = _AT.format(2, "INFO") + "c.a.o.c.p.X - prepare to find start position successfully, binlog.000004:4\n"
    assert not finding(OLDER).healed
    assert finding(OLDER + found.replace("prepare to ", "---> ")).healed


@pytest.mark.parametrize(
    "wrote",
    [
        "\tat com.alibaba.otter.canal.parse.X.y(X.java:1)",
        "ERROR c.a.o.c.p.inbound.mysql.X - no",
        "CanalClientException: no",
        "[destination = shop , address = /192.0.2.7:3306]",
    ],
)
def test_canal_is_named_by_its_packages_although_it_holds_the_binlogs_client(wrote: str) -> None:
    assert (
        finding(f"java.lang.OutOfMemoryError: x\n{wrote}\n\tat com.github.shyiko.mysql.A.b(A.java:1)").engine == "Canal"
    )
    assert VOICE.speaks(wrote)
