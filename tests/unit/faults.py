"""Observations of every fault: one case or more for each row of PROBLEMS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.observation import (
    Ahead,
    ControlFacts,
    HistoryFacts,
    Observation,
    OpenFacts,
    OtherCommit,
    RefusedTable,
    SchemaFacts,
    SinkFacts,
    SinkTableFacts,
    TaskState,
    TransportFacts,
    Unknown,
)
from airflow_cdc.core.pipeline import NoSink
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.core.xa import XaState
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary
from airflow_cdc.sources.mysql.gtid import GtidSet
from tests.unit.builders import (
    CONNECTOR,
    FAILED,
    GTID_OFFSET,
    HEALTHY,
    OTHER,
    PIPELINE,
    SINK,
    SOURCE,
    UUID,
    connector_with,
    file_offset,
    seen,
    with_connector,
    with_source,
)
from tests.unit.tables import col

NULLABLE = Table("shop", "orders", (col("note", 1, "text", "text", nullable=True),), ("note",))
NO_SINK = NoSink("none")
NO_STAMPS = SinkFacts({name: SinkTableFacts(exists=True) for name in PIPELINE.source.tables})
PURGED = replace(SOURCE, gtid_purged=GtidSet.parse(f"{UUID}:1-90"))
AHEAD = {**GTID_OFFSET, "gtids": f"{UUID}:1-80,{OTHER}:1-5"}
RECOVERY = OpenFacts("manual__1", strategy="full_snapshot", tables=("shop.orders",))


def epochs(**stamps: int) -> SinkFacts:
    return SinkFacts({f"shop.{name}": SinkTableFacts(True, 7, Stamp(epoch)) for name, epoch in stamps.items()})


TOPIC = TopicState("shop.shop.orders", "id1", {0: (0, 10)})
HISTORY = HistoryFacts("shop.history", TopicState("shop.history", "h", {0: (0, 9)}), 9)
TRANSIENT = "io.debezium.DebeziumException: x\nCaused by: java.net.ConnectException: Connection refused"
POISON = "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler"
DUPLICATE = "A replica with the same server_uuid/server_id as this replica has connected to the source"
HALF_WAY = {**GTID_OFFSET, "snapshot": "INITIAL", "snapshot_completed": False}
KNOWN = Stamp(3, {"server": OTHER})
HERE = Stamp(3, {"server": UUID})
BY_FILE: dict[str, Any] = {"gtid_mode": "OFF", "gtid_executed": GtidSet(), "gtid_purged": GtidSet()}


def failed(trace: str, **facts: Any) -> Observation:
    return with_connector(tasks=(TaskState(0, "FAILED", trace),), **facts)


def by_file(file: str, pos: int = 500, **source: Any) -> Observation:
    """A stopped connector's position on a server without GTID."""
    obs = with_source(**{**BY_FILE, **source})
    return replace(obs, connector=connector_with(CONNECTOR, offset=file_offset(file, pos), state="STOPPED", tasks=()))


def half_sent(gtid: str, **facts: Any) -> Observation:
    """A stopped connector (or as `facts` say) whose offset is inside of a transaction; it lists 1 to 80 as done."""
    look = EventAtPosition(EventBoundary.BOUNDARY, ("Query", "Table_map", "Update_rows"), transaction=gtid)
    rests = facts or {"state": "STOPPED", "tasks": ()}
    inside = connector_with(CONNECTOR, offset={**GTID_OFFSET, "event": 4}, **rests)
    return replace(with_source(at_offset=look), connector=inside)


def stamped(stamp: Stamp) -> SinkFacts:
    return SinkFacts({name: SinkTableFacts(True, 7, stamp, 10) for name in PIPELINE.source.tables})


def waits() -> Observation:
    """Six events of one table wait in its topic."""
    transport = TransportFacts({"shop.shop.orders": TOPIC}, {"shop.orders": "shop.shop.orders"})
    return seen(transport=transport, sink=applied("id1", 4))


def applied(topic_id: str, at: int, **partitions: int) -> SinkFacts:
    numbers = {0: at, **{int(p): n for p, n in partitions.items()}}
    return stamped(Stamp(3, None, {"shop.shop.orders": TopicOffsets(topic_id, numbers)}))


def written_by_others() -> SinkFacts:
    """Spark committed to the table of orders after us."""
    orders = replace(SINK.tables["shop.orders"], other=OtherCommit(77, 1.7e9, "spark"))
    return SinkFacts({**SINK.tables, "shop.orders": orders})


def history(**facts: Any) -> SchemaFacts:
    return SchemaFacts({}, replace(HISTORY, **facts))


def keyless_topic(policy: str) -> Observation:
    made = TransportFacts({TOPIC.name: TOPIC}, {"shop.orders": TOPIC.name}, {TOPIC.name: {"cleanup.policy": policy}})
    return seen(transport=made, schema=SchemaFacts({"shop.orders": Table("shop", "orders", (), ())}))


# (name of the case, observation, code, text that stands in the evidence)
ROWS: list[tuple[str, Observation, str, str]] = [
    ("recovery open", seen(control=ControlFacts(4, RECOVERY)), "RECOVERY_OPEN", "manual__1"),
    ("source unread", seen(source=Unknown("no route")), "UNKNOWN", "no route"),
    ("connector unread", seen(connector=Unknown("refused")), "UNKNOWN", "refused"),
    ("transport unread", seen(transport=Unknown("timeout")), "UNKNOWN", "timeout"),
    ("control unread", seen(control=Unknown("locked")), "UNKNOWN", "locked"),
    ("offset unreadable", with_connector(offset={"file": "x", "pos": 4}), "UNKNOWN", "not a binlog file name"),
    ("control table put back", seen(sink=epochs(customers=3, orders=4)), "UNKNOWN", "epoch 4"),
    ("log off", with_source(log_bin=False, binlog_files=()), "SOURCE_MISCONFIGURED", "OFF, must be ON"),
    (
        "table changed in a purged gap",
        seen(source=PURGED, schema=history(differences={"shop.orders": ("column a: only in the history",)})),
        "GTID_PURGED",
        "column a: only in the history",
    ),
    (
        "table changed behind the connector's back",
        replace(
            with_connector(offset={**GTID_OFFSET, "gtids": f"{UUID}:1-100"}),
            schema=history(differences={"shop.orders": ("column a: only in the history",)}),
        ),
        "DDL_IN_GAP",
        "column a: only in the history",
    ),
    ("transactions purged", seen(source=PURGED), "GTID_PURGED", f"{UUID}:81-90 (10 transactions)"),
    ("newer than every file", by_file("mysql-bin.000998"), "POSITION_AHEAD", "mysql-bin.000008 to mysql-bin.000010"),
    (
        "reset",
        with_connector(offset={**GTID_OFFSET, "file": "mysql-bin.000998", "gtids": f"{UUID}:1-200"}, **FAILED),
        "POSITION_AHEAD",
        f"{UUID}:101-200 (100 transactions)",
    ),
    ("other server", replace(by_file("mysql-bin.000009"), sink=stamped(KNOWN)), "SOURCE_CHANGED", OTHER),
    ("other file names", by_file("binlog.000009"), "SOURCE_CHANGED", "binlog stored, mysql-bin on the server"),
    ("file purged", by_file("mysql-bin.000007"), "BINLOG_PURGED", "mysql-bin.000007:500"),
    ("past the end", by_file("mysql-bin.000009", 1001), "POSITION_PAST_END", "1000 [server"),
    (
        "inside an event",
        by_file(
            "mysql-bin.000009", at_offset=EventAtPosition(EventBoundary.INSIDE, (), "truncated in the middle of event")
        ),
        "POSITION_MID_EVENT",
        "truncated in the middle",
    ),
    ("mode switched", with_source(gtid_mode="ON_PERMISSIVE"), "GTID_MODE_MISMATCH", "ON_PERMISSIVE"),
    (
        "transactions of another server",
        with_connector(offset=AHEAD, **FAILED),
        "GTID_NOT_CONTAINED",
        f"{OTHER}:1-5 (5 transactions)",
    ),
    (
        "a transaction that was sent in part counts as done",
        half_sent(f"{UUID}:80"),
        "TRANSACTION_HALF_SENT",
        f"{UUID}:80 [server",
    ),
    ("another server took over", replace(with_connector(**FAILED), sink=stamped(KNOWN)), "SOURCE_FAILED_OVER", OTHER),
    ("other server while streaming", with_connector(offset=AHEAD), "UNKNOWN", f"{OTHER}:1-5"),
    ("sink unread", seen(sink=Unknown("catalog down")), "UNKNOWN", "catalog down"),
    ("schema unread", seen(schema=Unknown("not JSON")), "UNKNOWN", "not JSON"),
    ("second key", with_connector(other_keys=({"server": "shpo"},)), "OFFSET_AMBIGUOUS", "shpo"),
    (
        "two topics",
        with_connector(elsewhere={"connect_offsets": file_offset("mysql-bin.000008")}, state="STOPPED", tasks=()),
        "OFFSET_AMBIGUOUS",
        "mysql-bin.000008",
    ),
    ("new pipeline", replace(with_connector(offset=None), sink=NO_STAMPS), "NEW_PIPELINE", "exists without a stamp"),
    ("offset lost", with_connector(offset=None), "OFFSET_MISSING", "stamp of epoch 3"),
    ("no gtids stored", with_connector(offset=file_offset("mysql-bin.000009")), "GTID_MISSING_IN_OFFSET", "1-100"),
    ("copy cut off", failed("x", offset=HALF_WAY), "SNAPSHOT_INTERRUPTED", "FAILED"),
    ("history gone", seen(schema=history(state=None)), "SCHEMA_HISTORY_MISSING", "does not exist"),
    (
        "history eaten",
        seen(schema=history(state=TopicState("shop.history", "h", {0: (4, 9)}))),
        "SCHEMA_HISTORY_MISSING",
        "{0: 4}",
    ),
    ("row image", with_source(row_image="MINIMAL"), "SOURCE_MISCONFIGURED", "MINIMAL, must be FULL"),
    ("two clients", failed(DUPLICATE), "DUPLICATE_SERVER_ID", "same server_uuid/server_id"),
    ("keyless and compacted", keyless_topic("compact"), "TRANSPORT_MISCONFIGURED", "shop.orders has no key"),
    ("network cut", failed(TRANSIENT), "CONNECTOR_FAILED_TRANSIENT", "Connection refused"),
    ("poison", failed(POISON), "CONNECTOR_FAILED", "Tolerance exceeded"),
    ("task failed", with_connector(**FAILED), "CONNECTOR_FAILED", "DebeziumException: it broke"),
    ("connector stopped", with_connector(state="STOPPED", tasks=()), "CONNECTOR_STOPPED", "STOPPED"),
    ("connector rebalancing", with_connector(tasks=()), "UNKNOWN", "none"),
    (
        "offset out of sight",
        with_connector(offset=None, key=None, offsets_count=0, offset_unseen="it is kept in a cache"),
        "UNKNOWN",
        "unknown: it is kept in a cache",
    ),
    ("stands still", with_connector(stands_still=12.0), "CONNECTOR_LOOPING", "12 s of watching"),
    ("topic recreated", seen(sink=applied("id0", 5)), "TRANSPORT_REPLACED", "it was applied from id0"),
    ("topic shorter", seen(sink=applied("id1", 11)), "TRANSPORT_REPLACED", "beyond its ends"),
    ("partition added", seen(sink=applied("id1", 5, **{"1": 0})), "TRANSPORT_REPLACED", "applied from 2"),
    (
        "events eaten",
        seen(sink=applied("id1", 5), transport=TransportFacts({TOPIC.name: replace(TOPIC, partitions={0: (6, 10)})})),
        "TRANSPORT_GAP",
        "applied up to 5, the first event there is 6",
    ),
    (
        "copied by itself",
        seen(
            schema=history(snapshot_at="2026-11-21T08:00:00.000+00:00"),
            control=ControlFacts(3, closed_at="2026-11-21T07:00:00.000+00:00"),
        ),
        "SELF_HEALED",
        "2026-11-21T08:00",
    ),
    ("sink put back", seen(sink=epochs(customers=3, orders=2)), "EPOCH_BEHIND", "epoch 2"),
    (
        "stamp lost",
        seen(sink=SinkFacts({**SINK.tables, "shop.orders": SinkTableFacts(True, 7, None, 10)})),
        "STAMP_LOST",
        "exists without a stamp, 10 rows",
    ),
    ("table added", seen(sink=epochs(customers=3)), "TABLE_ADDED", "does not exist"),
    (
        "stopped by DDL",
        seen(
            sink=epochs(customers=3, orders=3),
            control=ControlFacts(3, refused={"shop.orders": RefusedTable("CHANGE a b", stamp=Stamp(3).to_json())}),
        ),
        "TABLE_NEEDS_REREAD",
        "CHANGE a b",
    ),
    (
        "about to be purged",
        with_source(retention=Retention(86400, now=100_000.0, written_until=20_000.0)),
        "AT_RISK",
        "6400 s or later",
    ),
    (
        "heals itself",
        with_connector(config={**CONNECTOR.config, "snapshot.mode": "when_needed"}),
        "CONNECTOR_MISCONFIGURED",
        "snapshot.mode=when_needed",
    ),
    (
        "deletes dropped",
        with_connector(
            config={
                **CONNECTOR.config,
                "transforms": "t",
                "transforms.t.type": "io.debezium.transforms.ExtractNewRecordState",
                "transforms.t.delete.tombstone.handling.mode": "drop",
            }
        ),
        "DELETES_DROPPED",
        "transforms.t.delete.tombstone.handling.mode=drop",
    ),
    (
        "a transform that cannot be followed",
        with_connector(config={**CONNECTOR.config, "schema.history.internal.skip.unparseable.ddl": "true"}),
        "CONNECTOR_MISCONFIGURED",
        "silently skipped",
    ),
    (
        "a connector of another database",
        replace(
            with_connector(
                config={**CONNECTOR.config, "connector.class": "io.debezium.connector.oracle.OracleConnector"}
            ),
            pipeline=replace(PIPELINE, sink=NO_SINK),
        ),
        "CONNECTOR_MISCONFIGURED",
        "OracleConnector",
    ),
    (
        "a masked column",
        seen(
            connector=connector_with(
                CONNECTOR, config={**CONNECTOR.config, "column.mask.with.5.chars": "shop.orders.note"}
            ),
            schema=SchemaFacts({"shop.orders": NULLABLE}),
        ),
        "CONNECTOR_MISCONFIGURED",
        "hides or changes note",
    ),
    (
        "NULL arrives as the default",
        seen(schema=SchemaFacts({"shop.orders": NULLABLE}, defaults={"shop.orders": {"note": "new"}})),
        "CONNECTOR_MISCONFIGURED",
        "shop.orders.note",
    ),
    (
        "partial JSON",
        with_source(log_filters=("binlog_row_value_options PARTIAL_JSON",)),
        "SOURCE_MISCONFIGURED",
        "PARTIAL",
    ),
    ("right missing", with_source(missing_privileges=("RELOAD on *.*",)), "SOURCE_MISCONFIGURED", "RELOAD on *.*"),
    (
        "history retained for a week",
        seen(schema=history(config={"cleanup.policy": "delete", "retention.ms": "604800000"})),
        "TRANSPORT_MISCONFIGURED",
        "604800000, must be -1",
    ),
    ("cascade", with_source(cascades=("shop.items (shop.orders, DELETE CASCADE)",)), "LOG_INCOMPLETE", "shop.items"),
    (
        "apply paused",
        replace(waits(), sink=replace(applied("id1", 4), late={"shop.orders": 5})),
        "SINK_BEHIND",
        "6 events, 5 of them for longer than policy.max_lag of 3600 s",
    ),
    (
        "nobody moves a queue's messages",
        replace(
            seen(transport=TransportFacts({TOPIC.name: replace(TOPIC, ahead=7)}, {"shop.orders": TOPIC.name})),
            sink=replace(
                applied("id1", 10),
                late={"shop.orders": 3},
                ahead={TOPIC.name: Ahead(7, 3, "2026-11-21T00:00:00+00:00", TopicOffsets.end_of(TOPIC))},
            ),
        ),
        "SINK_BEHIND",
        "0 events and 7 that were not brought there yet, 3 of them for longer than policy.max_lag of 3600 s",
    ),
    (
        "a check found rows that differ",
        seen(sink=replace(SINK, differs=("shop.orders",))),
        "SINK_DIFFERS",
        "shop.orders",
    ),
    (
        "another program writes",
        seen(sink=written_by_others()),
        "SINK_WRITTEN_BY_OTHERS",
        "version 77 of 2023-11-14T22:13:20+00:00 by spark",
    ),
    (
        "apply refused by DDL",
        replace(waits(), control=ControlFacts(3, apply_error="column a was dropped")),
        "SINK_BEHIND",
        "column a was dropped",
    ),
    (
        "XA rolled back",
        replace(
            with_source(xa=XaState(UUID, 1000.0, 5, 2)),
            control=ControlFacts(3, compared_xa={"shop.orders": XaState(UUID, 1000.0, 4, 1)}),
        ),
        "XA_ROLLED_BACK",
        "1 XA ROLLBACK since then",
    ),
    ("healthy", HEALTHY, "HEALTHY", f"{UUID}:1-80"),
]
