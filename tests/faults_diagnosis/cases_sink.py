"""Faults of the topics, the sink and the control table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_cdc.control.control import REFUSED
from airflow_cdc.core.report import Verdict
from airflow_cdc.flows.run import now_iso
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import CHECK, RunSummary
from tests.faults_diagnosis.case import Case
from tests.faults_diagnosis.subject import TABLES, Subject

# longer than the policy of the case allows
LATE_S = 3.0


def events_eaten(subject: Subject) -> None:
    """Retention removes events that were not applied yet."""
    from kafka import TopicPartition

    subject.write(20)
    subject.catch_up()
    topic = subject.topic()
    end = subject.transport.end_offsets([topic])[topic][0]
    with_admin(subject, lambda admin: admin.delete_records({TopicPartition(topic, 0): end}))


def topic_recreated(subject: Subject) -> None:
    topic = subject.topic()
    before = subject.transport.topic_states([topic])[topic].id
    with_admin(subject, lambda admin: admin.delete_topics([topic]))
    subject.wait(lambda: not subject.transport.topic_states([topic]), "the topic is gone")
    subject.write(20)

    def again() -> bool:
        states = subject.transport.topic_states([topic])
        return topic in states and states[topic].id != before

    subject.wait(again, "the topic was made again")
    subject.catch_up()


def partition_added(subject: Subject) -> None:
    with_admin(subject, lambda admin: admin.create_partitions({subject.topic(): 2}))
    subject.wait(
        lambda: len(subject.transport.topic_states([subject.topic()])[subject.topic()].partitions) == 2,
        "two partitions",
    )


def history_expires(subject: Subject) -> None:
    _alter(subject, subject.history_topic, {"retention.ms": "604800000"})


def compacted(subject: Subject) -> None:
    """Tables without a key whose topics are compacted: the task dies at the next event."""
    for table in TABLES:
        _alter(subject, subject.topic(table), {"cleanup.policy": "compact"})
    subject.write(20)
    subject.wait_failed()


def put_back(subject: Subject) -> None:
    """Main goes back across a recovery: the control table is an epoch further."""
    subject.control.open_recovery("second")
    subject.control.close_recovery("second")


def died_half_way(subject: Subject) -> None:
    tables = [f"{subject.name}.{table}" for table in TABLES]
    subject.control.open_recovery("second", problem="GTID_PURGED", strategy="full_snapshot", tables=tables)


def stamp_gone(subject: Subject) -> None:
    """Somebody wrote the table anew, without a stamp."""
    subject.world.lake.catalog.drop_table((subject.name, TABLES[0]))
    subject.fill(TABLES[0], None)


def table_gone(subject: Subject) -> None:
    subject.world.lake.catalog.drop_table((subject.name, TABLES[0]))


def stopped_by_ddl(subject: Subject) -> None:
    """A column was made narrower, and apply, which is told not to read tables again by itself, has stopped the table."""
    table = f"{subject.name}.{TABLES[0]}"
    statement = f"ALTER TABLE {table} MODIFY v VARCHAR(100)"
    subject.sql(statement)
    if subject.version.mariadb:  # a DDL is in the offset of MariaDB's connector with the next transaction alone
        subject.write(15, 1)
    subject.catch_up()
    stamp = subject.world.lake.stamp(subject.name, TABLES[0])
    why = {"why": statement, "at": "2026-11-21T10:00:00+00:00", "tries": 1, "stamp": stamp and stamp.to_json()}
    subject.control.ledger_set(REFUSED, table, why)


def rows_differ(subject: Subject) -> None:
    """A check found rows of a table that differ; the next that compares it finds them equal."""
    found = RunSummary("night", "night", CHECK, "SINK_DIFFERS", "none", Verdict.MISMATCH, now_iso(), 1.0)
    reports = ReportStore(str(subject.world.folder / "reports"))
    reports.keep_run(subject.name, replace(found, differs=(f"{subject.name}.{TABLES[0]}",)))


def others_write(subject: Subject) -> None:
    """Another program writes the rows of a table of ours again, in commits of its own. The rows are right, this time."""
    rows = subject.world.lake.read_arrow(subject.name, TABLES[0])
    subject.world.lake.table(subject.name, TABLES[0]).overwrite(rows)


def apply_paused(subject: Subject) -> None:
    """Nobody applies for longer than the policy allows."""
    subject.world.register(
        subject.name, subject.server, [f"{subject.name}.{table}" for table in TABLES], {"max_lag": "1s"}
    )
    subject.write(20)
    subject.catch_up()
    written = time.monotonic()
    subject.wait(lambda: time.monotonic() - written > LATE_S, "the events have waited for too long")


def nothing_copied(subject: Subject) -> None:
    """A pipeline that was declared, and a connector that was made but never ran."""
    subject.world.register(subject.name, subject.server, [f"{subject.name}.{table}" for table in TABLES])
    subject.make_tables()
    body = {"name": subject.name, "config": subject.settings(), "initial_state": "STOPPED"}
    subject.world.connect.call("POST", "/connectors", body)
    subject.wait(lambda: subject.states()[0] == "STOPPED", "the connector is there")


def with_admin(subject: Subject, act: Callable[[Any], Any]) -> Any:
    """Something done with Kafka's own admin client."""
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=subject.world.bootstrap)
    try:
        return act(admin)
    finally:
        admin.close()


def _alter(subject: Subject, topic: str, configs: dict[str, str]) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)
    with_admin(subject, lambda admin: admin.alter_configs([resource]))


CASES = (
    Case("new", "declared, nothing copied", "NEW_PIPELINE", "gtid", nothing_copied, set_up=False),
    Case("events_eaten", "retention removed unapplied events", "TRANSPORT_GAP", "gtid", events_eaten),
    Case("topic_recreated", "a topic was deleted and made again", "TRANSPORT_REPLACED", "gtid", topic_recreated),
    Case("partition_added", "a partition was added", "TRANSPORT_REPLACED", "gtid", partition_added),
    Case(
        "history_expires", "finite retention of the schema history", "TRANSPORT_MISCONFIGURED", "gtid", history_expires
    ),
    Case(
        "compacted",
        "compacted topic of a table without key",
        "TRANSPORT_MISCONFIGURED",
        "gtid",
        compacted,
        keyless=True,
    ),
    Case("apply_paused", "nobody applies", "SINK_BEHIND", "gtid", apply_paused),
    Case("put_back", "the sink is of an older epoch", "EPOCH_BEHIND", "gtid", put_back),
    Case("died_half_way", "a recovery died half way", "RECOVERY_OPEN", "gtid", died_half_way),
    Case("stamp_gone", "the sink lost its stamp", "STAMP_LOST", "gtid", stamp_gone),
    Case("stopped_by_ddl", "apply stopped a table because of DDL", "TABLE_NEEDS_REREAD", "gtid", stopped_by_ddl),
    Case("rows_differ", "a check found rows that differ", "SINK_DIFFERS", "gtid", rows_differ),
    Case("others_write", "another program wrote to a table of ours", "SINK_WRITTEN_BY_OTHERS", "gtid", others_write),
    Case("table_gone", "a declared table has no sink yet", "TABLE_ADDED", "gtid", table_gone),
)
