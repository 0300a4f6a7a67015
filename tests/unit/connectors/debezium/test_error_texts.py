"""What Debezium and Kafka Connect print when a connector fails, and what it must be explained as; and how their log tells an end from a start."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium.error_texts import TEXTS, VOICE
from tests.diagnosing import finding
from tests.unit.explained import Said, are_all_met, are_on_the_page, have_ranks_of_their_own, is_explained

_GTIDS = "0e1b2a4c-91d0-11ee-8b0e-0242ac130004:1-240"
_GONE = "but this is no longer available on the server. Reconfigure the connector to use a snapshot mode when needed."
_EVENT = "com.github.shyiko.mysql.binlog.event.deserialization"
LINES = (
    Said("SELF_HEALED", "took a snapshot of its own", "WARN MySQL|shop|task The last recorded offset is no longer available but we are in WHEN_NEEDED snapshot mode. Attempting to snapshot data to fill the gap."),
    Said("SNAPSHOT_INTERRUPTED", "stopped during its own snapshot", "io.debezium.DebeziumException: The connector previously stopped while taking a snapshot, but now the connector is configured to never allow snapshots."),
    Said("OFFSET_MISSING", "was to rebuild its definitions at its offset", "io.debezium.DebeziumException: Could not find existing binlog information while attempting schema only recovery snapshot"),
    Said("OFFSET_MISSING", "is no position of this kind of connector", "org.apache.kafka.connect.errors.ConnectException: Source offset 'file' parameter is missing"),
    Said("SCHEMA_HISTORY_MISSING", "the topic with the connector's table definitions is gone", "io.debezium.DebeziumException: The db history topic is missing. You may attempt to recover it by reconfiguring the connector to recovery."),
    Said("SCHEMA_HISTORY_MISSING", "does not get all of its table definitions", "java.lang.IllegalStateException: The database schema history couldn't be recovered. Consider to increase the value for schema.history.internal.kafka.recovery.poll.interval.ms", ("CONNECTOR_FAILED", "CONNECTOR_FAILED"), "kafka-get-offsets"),
    Said("SCHEMA_HISTORY_MISSING", "has no definition of a table that it captures", "Caused by: io.debezium.DebeziumException: Encountered change event for table shop.orders whose schema isn't known to this connector"),
    Said("CONNECTOR_FAILED", "another connector writes to this connector's history", "java.lang.IllegalStateException: Detected changed end offset of database history topic (previous: 41, current: 44). Make sure that the same history topic isn't shared by multiple connector instances."),
    Said("GTID_PURGED", "transactions after the connector's set", f"io.debezium.DebeziumException: The connector is trying to read change stream starting at MySqlOffsetContext{{restartGtidSet='{_GTIDS}', restartBinlogFilename='binlog.000002'}}, {_GONE}"),
    Said("BINLOG_PURGED", "the connector's position is no longer on the server", f"io.debezium.DebeziumException: The connector is trying to read redo log starting at MySqlOffsetContext [sourceInfo=SourceInfo [currentGtid=null, currentBinlogFilename=binlog.000017], restartGtidSet=null, currentGtidSet=null], {_GONE}"),
    Said("CONNECTOR_FAILED", "the worker has too little memory", "java.lang.OutOfMemoryError: Java heap space"),
    Said("CONNECTOR_FAILED", "a disk is full", "java.io.IOException: No space left on device"),
    Said("CONNECTOR_FAILED", "the schema history's own clients", "org.apache.kafka.connect.errors.ConnectException: Creation of database schema history topic failed, please create the topic manually"),
    Said("CONNECTOR_FAILED", "refuses the connector's login", "Caused by: sun.security.validator.ValidatorException: PKIX path building failed: unable to find valid certification path to requested target"),
    Said("CONNECTOR_FAILED", "heartbeat.action.query cannot work", "io.debezium.DebeziumException: Could not execute heartbeat action query (Error: 1146)"),
    Said("CONNECTOR_FAILED", "set binlog.buffer.size", "java.lang.UnsupportedOperationException: Rollback statements cannot be handled without binlog buffering, the connector will fail. Please check 'binlog.buffer.size' to see how to enable buffering"),
    Said("CONNECTOR_FAILED", "too old for a worker of Kafka 4", "java.lang.NoSuchMethodError: 'org.apache.kafka.clients.consumer.ConsumerRecords org.apache.kafka.clients.consumer.KafkaConsumer.poll(long)'"),
    Said("CONNECTOR_FAILED", "takes connector.class by its short name", "Caused by: java.lang.RuntimeException: java.lang.ClassNotFoundException: MySqlConnector"),
    Said("CONNECTOR_FAILED", "the connector's configuration cannot work", "The 'topic.prefix' value is invalid: A value is required"),
    Said("CONNECTOR_FAILED", "holds an impossible", "Caused by: java.time.DateTimeException: Invalid date 'FEBRUARY 30'"),
    Said("CONNECTOR_FAILED", "how the log describes some table", "Caused by: java.io.EOFException: Failed to read remaining 1 of 2 bytes from position 3. Block length: 0. Initial block length: 2."),
    Said("CONNECTOR_FAILED", "list of a table's columns is not the server's", "java.lang.IllegalStateException: Data row is smaller than a column index, internal schema representation is probably out of sync with real database schema"),
    Said("CONNECTOR_FAILED", "Debezium's parser does not know this statement", "no viable alternative at input 'ALTER USER'"),
    Said("CONNECTOR_FAILED", "changes names of columns", "org.apache.kafka.connect.errors.SchemaBuilderException: Cannot create field because of field name duplication a_b"),
    Said("CONNECTOR_MISCONFIGURED", "skips statements that it cannot parse", "WARN MySQL|shop|streaming Ignoring unparseable statements 'ALTER TABLE orders ALGORITHM=INSTANT, ADD COLUMN note VECTOR(8)' stored in database schema history"),
    Said("CONNECTOR_FAILED", "what Debezium Server writes to", "io.debezium.DebeziumException: Exceeded maximum number of attempts to publish event"),
    Said("CONNECTOR_FAILED_TRANSIENT", "came back inside a transaction", f"{_EVENT}.MissingTableMapEventException: No TableMapEventData has been found for table id:1204. Usually that means that you have started reading binary log 'within the logical event group'", ("POSITION_MID_EVENT",), "SHOW BINLOG EVENTS"),
    Said("CONNECTOR_FAILED_TRANSIENT", "was cut inside an event", f"{_EVENT}.EventDataDeserializationException: Failed to deserialize data of EventHeaderV4{{timestamp=1790000000000, eventType=EXT_WRITE_ROWS, serverId=11}}\nCaused by: java.net.SocketException: Connection reset", ("CONNECTOR_FAILED",), "after a restart"),
    Said("CONNECTOR_FAILED", "the schema registry refuses", "org.apache.kafka.connect.errors.DataException: Failed to serialize Avro data from topic shop.shop.orders :"),
    Said("CONNECTOR_FAILED", "one record or event cannot be converted", "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler"),
    Said("SNAPSHOT_INTERRUPTED", "that copy is incomplete", "org.apache.kafka.connect.errors.ConnectException: Snapshotting of table shop.orders failed"),
    Said("CONNECTOR_FAILED", "failed by an error in its own code", 'java.lang.NullPointerException: Cannot invoke "com.github.shyiko.mysql.binlog.GtidSet.getUUIDSets()" because "this.gtidSet" is null\n\tat com.github.shyiko.mysql.binlog.network.protocol.command.DumpBinaryLogGtidCommand.toByteArray(DumpBinaryLogGtidCommand.java:50)'),
    Said("CONNECTOR_FAILED_TRANSIENT", "a connection was cut", "Caused by: java.net.SocketException: Connection reset"),
)  # fmt: skip
LOOKED_FOR = (
    "we are in WHEN_NEEDED snapshot mode",
    "previously stopped while taking a snapshot",
    "The db history topic is missing",
    "whose schema isn't known",
    "restartGtidSet=",
    "trying to read binlog starting at …, but",
    "KafkaConsumer.poll(long)",
    "internal schema size 14, but row size 13",
    "DDL statement couldn't be parsed",
    "Failed to deserialize data of EventHeaderV4",
)
_AT = "[2026-10-02 0{}:00,000] {} [shop|task-0] {}\n"
OLDER = _AT.format("2:11", "ERROR", "Access denied for user 'cdc'@'10.0.0.9' (using password: YES)")
READS = (
    "Source task finished initialization and start (org.apache.kafka.connect.runtime.X:1)",
    "Connected to MySQL binlog at db:3306, starting at binlog.000004/4 (io.debezium.X:1)",
    "Connected to binlog at db:3306 (io.debezium.X:1)",
    "Keepalive thread is running (io.debezium.X:1)",
    "8 records sent during previous 00:00:12.1 (io.debezium.X:1)",
    "Message with LSN 'LSN{1F/83FD7F0}' arrived, switching off the filtering (io.debezium.X:1)",
    "Processing messages",
)
ENDED = (
    "WorkerSourceTask{id=shop-0} Task is being killed and will not recover until manually restarted",
    "WorkerSourceTask{id=shop-0} Task threw an uncaught and unrecoverable exception",
    "Producer failure: this connector will be stopped",
    "Engine has terminated",
    "Engine failed to start",
    "Unable to initialize and start connector's task class",
    "Error while trying to run connector class 'io.debezium.connector.mysql.MySqlConnector'",
    "Connector completed: success = 'false', message = 'no', error = 'no'",
)


@pytest.mark.parametrize("said", LINES, ids=[one.line[:70] for one in LINES])
def test_what_debezium_prints_is_explained(said: Said) -> None:
    is_explained(said)


def test_each_row_is_needed_and_its_place_is_decided() -> None:
    are_all_met(TEXTS, LINES)
    have_ranks_of_their_own(TEXTS)


def test_what_people_look_for_is_among_first_aid() -> None:
    are_on_the_page(TEXTS, LOOKED_FOR)


@pytest.mark.parametrize("ended", ENDED)
def test_a_task_that_ended_for_a_reason_in_no_list_is_not_given_the_reason_of_an_older_error(ended: str) -> None:
    leads = finding(
        f"{OLDER}{_AT.format('2:13', 'ERROR', ended)}java.lang.IllegalStateException: the moon is full\n"
    ).leads
    assert (leads.code, "in no list of ours" in leads.meaning) == ("CONNECTOR_FAILED", True)


@pytest.mark.parametrize("reads", READS)
def test_a_connector_that_reads_again_is_called_healed(reads: str) -> None:
    assert not finding(OLDER).healed
    assert finding(OLDER + _AT.format("2:12", "INFO", reads)).healed


@pytest.mark.parametrize(
    "wrote",
    [
        "\tat io.debezium.connector.mysql.X.y(X.java:1)",
        "ERROR i.d.p.ErrorHandler - no",
        "DebeziumException: no",
        "\tat com.github.shyiko.mysql.binlog.BinaryLogClient.connect(B.java:1)",
        "\tat org.apache.kafka.connect.runtime.WorkerTask.run(W.java:1)",
    ],
)
def test_debezium_is_named_by_its_packages(wrote: str) -> None:
    assert finding(f"java.lang.OutOfMemoryError: x\n{wrote}").engine == "Debezium"
    assert VOICE.speaks(wrote)
