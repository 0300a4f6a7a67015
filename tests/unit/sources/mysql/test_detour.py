"""Which replica may stand in for its source, what is written on the way there and back, and what a plan makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.debezium.connector import WAS, is_away, pointed_at, pointed_back
from airflow_cdc.core.observation import (
    ControlFacts,
    Observation,
    ReplicaFacts,
    SchemaFacts,
    Unknown,
)
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.secrets import mask_config
from airflow_cdc.core.table import Table
from airflow_cdc.core.transactions import come_back, own_transactions, start_there
from airflow_cdc.decisions.diagnosis.strategy import Plan
from airflow_cdc.sources.mysql.detour import (
    chosen_replica,
    detour_blocker,
    faults,
)
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.kind import MySqlSettings
from tests.diagnosing import case_of, diagnose, make_plan
from tests.unit.builders import GTID_OFFSET, HEALTHY, OTHER, PIPELINE, SOURCE, UUID, seen
from tests.unit.builders import REPLICA as GOOD
from tests.unit.faults import PURGED, RECOVERY
from tests.unit.tables import col

STORED = GtidSet.parse(GTID_OFFSET["gtids"])
NAMED = replace(
    PIPELINE, source=MySqlSettings("mysql", "shop_mysql", PIPELINE.source.tables, replicas=("first", "second"))
)


def lost(**replicas: ReplicaFacts | Unknown) -> Observation:
    """The source purged what the connector needs; these replicas were looked at."""
    return replace(seen(source=PURGED), pipeline=NAMED, replicas=replicas)


def plan(obs: Observation, policy: Policy | None = None, **options: Any) -> Plan:
    return make_plan(diagnose(obs), policy or Policy(), obs, **options)


def test_a_replica_that_has_it_all_comes_before_every_reading_of_tables() -> None:
    chosen = plan(lost(first=GOOD))
    assert (chosen.strategy, chosen.data_loss, chosen.destructive) == ("replica_detour", "nothing", False)
    assert chosen.steps[1:] == ("detour_connector", "return_connector", "compare", "verdict", "report")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"gtid_mode": "ON_PERMISSIVE"}, "gtid_mode is ON_PERMISSIVE, it must be ON"),
    ({"log_bin": False}, "log_bin is OFF"),
    ({"log_updates": False}, "log_replica_updates is OFF, it must be ON"),
    ({"binlog_format": "MIXED"}, "binlog_format is MIXED, it must be ROW"),
    ({"row_image": "MINIMAL"}, "binlog_row_image is MINIMAL, it must be FULL"),
    ({"filters": ("replicate_ignore_table shop.orders",)}, "logs their GTIDs: replicate_ignore_table shop.orders"),
    ({"sources": ()}, "it replicates from no server"),
    ({"gtid_purged": GtidSet.parse(f"{UUID}:1-85")}, f"it purged {UUID}:81-85"),
    ({"gtid_executed": GtidSet.parse(f"{UUID}:1-82")}, f"it never had {UUID}:83-90"),
    ({"gtid_executed": GtidSet.parse(f"{UUID}:1-70:81-100")}, f"and lacks {UUID}:71-80"),
]


@pytest.mark.parametrize(("facts", "told"), BAD)
def test_inv_27_a_replica_that_may_lack_rows_is_passed_over_with_the_reason(facts: dict[str, Any], told: str) -> None:
    chosen = plan(lost(first=replace(GOOD, **facts)))
    assert chosen.strategy == "full_snapshot"
    assert "Not replica_detour: first: " in chosen.reason
    assert told in chosen.reason


def test_an_unreachable_replica_is_unknown_and_never_eligible() -> None:
    obs = lost(first=Unknown("no route"), second=replace(GOOD, log_updates=False))
    assert diagnose(obs).code == "GTID_PURGED"
    assert plan(obs).strategy == "full_snapshot"
    assert "first: could not be read: no route; second: log_replica_updates" in detour_blocker(case_of(obs))
    assert "second: could not be read: it was not examined" in detour_blocker(case_of(lost(first=Unknown("x"))))


def test_a_table_without_a_key_is_not_read_from_two_servers() -> None:
    events = Table("shop", "events", (col("n", 1, "int", "int", nullable=True),), ())
    obs = replace(lost(first=GOOD), schema=SchemaFacts({"shop.events": events}))
    chosen = plan(obs)
    assert chosen.strategy == "full_snapshot"
    assert "Not replica_detour: shop.events without a key" in chosen.reason


def test_the_first_that_can_is_taken() -> None:
    other = replace(GOOD, conn_id="second")
    assert chosen_replica(case_of(lost(first=Unknown("down"), second=other))) == other
    assert chosen_replica(case_of(lost(second=other, first=GOOD))) == GOOD
    assert chosen_replica(case_of(replace(lost(first=GOOD), source=Unknown("x")))) is None


def test_own_transactions_of_a_replica_are_no_fault_purged_or_not() -> None:
    own = GtidSet.parse(f"{OTHER}:1-5")
    odd = replace(GOOD, gtid_executed=GOOD.gtid_executed | own, gtid_purged=GOOD.gtid_purged | own)
    assert faults(odd, PURGED, STORED) == ()


OPEN = replace(RECOVERY, strategy="replica_detour")


def test_an_open_detour_is_gone_on_with_and_nothing_is_asked_again() -> None:
    obs = seen(control=ControlFacts(4, OPEN))
    assert diagnose(obs).code == "RECOVERY_OPEN"
    chosen = plan(obs, Policy(approval="always"))
    assert (chosen.strategy, chosen.needs_approval) == ("replica_detour", False)
    assert plan(obs, asked="full_snapshot").strategy == "full_snapshot"
    assert plan(obs, asked="finish").refused


def test_an_open_snapshot_is_not_gone_on_with_by_a_detour() -> None:
    obs = seen(control=ControlFacts(4, RECOVERY))
    assert plan(obs).strategy == "finish"
    assert "the open recovery is a full_snapshot" in plan(obs, asked="replica_detour").reason


def test_servers_that_list_themselves_are_named_in_the_evidence_only() -> None:
    obs = replace(lost(), source=replace(PURGED, replicas_seen=("repl at replica:3306",)))
    assert "repl at replica:3306" in diagnose(obs).evidence["log reader 1"]
    assert plan(obs).strategy == "full_snapshot"


# ---- sets ---------------------------------------------------------------------------------------

intervals = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8)), max_size=4)


def gtid_set(uuid: str, drawn: list[tuple[int, int]]) -> GtidSet:
    return GtidSet(((uuid, "", tuple((lo, lo + length) for lo, length in drawn)),))


@given(intervals, intervals, intervals)
def test_inv_27_nothing_of_the_replicas_own_comes_back(
    stored: list[tuple[int, int]], source: list[tuple[int, int]], own: list[tuple[int, int]]
) -> None:
    """Whatever the replica executed itself, what is written afterwards is in the source, and no read change is lost."""
    executed = gtid_set(UUID, source) | gtid_set(UUID, stored)
    theirs = executed | gtid_set(OTHER, own)
    there = start_there(gtid_set(UUID, stored), own_transactions(theirs, executed))
    assert there.issubset(theirs)
    assert gtid_set(OTHER, own).issubset(there)  # so that none of them is sent
    assert come_back(theirs, executed) == executed
    assert come_back(there, executed) == gtid_set(UUID, stored)
    assert come_back(theirs, executed, gtid_set(OTHER, own)) == executed


@given(intervals, intervals, intervals)
def test_what_was_not_sent_does_not_count_as_read_once_the_source_has_it(
    stored: list[tuple[int, int]], own: list[tuple[int, int]], arrived: list[tuple[int, int]]
) -> None:
    """Two servers that replicate each other: some of the replica's own transactions reach the source during the detour."""
    had, only_there = gtid_set(UUID, stored), gtid_set(OTHER, own)
    executed = had | gtid_set(OTHER, arrived)
    back = come_back(start_there(had, only_there), executed, only_there)
    assert back.isdisjoint(only_there)  # so the source sends it
    assert had.issubset(back)
    left = own_transactions(had | only_there, executed)
    again = start_there(start_there(had, only_there), left, only_there)
    assert again.isdisjoint(only_there - left)  # or the replica does, in a second round
    assert left.issubset(again)


# ---- the connector's configuration --------------------------------------------------------------

CONFIG = {
    "name": "shop",
    "database.hostname": "source",
    "database.port": "3306",
    "database.user": "debezium",
    "database.password": "s3cret-one",
    "topic.prefix": "shop",
}


@pytest.mark.parametrize("login", [None, ("other", "s3cret-two")])
@pytest.mark.parametrize("config", [CONFIG, {k: v for k, v in CONFIG.items() if k != "database.port"}])
def test_there_and_back_is_the_same_configuration(config: dict[str, str], login: tuple[str, str] | None) -> None:
    there = pointed_at(config, ("replica", 3307), login)
    assert (there["database.hostname"], there["database.port"]) == ("replica", "3307")
    assert (there["database.user"], there["database.password"]) == (login or ("debezium", "s3cret-one"))
    assert is_away(there)
    assert not is_away(config)
    assert pointed_back(there) == config
    assert pointed_back(config) == config
    again = pointed_at(there, ("third", 1), login)
    assert pointed_back(again) == config


def test_the_kept_password_is_masked_like_the_one_in_use() -> None:
    shown = mask_config(pointed_at(CONFIG, ("replica", 3307), ("other", "s3cret-two")))
    assert shown[WAS + "database.password"] == shown["database.password"] == "***"
    assert "s3cret" not in str(shown)


def test_the_healthy_case_names_no_replica() -> None:
    assert HEALTHY.replicas == {}
    assert SOURCE.replicas_seen == ()
