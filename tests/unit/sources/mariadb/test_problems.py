"""What a diagnosis makes of a MariaDB source: by its GTIDs where the offset has them, by file and position else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.offsets.mariadb import MariaDbCodec
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset, validate
from airflow_cdc.core.errors import OffsetRejectedError
from airflow_cdc.core.forecast import Margin, Retention
from airflow_cdc.core.observation import (
    ControlFacts,
    Observation,
    SourceFacts,
)
from airflow_cdc.core.position import Availability
from airflow_cdc.core.xa import XaState
from airflow_cdc.kinds import rules_for
from airflow_cdc.sources.mariadb.facts import DomainFacts, MariaDbFacts
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition, MariaDbState
from airflow_cdc.sources.mariadb.problems import PROBLEMS
from airflow_cdc.sources.mysql.cascades import keys_in
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary
from airflow_cdc.sources.mysql.grants import MARIADB_NEEDS, parse_grants
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.sources.mysql.probe import retention
from airflow_cdc.sources.mysql.session import MySqlEndpoint, Session
from airflow_cdc.sources.row import Row
from tests.diagnosing import diagnose, make_plan
from tests.unit.builders import CONNECTOR, PIPELINE, SOURCE, connector_with, seen

DOMAINS = DomainFacts(
    MariaDbState.parse("0-2-90,0-1-100,3-1-7"),
    MariaDbPosition.parse("0-1-50,3-1-5"),
    MariaDbPosition.parse("0-1-60,3-1-5"),
)
MARIADB = MariaDbFacts(
    server_id=1,
    version="10.11.18-MariaDB-0+deb12u1-log",
    binlog_files=SOURCE.binlog_files,
    current=SOURCE.current,
    log_bin=True,
    binlog_format="ROW",
    row_image="FULL",
    uptime_s=3600,
    domains=DOMAINS,
    address="10.0.0.5:3306",
)
MARIADB_PIPELINE = replace(PIPELINE, source=replace(PIPELINE.source, kind="mariadb"))
OFFSET = {"file": "mysql-bin.000009", "pos": 500, "gtids": "0-1-80,3-1-7", "ts_sec": 1, "server_id": 1}


def observed(offset: dict[str, Any], facts: SourceFacts = MARIADB, **connector: Any) -> Observation:
    pipeline = MARIADB_PIPELINE if isinstance(facts, MariaDbFacts) else PIPELINE
    rests = connector_with(CONNECTOR, pipeline, offset=offset, state="PAUSED", **connector)
    return seen(pipeline=pipeline, source=facts, connector=rests)


def code(offset: dict[str, Any], facts: SourceFacts = MARIADB) -> str:
    found = diagnose(observed(offset, facts))
    return "HEALTHY" if found.code == "CONNECTOR_STOPPED" else found.code


@pytest.mark.parametrize(
    ("gtids", "wanted"),
    [
        ("0-1-80,3-1-7", "HEALTHY"),
        ("0-1-100,3-1-7", "HEALTHY"),
        ("0-2-85,3-1-5", "HEALTHY"),
        ("0-1-50,3-1-5", "HEALTHY"),  # exactly what was purged, and no more
        ("0-1-49,3-1-5", "GTID_PURGED"),
        ("0-1-80,3-1-4", "GTID_PURGED"),
        ("0-1-80", "GTID_PURGED"),  # it has read nothing of domain 3
        ("0-1-101,3-1-7", "GTID_NOT_CONTAINED"),
        ("0-2-91,3-1-7", "GTID_NOT_CONTAINED"),  # by number it is there, but server 2 never wrote it here
        ("0-7-60,3-1-7", "GTID_NOT_CONTAINED"),
        ("9-1-1,0-1-80,3-1-7", "GTID_NOT_CONTAINED"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "GTID_MODE_MISMATCH"),
    ],
)
def test_by_gtid(gtids: str, wanted: str) -> None:
    assert code({**OFFSET, "gtids": gtids}) == wanted


@pytest.mark.parametrize(
    ("read", "events", "wanted"),
    [
        (26, ("Gtid", "Query", "Gtid"), "TRANSACTION_HALF_SENT"),
        (3, ("Gtid", "Query"), "TRANSACTION_HALF_SENT"),
        (2, ("Gtid", "Query"), "HEALTHY"),  # both events of the DDL, and no more
        (29, ("Format_desc", "Gtid_list", "Binlog_checkpoint"), "TRANSACTION_HALF_SENT"),  # the log was rotated since
        (26, ("Gtid", "Annotate_rows", "Table_map"), "HEALTHY"),  # inside a large transaction of rows
        (26, ("Gtid", "Query", "Xid"), "HEALTHY"),
    ],
)
def test_inv_38_an_offset_that_counts_heartbeats_after_a_ddl_skips_changes(
    read: int, events: tuple[str, ...], wanted: str
) -> None:
    facts = replace(MARIADB, at_offset=EventAtPosition(EventBoundary.BOUNDARY, events))
    assert code({**OFFSET, "event": read}, facts) == wanted
    streaming = connector_with(CONNECTOR, MARIADB_PIPELINE, offset={**OFFSET, "event": read})
    assert diagnose(seen(pipeline=MARIADB_PIPELINE, source=facts, connector=streaming)).code == "HEALTHY"


def test_the_end_of_a_file_that_was_cut_off_is_a_gap() -> None:
    lacks = MariaDbPosition.parse("0-1-90") - MariaDbPosition.parse("0-1-80")
    facts = replace(MARIADB, domains=replace(DOMAINS, hole=lacks))
    found, start = diagnose(observed(OFFSET, facts)), MariaDbCodec().read(OFFSET, {}).position
    assert start is not None
    assert found.code == "GTID_PURGED"
    assert "0:81-90" in str(found.evidence)
    assert facts.available(start).state is Availability.LOST
    unseen = {**OFFSET, "gtids": "0-1-101,3-1-7"}
    assert code(unseen, facts) == "GTID_NOT_CONTAINED", "what the server never had is said first"
    inside = replace(facts, at_offset=EventAtPosition(EventBoundary.INSIDE, (), "truncated"))
    assert diagnose(observed(OFFSET, inside)).code == "POSITION_MID_EVENT"


@pytest.mark.parametrize(
    "changes",
    [{"gtids": "0-1-101,3-1-7"}, {"gtids": None, "file": "mysql-bin.000099"}],
    ids=["by its GTIDs", "by file and position"],
)
def test_a_connector_that_streams_from_another_server_is_judged_by_nothing_that_this_one_says(
    changes: dict[str, Any],
) -> None:
    """Behind a proxy a lagging replica may answer us: that justifies no snapshot."""
    offset = {key: value for key, value in {**OFFSET, **changes}.items() if value is not None}
    streams = connector_with(CONNECTOR, MARIADB_PIPELINE, offset=offset)
    elsewhere = replace(MARIADB, address="10.9.9.9:3306")
    diagnosis = diagnose(seen(pipeline=MARIADB_PIPELINE, source=elsewhere, connector=streams))
    assert (diagnosis.code, diagnosis.strategies) == ("UNKNOWN", ())
    assert "another server answers" in diagnosis.description


def test_mariadb_gtids_on_a_mysql_server_are_of_the_other_kind() -> None:
    assert code(OFFSET, SOURCE) == "GTID_MODE_MISMATCH"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, "GTID_MISSING_IN_OFFSET"),  # all is there, but its connector asks by GTID
        ({"file": "mysql-bin.000001"}, "BINLOG_PURGED"),
        ({"file": "mysql-bin.000099"}, "POSITION_AHEAD"),
        ({"pos": 1001}, "POSITION_PAST_END"),
        ({"file": "other.000009"}, "SOURCE_CHANGED"),
    ],
)
def test_by_file_where_the_offset_has_no_gtids(change: dict[str, Any], wanted: str) -> None:
    plain = {key: value for key, value in OFFSET.items() if key != "gtids"}
    assert code({**plain, **change}) == wanted


def test_a_run_of_the_server_that_a_watermark_names_does_not_make_a_later_run_another_server() -> None:
    plain = {key: value for key, value in OFFSET.items() if key != "gtids"}
    recovered = replace(observed(plain), control=ControlFacts(3, servers=("1/db/3306/x=/1795514442",)))
    assert diagnose(recovered).code == "GTID_MISSING_IN_OFFSET"


@pytest.mark.parametrize(
    ("begins", "server_id", "wanted"),
    [
        ("0-1-60,3-1-5", 1, "POSITION_PAST_END"),
        ("0-1-60,3-1-5", None, "POSITION_PAST_END"),  # right after a snapshot an offset names no server
        ("0-1-60,3-1-5", 77, "HEALTHY"),  # written by another server: by GTID all is there
        ("0-1-90,3-1-7", 1, "HEALTHY"),  # another file of that name: here it begins behind the stored place
        (None, 1, "HEALTHY"),
    ],
)
def test_file_and_position_count_only_in_this_servers_own_log(
    begins: str | None, server_id: int | None, wanted: str
) -> None:
    start = None if begins is None else MariaDbPosition.parse(begins)
    facts = replace(MARIADB, domains=replace(DOMAINS, begins=start))
    assert code({**OFFSET, "pos": 1001, "server_id": server_id}, facts) == wanted


def test_inside_an_event() -> None:
    facts = replace(MARIADB, at_offset=EventAtPosition(EventBoundary.INSIDE, (), "wrong offset"))
    assert code(OFFSET, facts) == "POSITION_MID_EVENT"


def test_a_reset_server_has_lost_its_own_transactions() -> None:
    facts = replace(
        MARIADB,
        binlog_files=SOURCE.binlog_files[:1],
        current=BinlogPosition("mysql-bin.000008", 900),
        domains=DomainFacts(MariaDbState.parse("0-1-3"), MariaDbPosition()),
    )
    assert code(OFFSET, facts) == "POSITION_AHEAD"


def test_a_purged_place_is_recovered_by_reading_the_tables() -> None:
    lost = observed({**OFFSET, "gtids": "0-1-49,3-1-5"})
    plan = make_plan(diagnose(lost), PIPELINE.policy, lost)
    assert (plan.refused, plan.strategy) == (False, "full_snapshot")


def test_evidence_names_the_server_by_what_it_has() -> None:
    found = diagnose(observed({**OFFSET, "gtids": "0-1-49,3-1-5"}))
    assert found.evidence["gtids missing"] == f"0:50-50 [server_id 1 at 10.0.0.5:3306, {seen().taken_at}]"
    assert found.evidence["gtids purged"].startswith("0-1-50,3-1-5 ")


def position(offset: dict[str, Any]) -> Any:
    return MariaDbCodec().read(offset, {}).position


def test_a_purged_place_has_no_margin() -> None:
    assert MARIADB.margin(position(OFFSET)) == Margin(1500, 3000)
    assert MARIADB.margin(position({**OFFSET, "gtids": "0-1-49"})) == Margin(0, 3000)


def test_at_risk_rests_on_the_file_unless_it_was_read_to_its_end() -> None:
    def facts(*events: str) -> SourceFacts:
        look = EventAtPosition(EventBoundary.BOUNDARY, events)
        return replace(MARIADB, at_offset=look, retention=Retention(60, 1000.0, 990.0))

    assert code(OFFSET, facts("Gtid", "Table_map")) == "AT_RISK"
    assert EventAtPosition(EventBoundary.BOUNDARY, ("Gtid_list", "Binlog_checkpoint", "Rotate")).read_to_the_end


# ---- offsets -------------------------------------------------------------------------------------


def test_an_offset_is_read_and_written_alike() -> None:
    read = MySqlOffset.from_value({**OFFSET, "gtids": "3-1-7, 0-1-80"})
    assert (read.gtids, str(read.domains), read.by_gtid) == (None, "0-1-80,3-1-7", True)
    assert read.to_value() == OFFSET
    assert validate(OFFSET) == ()


def test_an_offset_with_mixed_up_gtids_is_refused() -> None:
    with pytest.raises(OffsetRejectedError, match="one place per domain"):
        MySqlOffset.from_value({**OFFSET, "gtids": "0-1-80,0-2-81"})


def test_a_move_is_told_in_domains() -> None:
    later = {**OFFSET, "gtids": "0-1-85,3-1-7"}
    assert MariaDbCodec().moved(OFFSET, later) == "skips 0:81-85 (at most 5 transactions)"
    assert MariaDbCodec().moved(later, OFFSET) == "repeats 0:81-85 (at most 5 transactions)"
    assert MariaDbCodec().moved(OFFSET, OFFSET) == "the same transactions"


# ---- the connector, foreign keys, grants ---------------------------------------------------------


def test_its_connector_is_read_as_mysqls() -> None:
    kind = "io.debezium.connector.mariadb.MariaDbConnector"
    made = ConnectorSettings.from_config({"connector.class": kind, "topic.prefix": "shop"})
    assert made.topic_of("shop.orders") == "shop.shop.orders"
    assert not made.observed_only


def test_foreign_keys_are_read_from_a_definition() -> None:
    shown = (
        "CREATE TABLE `c``x` (\n  `id` int(11) NOT NULL COMMENT '\\n  CONSTRAINT `no` FOREIGN KEY (`a`) REFERENCES `b` (`c`) ON DELETE CASCADE',\n"
        "  PRIMARY KEY (`id`),\n  KEY `k` (`a`),\n"
        "  CONSTRAINT `one` FOREIGN KEY (`a`,`b)`) REFERENCES `other`.`p ``1` (`a`,`b`) ON DELETE CASCADE ON UPDATE SET NULL,\n"
        "  CONSTRAINT `two` FOREIGN KEY (`a`) REFERENCES `q` (`id`) ON UPDATE NO ACTION,\n"
        "  CONSTRAINT `three` FOREIGN KEY (`a`) REFERENCES `r` (`id`)\n) ENGINE=InnoDB"
    )
    found = [
        (key["parent_schema"], key["parent_table"], key["on_delete"], key["on_update"])
        for key in keys_in(shown, "d", "c`x")
    ]
    assert found == [("other", "p `1", "CASCADE", "SET NULL"), ("d", "q", "", "NO ACTION"), ("d", "r", "", "")]


def test_what_mariadb_asks_for() -> None:
    lines = [
        "GRANT BINLOG MONITOR ON *.* TO `cdc`@`%` IDENTIFIED BY PASSWORD '*AB'",
        "GRANT SELECT ON `shop`.* TO `cdc`@`%`",
    ]
    grants = replace(parse_grants("cdc@%", lines), needs=MARIADB_NEEDS, for_keyless=())
    missing = grants.missing(["shop.orders"], gtid=False, keyless=["shop.orders"])
    assert [(need.privilege, need.required) for need in missing] == [("REPLICATION SLAVE", False), ("PROCESS", False)]
    assert "PASSWORD" not in repr(grants)


@pytest.mark.parametrize("size", [0, 1073741824])
def test_a_log_that_is_limited_by_its_size_has_no_forecast(size: int) -> None:
    session: Any = create_autospec(Session, instance=True)
    session.row.return_value = Row(now=1000.0)
    session.rows.side_effect = lambda sql, *_args, **_more: [Row(Value=str(size))] if "total_size" in sql else []
    found = retention(session, MySqlEndpoint("h", 3306, "u", "p"), "", ())
    assert (found is None) is bool(size)


def test_inv_31_a_log_that_is_compressed_loses_changes() -> None:
    """Debezium 3.5.0 passes over what is logged compressed, and its offset moves on."""
    assert MARIADB.log_faults == {}
    assert replace(MARIADB, compressed=True).log_faults == {"log_bin_compress": "ON, must be OFF"}


@pytest.mark.parametrize(
    ("gtids", "sent", "told"),
    [
        ("0-1-99,3-1-7", ("0-1-100",), True),
        ("0-1-99,3-1-7", ("0-1-99",), False),  # its events were not sent
        ("0-1-99,3-1-7", (), False),
        ("0-1-98,3-1-7", ("0-1-100",), False),  # there is a gap before it
        ("0-1-99,3-1-6", ("0-1-100",), False),  # another domain has more
    ],
)
def test_an_offset_that_lacks_only_the_transaction_of_the_last_event_is_told_from_a_gap(
    gtids: str, sent: tuple[str, ...], told: bool
) -> None:
    begins = MariaDbPosition.parse("0-1-100,3-1-7")
    purged = replace(MARIADB, domains=replace(DOMAINS, purged=begins))
    found = diagnose(observed({**OFFSET, "gtids": gtids, "event": 2, "row": 1}, purged, sent=sent))
    assert found.code == "GTID_PURGED"
    assert ("last event's transaction" in found.evidence) is told


@pytest.mark.parametrize(("rollbacks", "warned"), [(0, False), (1, True)])
def test_inv_32_a_rollback_since_the_last_check_is_named(rollbacks: int, warned: bool) -> None:
    began = XaState("1/db/3306/x=/7", 7.0, prepares=4, rollbacks=0)
    facts = replace(MARIADB, xa=replace(began, rollbacks=rollbacks, prepares=5))
    looked = replace(observed(OFFSET, facts), control=ControlFacts(3, compared_xa={"shop.orders": began}))
    problem = next(one for one in PROBLEMS if one.code == "XA_ROLLED_BACK")
    assert (problem.holds(rules_for(looked.pipeline).case(looked)) is not None) is warned
