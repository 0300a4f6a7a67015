"""Error texts of Debezium 1.x to 3.x, Kafka Connect and the Java libraries below them when a connector fails."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, KnownText
from airflow_cdc.decisions.diagnosis.pasted import Voice

VOICE: Final = Voice(
    "Debezium",
    30,
    r"\bio\.debezium\b|\bio\.deb\.|\bi\.d\.[cpejr]\w*\.|DebeziumException|com\.github\.shyiko|org\.apache\.kafka\.connect\.",
    ended=r"task is being killed|uncaught and unrecoverable exception|this connector will be stopped|"
    r"engine has terminated|engine failed to start|unable to (initialize and )?start connector's task class|"
    r"error while trying to run connector class|so it stops this connector|connector completed: success = 'false'",
    healed=r"source task finished initialization and start|connected to (mysql |mariadb )?binlog at|"
    r"keepalive thread is running|records sent during previous|switching off the filtering|processing messages$",
)
_HISTORY: Final = r"(SchemaHistory|DatabaseHistory|(MySql|MariaDb|Binlog|SqlServer|Oracle)\w*ConnectorTask\.start)"
_AGAIN: Final = "the event at this place cannot be decoded: then it fails at the same position after every restart"
_EVENT: Final = "the position in the trace after a restart: the same again means that the event cannot be decoded"

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "SELF_HEALED",
        3,
        r"we are in \S+ snapshot mode\. Attempting to snapshot data to fill the gap|Forcing the snapshot execution as it is allowed",
        "the position was gone and the connector took a snapshot of its own: rows deleted in the gap are still in the sink",
        says="The last recorded offset is no longer available but we are in WHEN_NEEDED snapshot mode. Attempting to snapshot data to fill the gap",
    ),
    KnownText(
        "SNAPSHOT_INTERRUPTED",
        70,
        r"previously stopped while taking a snapshot",
        "the connector stopped during its own snapshot; that copy is incomplete",
        says="The connector previously stopped while taking a snapshot",
    ),
    KnownText(
        "OFFSET_MISSING",
        79,
        r"Could not find existing (redo log|binlog|transaction log) information while attempting schema.only recovery",
        "the connector was to rebuild its definitions at its offset, and has none",
    ),
    KnownText(
        "OFFSET_MISSING",
        78,
        r"Source offset '\w+' parameter is missing",
        "what is stored for the connector is no position of this kind of connector: put back a backup of its offset",
    ),
    KnownText(
        "SCHEMA_HISTORY_MISSING",
        80,
        r"db.history topic (or its content )?is (fully or partially )?missing|(schema|database) history.{0,60}(missing|not found)",
        "the topic with the connector's table definitions is gone, or retention removed part of it",
        says="The db history topic is missing",
    ),
    KnownText(
        "SCHEMA_HISTORY_MISSING",
        81,
        r"database (schema )?history couldn't be recovered",
        "the connector does not get all of its table definitions from their topic: retention removed part of it",
        otherwise=(
            ("CONNECTOR_FAILED", "the brokers answer too slowly: raise …history….kafka.recovery.poll.interval.ms"),
            ("CONNECTOR_FAILED", "two connectors write to one history topic: give each its own"),
        ),
        ask="kafka-get-offsets --topic HISTORY --time -2 (more than 0: its beginning was removed)",
    ),
    KnownText(
        "SCHEMA_HISTORY_MISSING",
        83,
        r"(Encountered change event|change event) .{0,8000}?whose schema isn't known",
        "the connector has no definition of a table that it captures: its history is incomplete, or the table was added to the"
        " list after the history was written. Rebuild the history, or add the table as Debezium describes",
        says="Encountered change event … whose schema isn't known to this connector",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        84,
        r"Detected changed end offset of database (schema )?history topic|history topic isn't shared by multiple",
        "another connector writes to this connector's history topic: give each its own, and rebuild both",
    ),
    KnownText(
        "GTID_PURGED",
        100,
        r"trying to read (change stream|redo log|binlog) starting at (.{0,8000}?(restart|current)GtidSet='?(?!null|'|,)[\w-]+|"
        r".{0,200}?currentGtid=(?!null)[\w-]+|GTIDs ).{0,20000}?no longer available",
        "transactions after the connector's set are no longer on the server",
        says="trying to read change stream starting at … restartGtidSet='3e11fa47-…', but this is no longer available on the server",
    ),
    KnownText(
        "BINLOG_PURGED",
        110,
        r"trying to read (binlog|change stream|redo log) starting at|is no longer available on the server|"
        # Airbyte looks before it starts Debezium's engine
        r"Saved offset no longer present on the server|Binlog \S+ is not available",
        "the connector's position is no longer on the server",
        says="trying to read binlog starting at …, but this is no longer available on the server. Reconfigure the connector to use a snapshot when needed",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        115,
        r"OutOfMemoryError",
        "the worker has too little memory: raise its heap, or lower max.batch.size and max.queue.size; a restart alone meets it"
        " again",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        116,
        r"No space left on device|disk (is )?full",
        "a disk is full, the server's or the worker's: the connector can continue once there is room",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        120,
        rf"(TimeoutException|Timeout expired while|Timed out waiting for a node assignment).{{0,8000}}{_HISTORY}|"
        rf"{_HISTORY}.{{0,8000}}(Timeout expired while|Timed out waiting for a node assignment)|"
        r"Creation of database (schema )?history topic failed",
        "the schema history's own clients do not reach the brokers: they have their own settings, so repeat the security settings"
        " under schema.history.internal.producer.* and .consumer.* (database.history.* in 1.x); a restart does not help",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        145,
        r"authentication failed|not authorized|could not open.{0,40}certificate|PKIX path",
        LOGIN_REFUSED,
    ),
    KnownText(
        "CONNECTOR_FAILED",
        154,
        r"running with the --(super-)?read-only option|in a read-only transaction|"
        r"Could not execute heartbeat action(?!(?: query)?\s?\(Error: (?:57P0|08|53|0\)|1053|1927|2006|2013))",
        "the connector's heartbeat.action.query cannot work: its table, its right or its syntax, or the server is read-only",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        155,
        r"Rollback statements cannot be handled without binlog buffering",
        "the log holds a rolled back transaction, and the connector does not buffer: set binlog.buffer.size",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        157,
        r"NoSuchMethodError.{0,200}KafkaConsumer\.poll\(long\)",
        "this Debezium is too old for a worker of Kafka 4, which no longer has a call that it makes at each restart: run it on"
        " Kafka Connect 3.9 or older, or install a newer Debezium",
        says="java.lang.NoSuchMethodError: 'org.apache.kafka.clients.consumer.ConsumerRecords"
        " org.apache.kafka.clients.consumer.KafkaConsumer.poll(long)'",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        123,
        r"ClassNotFoundException: (MySql|MariaDb|Postgres)(Connector)?\b(?![.$])",
        "Connect takes connector.class by its short name, and newer releases of Debezium don't: write the whole class",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        160,
        r"configuration is invalid|ConfigException|ClassNotFoundException|NoClassDefFoundError|NoSuchMethodError|"
        r"invalid value .{0,80} for configuration|Failed to find any class that implements Connector|"
        r"The '[\w.]+' value is invalid|Error configuring an instance of|Guardrail limit exceeded|"
        r"no changes will be captured|requires GTID_MODE to be ON|Failed to load mandatory config value|"
        r"No Debezium consumer named|Unknown initial character set|time zone value [^\n]{0,80} is unrecognized",
        "the connector's configuration cannot work",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        170,
        r"Error while deserializing binlog data of (date|datetime|timestamp)|Invalid date '[A-Z]+ \d+'|Zero date value prohibited",
        "a row of some table of the server, captured or not, holds an impossible date such as 2020-02-31 (stored with"
        " sql_mode ALLOW_INVALID_DATES): Debezium can't read past it, and a restart does not help; correct such dates, and"
        " recover from a position after them",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        171,
        r"eventType=TABLE_MAP\b|"
        r"Failed to read remaining \d+ of \d+ bytes from position \d+\. Block length: 0\. Initial block length: \d{1,2}\.",
        "Debezium cannot read how the log describes some table of the server, captured or not. Seen with MySQL 8.0.15 and"
        " tables with YEAR columns: the server leaves them out of its list of numeric columns, Debezium counts them, and"
        " where that makes 9 of 8 (17 of 16, …) it fails at every change of the table. Make its YEAR columns SMALLINT, and"
        " recover from a position after that; a restart does not help",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        172,
        r"internal schema size \d+, but (row )?size \d+|internal schema size \d+, but \d+ size|"
        r"internal schema representation is probably out of sync",
        "the connector's list of a table's columns is not the server's: a session logged less than whole rows"
        " (binlog_row_image), or Debezium misread a DDL (a column with a backtick in its name that was dropped). A restart"
        " does not help; recover by full_snapshot, which reads past it",
        says="internal schema size 14, but row size 13",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        173,
        r"DDL statement couldn't be parsed|ParsingException|no viable alternative at input|mismatched input|extraneous input|"
        r"missing \S+ at '|Multiple parsing errors",
        "Debezium's parser does not know this statement: a newer Debezium may. If the statement changes none of your tables, set"
        " schema.history.internal.skip.unparseable.ddl=true until the connector is past it, and then remove it",
        says="DDL statement couldn't be parsed",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        169,
        r"Cannot create field because of field name duplication",
        "the connector changes names of columns (field.name.adjustment.mode), and two columns of a table would get the one that"
        " it names. That may be a table of another pipeline, or of none. Rename one of the two, or leave it out on the connector"
        " (column.exclude.list); a restart does not help",
    ),
    KnownText(
        "CONNECTOR_MISCONFIGURED",
        174,
        r"Ignoring unparse?able (DDL )?statement",
        "the connector skips statements that it cannot parse: if one changed a captured table, later rows are decoded wrongly",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        168,
        r"Exceeded maximum number of attempts to publish event",
        "what Debezium Server writes to refuses the events, or does not answer: the lines before this one say what it said",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        175,
        r"No TableMapEventData has been found for table id|MissingTableMapEventException",
        "the connector came back inside a transaction, without the description of its tables: a restart begins at its start",
        otherwise=(("POSITION_MID_EVENT", "the stored position itself is inside a transaction, as one set by hand"),),
        ask="SHOW BINLOG EVENTS IN 'FILE' FROM POSITION LIMIT 3 with the offset's file and pos (does a Gtid, Anonymous_Gtid or"
        " Query event come first?)",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        177,
        r"(Failed to deserialize data of|EventDataDeserializationException).{0,12000}"
        r"(SocketException|EOFException|Connection reset|SocketTimeoutException|Broken pipe|end of stream|StreamCorruptedException)",
        "the connection was cut inside an event, as within a large transaction when slave_net_timeout or net_write_timeout"
        " is short: the connector can continue",
        otherwise=(("CONNECTOR_FAILED", _AGAIN),),
        ask=_EVENT,
        says="Failed to deserialize data of EventHeaderV4 … EOFException",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        178,
        r"Schema being registered is incompatible|RestClientException|error code: ?(409|422|404\d\d|50\d\d\d)\b|"
        r"Failed to serialize Avro data|SchemaRegistry\w*Exception|Error registering Avro schema",
        "the schema registry refuses or does not answer: what it says decides (409: the new schema is not compatible)",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        180,
        r"Tolerance exceeded in error handler|DataException|SerializationException|"
        r"Failed to deserialize data|EventDataDeserializationException|Error while deserializing binlog event|"
        r"Failed to parse and read a|columns that differ only by case",
        "one record or event cannot be converted: a restart does not help",
    ),
    KnownText(
        "SNAPSHOT_INTERRUPTED",
        186,
        r"Snapshotting of table \S+ (chunk \S+ )?failed|Snapshot was not completed successfully",
        "the connector stopped during its own snapshot; that copy is incomplete",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        199,
        r"(NullPointerException|IndexOutOfBoundsException|ClassCastException|ConcurrentModificationException|"
        r"NumberFormatException|StackOverflowError|Cannot invoke \"[^\"\n]{1,200}\" because ).{0,6000}"
        r"\bat (io\.debezium|com\.github\.shyiko|com\.ververica\.cdc|org\.apache\.flink\.cdc|com\.alibaba\.otter)\.",
        "the engine failed by an error in its own code: what it logged just before says at which event or setting; a newer version"
        " may have it mended, and a restart meets it again",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        191,
        r"Connection refused|Connection reset|Broken pipe|No route to host|UnknownHostException|SocketException|"
        r"EOFException|SocketTimeoutException|connect(ion)? timed out|Read timed out|Failed to connect to|"
        r"Could not execute heartbeat action|communication failure event|Connection is closed|Name or service not known|"
        r"unexpected end of stream|Network is unreachable|ReaderThreadLifecycleListener\.onCommunicationFailure|"
        r"conflicting operation \(e\.g\. worker rebalance\)",
        CUT,
    ),
)
