"""One case or more for each row of PostgreSQL's diagnosis, and what must hold between the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.offsets.postgres import value_at
from airflow_cdc.core.observation import ConnectorFacts
from airflow_cdc.core.position import Availability
from airflow_cdc.kinds import all_texts, rules_for
from airflow_cdc.sources.postgres.checks import checks
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.facts import Identity, PgFacts
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.sources.postgres.problems import PROBLEMS, identity_fault
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.sources.postgres.slot import Slot, WalStatus, forecast
from tests.diagnosing import diagnose, explain, make_plan
from tests.unit.sources.postgres.pg_scene import (
    END,
    PG_PIPELINE,
    PUBLICATION,
    SERVER,
    SLOT,
    STORED,
    TABLE,
    TABLES,
    connector,
    facts,
    observed,
)

IDLE = replace(SLOT, active_pid=None)
LOST = replace(IDLE, wal_status=WalStatus.LOST, restart=None)
STOPPED = connector(state="STOPPED")
ENDPOINT = PostgresEndpoint("10.0.0.7", 5432, "cdc", "x", "shop")
COPYING = connector({"lsn": STORED, "snapshot": "INITIAL", "last_snapshot_record": False})
FAILED = connector(
    trace="org.apache.kafka.connect.errors.ConnectException: An exception occurred\nCaused by: java.io.EOFException"
)


def at(lsn: int) -> ConnectorFacts:
    return connector(value_at(Lsn(lsn)), state="STOPPED")


def of_tables(**changes: Any) -> dict[str, Any]:
    return {"tables": {TABLES[0]: replace(TABLE, **changes), TABLES[1]: replace(TABLE, name=TABLES[1])}}


ROWS: list[tuple[str, str, PgFacts, ConnectorFacts, str]] = [
    ("wal_level", "WAL_LEVEL", facts(settings={"wal_level": "replica"}), connector(), ""),
    ("dropped", "SLOT_MISSING", facts(None), STOPPED, ""),
    ("dropped under a failed task", "SLOT_MISSING", facts(None), FAILED, ""),
    ("lost", "SLOT_INVALIDATED", facts(LOST), STOPPED, ""),
    ("lost, and no task for half an hour", "SLOT_INVALIDATED", facts(LOST), replace(connector(), tasks=()), ""),
    ("timed out", "SLOT_INVALIDATED", facts(replace(IDLE, invalidation="idle_timeout")), FAILED, ""),
    ("nobody reads it", "CONNECTOR_LOOPING", facts(replace(IDLE, inactive_s=130.0)), connector(), ""),
    ("another cluster", "OTHER_SYSTEM", facts(), STOPPED, "1234/1"),
    ("promoted", "OTHER_TIMELINE", facts(log=replace(SERVER, timeline=2)), STOPPED, SERVER.name),
    ("restored", "LSN_AHEAD", facts(IDLE, log=replace(SERVER, lsn=Lsn(STORED - 1))), STOPPED, ""),
    ("restored, running", "LSN_AHEAD", facts(log=replace(SERVER, lsn=Lsn(STORED - 1))), connector(), ""),
    ("removed", "LSN_BEHIND_RESTART", facts(IDLE), at(STORED - 0x101), ""),
    ("advanced", "LSN_BEFORE_SLOT", facts(replace(IDLE, confirmed=Lsn(STORED + 1))), STOPPED, ""),
    ("no publication", "PUBLICATION_MISSING", facts(publication=None), connector(), ""),
    ("a table not in it", "PUBLICATION_MISSING", facts(publication=replace(PUBLICATION, tables={TABLES[0]: ()})), connector(), ""),
    ("partitions", "SOURCE_MISCONFIGURED", facts(tables={"public.a": replace(TABLE, name="public.a", partitioned=True)}, publication=replace(PUBLICATION, tables={"public.a_1": ()})), connector(), ""),
    ("inserts alone", "SOURCE_MISCONFIGURED", facts(publication=replace(PUBLICATION, operations=frozenset({"insert"}))), connector(), ""),
    ("some rows", "SOURCE_MISCONFIGURED", facts(publication=replace(PUBLICATION, row_filters={TABLES[0]: "(id > 5)"})), connector(), ""),
    ("a physical slot", "SOURCE_MISCONFIGURED", facts(replace(SLOT, plugin="")), connector(), ""),
    ("another database's", "SOURCE_MISCONFIGURED", facts(replace(SLOT, database="other")), connector(), ""),
    ("used by another", "SLOT_ACTIVE_ELSEWHERE", facts(SLOT), STOPPED, ""),
    ("no sender left", "MAX_WAL_SENDERS", facts(IDLE, wal_senders=10), FAILED, ""),
    ("nearly lost", "AT_RISK", facts(replace(SLOT, safe_bytes=1_000_000)), connector(), ""),
    ("unreserved", "AT_RISK", facts(replace(SLOT, safe_bytes=-5, wal_status=WalStatus.UNRESERVED)), connector(), ""),
    ("idle for long", "AT_RISK", facts(replace(IDLE, inactive_s=3500.0), idle=3600), STOPPED, ""),
    ("no key", "REPLICA_IDENTITY", facts(**of_tables(has_key=False)), connector(), ""),
    ("an unbounded slot", "SLOT_GROWS", facts(replace(SLOT, restart=Lsn(1)), log=replace(SERVER, lsn=Lsn(11 * 1024**3))), connector(), ""),
    ("unlogged", "LOG_INCOMPLETE", facts(**of_tables(unlogged=True)), connector(), ""),
    ("inherited from", "LOG_INCOMPLETE", facts(**of_tables(has_children=True)), connector(), ""),
    ("no right", "SOURCE_MISCONFIGURED", facts(missing_privileges=("SELECT on public.orders",)), connector(), ""),
    ("streams elsewhere", "UNKNOWN", facts(None, address="10.9.9.9:5432"), connector(), ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "source", "mirror", "read_from"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_each_fault_has_its_row(code: str, source: PgFacts, mirror: ConnectorFacts, read_from: str) -> None:
    found = diagnose(observed(source, mirror, read_from=read_from))
    assert found.code == code
    assert all(value.endswith("]") for value in found.evidence.values())


UNSEEN = replace(connector(), offset=None, key=None, offsets_count=0, offset_unseen="it is kept in a cache")


@pytest.mark.parametrize(
    ("code", "source"),
    [
        ("SLOT_INVALIDATED", facts(LOST)),
        ("SLOT_MISSING", facts(None)),
        ("UNKNOWN", facts()),
        ("UNKNOWN", facts(replace(SLOT, restart=Lsn(1)), log=replace(SERVER, lsn=Lsn(11 * 1024**3)))),
    ],
)
def test_inv_40_of_an_offset_that_cannot_be_read_the_slot_says_what_is_known(code: str, source: PgFacts) -> None:
    """What is missing is said beside each; where the slot says nothing, nobody knows, and nothing is done."""
    for mirror in (UNSEEN, replace(UNSEEN, state="STOPPED", tasks=())):
        seen = observed(source, mirror)
        found = diagnose(seen)
        assert (found.code, found.remarks[:1]) == (code, ("offset: unknown, because it is kept in a cache",))
        assert make_plan(found, PG_PIPELINE.policy, seen).refused


def test_inv_40_what_threatens_the_slot_is_said_beside_an_offset_that_cannot_be_read() -> None:
    large, nearly = replace(SLOT, restart=Lsn(1)), replace(SLOT, safe_bytes=1_000_000)
    grows = diagnose(observed(facts(large, log=replace(SERVER, lsn=Lsn(11 * 1024**3))), UNSEEN))
    assert "SLOT_GROWS" in {one.code for one in grows.others}
    failed = replace(UNSEEN, tasks=FAILED.tasks)
    risk = diagnose(observed(facts(nearly), failed))
    assert "AT_RISK" in {one.code for one in risk.others}
    assert not any("CONNECTOR_FAILED" in one.code for one in risk.others)  # nobody knows that the source has it all
    assert any("EOFException" in text for text in risk.evidence.values())


def test_every_row_has_a_case() -> None:
    codes = {row.code for row in PROBLEMS}
    assert codes == {code for _, code, *_ in ROWS}
    descriptions = {diagnose(observed(*row[2:4], read_from=row[4])).description for row in ROWS}
    assert {row.description for row in PROBLEMS} == descriptions


@pytest.mark.parametrize(
    ("source", "mirror", "read_from"),
    [
        (facts(), connector(), ""),
        (facts(), connector(), SERVER.name),
        # the offset is read before the server: what it has confirmed since is no fault
        (facts(replace(SLOT, confirmed=Lsn(STORED + 0x40))), connector(), ""),
        # a slot that was kept in step went over to the promoted standby
        (facts(replace(SLOT, synced=True, failover=True), log=replace(SERVER, timeline=2)), connector(), SERVER.name),
        (
            facts(replace(SLOT, restart=Lsn(1), safe_bytes=10**12), log=replace(SERVER, lsn=Lsn(11 * 1024**3))),
            connector(),
            "",
        ),
        (facts(wal_senders=10), connector(), ""),
        # the connector connects again, or copies its tables before it reads the slot
        (facts(replace(IDLE, inactive_s=60.0)), connector(), ""),
        (facts(replace(IDLE, inactive_s=600.0)), COPYING, ""),
    ],
)
def test_healthy(source: PgFacts, mirror: ConnectorFacts, read_from: str) -> None:
    assert diagnose(observed(source, mirror, read_from=read_from)).code == "HEALTHY"


def test_a_quiet_connector_at_rest_is_stopped_and_not_lost() -> None:
    """The slot follows lsn_commit, one transaction behind the stored lsn."""
    assert diagnose(observed(facts(IDLE), STOPPED)).code == "CONNECTOR_STOPPED"
    assert diagnose(observed(facts(replace(IDLE, confirmed=Lsn(STORED))), STOPPED)).code == "CONNECTOR_STOPPED"


def test_inv_43_a_partitioned_table_is_refused_before_anything_is_stopped_until_it_is_published_by_its_root() -> None:
    """Without publish_via_partition_root its changes arrive under its partitions' names, whatever is added to the publication."""
    tables = {"public.a": replace(TABLE, name="public.a", partitioned=True)}
    by_parts = replace(PUBLICATION, tables={"public.a_low": (), "public.a_high": ()})
    lost = observed(facts(None, tables=tables, publication=by_parts), STOPPED)
    plan = make_plan(diagnose(lost), lost.pipeline.policy, lost)
    assert (diagnose(lost).code, plan.refused) == ("SLOT_MISSING", True)
    assert "publish_via_partition_root is false" in plan.reason
    bad = [one for one in checks(facts(tables=tables, publication=by_parts), "shop", "") if one.state == "bad"]
    assert [one.todo for one in bad] == [
        "ALTER PUBLICATION shop SET (publish_via_partition_root = true), then recover the table."
    ]

    by_root = replace(by_parts, via_root=True, tables={"public.a": ()})
    put_right = observed(facts(None, tables=tables, publication=by_root), STOPPED)
    assert not make_plan(diagnose(put_right), put_right.pipeline.policy, put_right).refused
    assert all(one.state != "bad" for one in checks(facts(tables=tables, publication=by_root), "shop", ""))


def test_a_new_pipeline_needs_no_slot() -> None:
    nothing = connector({}, state="STOPPED")
    assert diagnose(observed(facts(None), nothing)).code == "OFFSET_MISSING"


def test_ranks_are_of_one_row_each() -> None:
    ranks = [row.rank for row in rules_for(PG_PIPELINE).problems]
    assert len(ranks) == len(set(ranks))


@pytest.mark.parametrize(
    ("slot", "lsn", "state"),
    [
        (IDLE, STORED, Availability.AVAILABLE),
        (IDLE, END + 1, Availability.NOT_YET),
        (IDLE, STORED - 0x41, Availability.LOST),  # behind confirmed_flush_lsn
        (IDLE, STORED - 0x101, Availability.LOST),
        (LOST, STORED, Availability.LOST),
        (None, STORED, Availability.LOST),
    ],
)
def test_availability(slot: Slot | None, lsn: int, state: Availability) -> None:
    assert facts(slot).available(PgPosition(Lsn(lsn))).state is state
    elsewhere = PgPosition(Lsn(lsn), 1, "1234")
    assert facts(slot).available(elsewhere).state is Availability.UNKNOWN


@pytest.mark.parametrize(
    ("identity", "has_key", "faulty"),
    [
        (Identity.DEFAULT, True, False),
        (Identity.DEFAULT, False, True),
        (Identity.NOTHING, True, True),
        (Identity.FULL, False, False),
        (Identity.FULL, True, False),
        (Identity.INDEX, False, False),
        (Identity.INDEX, True, True),
    ],
)
def test_replica_identities(identity: Identity, *, has_key: bool, faulty: bool) -> None:
    assert bool(identity_fault(replace(TABLE, identity=identity, has_key=has_key))) is faulty


# texts as Debezium 3.6.1 and PostgreSQL 15 to 18 gave them
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("SLOT_MISSING", "io.debezium.DebeziumException: The connector is trying to read change stream starting at PostgresOffsetContext [sourceInfo=source_info[server='f'], lastSnapshotRecord=false, lsn=LSN{0/18019B0}, txId=816], but this is no longer available on the server. Reconfigure the connector to use a snapshot mode when needed."),
        ("SLOT_INVALIDATED", 'io.debezium.DebeziumException: Failed to start replication stream at LSN{0/83FD7F0}\nCaused by: org.postgresql.util.PSQLException: ERROR: can no longer access replication slot "g118"\n  Detail: This replication slot has been invalidated due to "idle_timeout".'),
        ("SLOT_INVALIDATED", "org.apache.kafka.connect.errors.ConnectException: Unable to obtain valid replication slot. Make sure there are no long-running transactions running in parallel"),
        ("SLOT_ACTIVE_ELSEWHERE", 'Caused by: ERROR: replication slot "g1218" is active for PID 15896'),
        ("PUBLICATION_MISSING", "org.apache.kafka.connect.errors.ConnectException: Publication autocreation is disabled, please create one and restart the connector."),
        ("PUBLICATION_MISSING", 'PSQLException: ERROR: publication "p_f715" does not exist\n  Where: slot "f715", output plugin "pgoutput", in the change callback'),
        ("PUBLICATION_MISSING", "Message with LSN 'LSN{0/83821E0}' not present among LSNs seen in the location phase '[LSN{0/8}]'. This is unexpected and can lead to an infinite loop or a data loss."),
        ("WAL_LEVEL", 'io.debezium.DebeziumException: Creation of replication slot failed\nCaused by: ERROR: logical decoding requires "wal_level" >= "logical"'),
        ("WAL_LEVEL", "ERROR: logical decoding requires wal_level >= logical"),
        ("MAX_WAL_SENDERS", "FATAL: number of requested standby connections exceeds max_wal_senders (currently 10)"),
        ("MAX_WAL_SENDERS", "ERROR: all replication slots are in use"),
        ("REPLICA_IDENTITY", 'ERROR: cannot update table "nopk" because it does not have a replica identity and publishes updates'),
        ("CONNECTOR_FAILED", 'FATAL: password authentication failed for user "debezium"'),
        ("CONNECTOR_FAILED", "FATAL: permission denied to start WAL sender"),
        ("CONNECTOR_FAILED_TRANSIENT", "org.postgresql.util.PSQLException: Database connection failed when reading from copy\nCaused by: java.io.EOFException"),
        ("LSN_BEFORE_SLOT", "ERROR: cannot advance replication slot to 0/8458588, minimum is 0/84586E8"),
    ],
)  # fmt: skip
def test_what_is_said_names_the_problem(code: str, text: str) -> None:
    assert explain(text).code == code
    assert code in {row.code for row in all_texts()}


def test_a_pipeline_whose_slot_is_gone_is_read_again() -> None:
    seen = observed(facts(None), STOPPED)
    plan = make_plan(diagnose(seen), PG_PIPELINE.policy, seen)
    assert not plan.refused
    assert plan.strategy == "full_snapshot"
    assert PostgresSource(ENDPOINT).where == "postgres 10.0.0.7:5432/shop as cdc"


def by(config: dict[str, str], **changes: Any) -> ConnectorFacts:
    """The connector of the healthy scene with other settings, at rest or not as `changes` say."""
    own = connector(**changes)
    return replace(own, config={**own.config, **config})


DEFAULT = {"publication.autocreate.mode": "all_tables"}


@pytest.mark.parametrize("mode", ["all_tables", "filtered"])
def test_inv_41_a_publication_that_exists_and_covers_the_tables_is_healthy_with_a_notice(mode: str) -> None:
    diagnosis = diagnose(observed(facts(), by({"publication.autocreate.mode": mode})))
    assert (diagnosis.code, diagnosis.others) == ("HEALTHY", ())
    assert any(f"publication.autocreate.mode={mode}" in remark for remark in diagnosis.remarks)


def test_inv_41_a_publication_that_cannot_be_seen_is_not_taken_for_one_that_exists() -> None:
    other = by({**DEFAULT, "publication.name": "another"})
    assert diagnose(observed(facts(), other)).code == "CONNECTOR_MISCONFIGURED"
    missing = diagnose(observed(facts(publication=None), by(DEFAULT)))
    assert missing.code == "PUBLICATION_MISSING"
    assert [one.code for one in missing.others] == ["CONNECTOR_MISCONFIGURED"]


def test_inv_40_a_slot_that_fills_the_disk_leads_and_the_setting_is_named() -> None:
    grows = facts(forecast=forecast(replace(SLOT, restart=Lsn(1)), Lsn(500 * 2**30), 1000.0, 0))
    diagnosis = diagnose(observed(grows, by({**DEFAULT, "publication.name": "another"})))
    assert diagnosis.code == "SLOT_GROWS"
    assert [one.code for one in diagnosis.others] == ["CONNECTOR_MISCONFIGURED"]


@pytest.mark.parametrize("plugin", ["wal2json", "decoderbufs"])
def test_an_older_plugin_is_diagnosed_by_its_slot_and_needs_no_publication(plugin: str) -> None:
    config = {"plugin.name": plugin}
    slot = replace(SLOT, plugin=plugin)
    assert diagnose(observed(facts(slot, publication=None), by(config))).code == "HEALTHY"
    lost = replace(slot, active_pid=None, wal_status=WalStatus.LOST, restart=None)
    assert diagnose(observed(facts(lost, publication=None), by(config, state="STOPPED"))).code == "SLOT_INVALIDATED"
    misfit = diagnose(observed(facts(SLOT), by(config)))
    assert misfit.code == "SOURCE_MISCONFIGURED"
