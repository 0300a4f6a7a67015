"""Each option of Flink CDC's MySQL source that decides something here, as its documentation writes it, and what a job is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_cdc.connectors.flink.capture import BETWEEN, NAME, FlinkCapture, flat
from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.flink.problems import RULES
from airflow_cdc.core.errors import ConfigError, ConnectorError
from tests.unit.builders import UUID, seen
from tests.unit.connectors.flink.test_checkpoint import OFFSET, REAL
from tests.unit.connectors.flink.test_connector import DECIDED, JobManager, cluster, connector, job, start_of
from tests.unit.connectors.flink.test_plan import OPTIONS, node, source
from tests.unit.connectors.flink.test_problems import facts, held, offset
from tests.unit.tables import column, table

__all__ = ["cluster", "job"]

ORDERS = replace(table(column("id", "int")), name="orders")
SHOP = {"connector": "mysql-cdc", "database-name": "shop", "table-name": "orders"}


def capture(*sources: dict[str, str]) -> FlinkCapture:
    return FlinkCapture.from_config(flat("shop", sources))


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        # Flink, "Duration": a number and a unit, with or without a blank
        *(("7ms", 7), ("7 s", 7_000), ("7sec", 7_000), ("7 m", 420_000), ("7 MIN", 420_000), ("7 h", 25_200_000)),
        # what it does not know, and nothing: 30 s, the default
        *(("7 d", 30_000), ("7", 30_000), ("", 30_000), ("s", 30_000)),
    ],
)
def test_an_interval_is_read_in_each_unit(written: str, milliseconds: int) -> None:
    assert capture({**SHOP, "heartbeat.interval": written}).heartbeat_ms == milliseconds


@pytest.mark.parametrize(("written", "milliseconds"), [("", 60_000), ("1000", 1_000), ("soon", 60_000), (" 5 ", 5)])
def test_the_keep_alive_is_a_number_of_milliseconds_and_a_minute_without(written: str, milliseconds: int) -> None:
    """Debezium's connect.keep.alive.interval.ms, by default 60000."""
    assert capture({**SHOP, "debezium.connect.keep.alive.interval.ms": written}).keep_alive_ms == milliseconds


def test_of_several_sources_the_seldomest_heartbeat_and_the_shortest_keep_alive_count() -> None:
    """The position is as old as the source that is heard of last; the connection that is cut is the one that is checked least late."""
    often = {**SHOP, "heartbeat.interval": "1s", "debezium.connect.keep.alive.interval.ms": "9000"}
    seldom = {**SHOP, "heartbeat.interval": "9s", "debezium.connect.keep.alive.interval.ms": "1000"}
    both = capture(often, seldom)
    assert (both.heartbeat_ms, both.keep_alive_ms) == (9_000, 1_000)


def test_a_job_is_only_observed_and_leaves_rows_as_they_are() -> None:
    """Its events are not decoded here; of years nothing is known that would change them, and nothing is between it and its sink."""
    for made in (capture(), capture(SHOP)):
        assert (made.prefix, made.observed_only, made.years_adjusted, made.reports_ddl) == ("shop", True, False, False)
        assert (made.truncates_seen, made.ddl_topic, made.history_topic, made.heartbeat_topic) == (
            False,
            None,
            None,
            "",
        )
        assert (made.healing, made.between, made.rows_refused, made.quickened) == ((), "", None, {})
        assert (made.topic_of("shop.orders"), made.topics_about(["shop.orders"]), made.mixed([])) == ("", (), {})
        assert (made.offset_faults({}), made.carried(ORDERS)) == ((), ORDERS)


def test_what_the_job_does_between_source_and_sink_is_kept() -> None:
    config = flat("shop", (SHOP,), ("calc", "join"))
    assert (config[NAME], config[BETWEEN]) == ("shop", "calc, join")
    assert FlinkCapture.from_config(config).between == "calc, join"
    assert BETWEEN not in flat("shop", (SHOP,))


@pytest.mark.parametrize(
    "option",
    [
        "debezium.column.exclude.list",
        "debezium.column.include.list",
        "debezium.message.key.columns",
        "debezium.skipped.operations",
        "debezium.binary.handling.mode",
    ],
)
def test_each_setting_of_debezium_that_changes_rows_is_refused_and_its_others_are_not(option: str) -> None:
    refused = capture({**SHOP, option: "x"}).rows_refused
    assert refused is not None
    assert f"{option} is 'x'" in refused.what
    assert capture({**SHOP, "debezium.snapshot.mode": "x", "other.column.x": "1"}).rows_refused is None
    append = "scan.read-changelog-as-append-only.enabled"
    assert capture({**SHOP, append: "FALSE"}).rows_refused is None
    assert "arrive as inserts" in str(capture({**SHOP, append: "TRUE"}).rows_refused)


@pytest.mark.parametrize(
    ("database", "name", "read"),
    [
        *(("shop", "orders", True), ("shop", "order", False), ("shop_.*", "orders", False), ("sh.*", "o.*", True)),
        # of another dialect than Python's, or endless here: nothing is said of it
        *(("shop", "orders(", True), ("shop", "(?>orders)(", True), ("shop", "(o+)+x", False)),
    ],
)
def test_a_source_reads_what_its_names_match_as_a_whole(database: str, name: str, *, read: bool) -> None:
    made = capture({**SHOP, "database-name": database, "table-name": name})
    if read:
        made.check_read(ORDERS)
        return
    with pytest.raises(ConfigError, match=r"no source of the job reads shop\.orders"):
        made.check_read(ORDERS)


# ---- the job ---------------------------------------------------------------------------------------------------------


def test_whether_it_moved_is_seen_by_what_it_stored_and_what_it_was_restored_from(
    job: FlinkConnector, cluster: JobManager
) -> None:
    """A connector that fails again and again from one place does not move; of a job that was not restored nothing can be said."""
    cluster.add()
    restored = {"external_path": cluster.state("chk-4"), "id": 4}
    for latest, moved in (
        ({"completed": None, "restored": restored}, False),
        ({"completed": {"id": 5, "external_path": cluster.state("chk-5")}}, False),
        ({"completed": {"id": 5, "external_path": cluster.state("chk-5")}, "restored": restored}, False),
    ):
        cluster.jobs["j1"]["latest"] = latest
        assert job._moved(job._one_live("shop")) is moved
    (Path(cluster.state("chk-5")) / "_metadata").write_bytes(REAL.replace(b'"pos":"1196"', b'"pos":"2000"'))
    assert job._moved(job._one_live("shop"))
    (Path(str(restored["external_path"])) / "_metadata").unlink()
    assert not job._moved(job._one_live("shop"))
    assert not job._moved(None)


def test_without_a_stored_state_there_is_no_entry_and_no_offset(job: FlinkConnector, cluster: JobManager) -> None:
    cluster.add(latest={})
    assert job.entries("shop") == ()
    assert job.committed_offset("shop", "shop") is None
    facts = job.facts("shop")
    assert (facts.offset, facts.key, facts.offsets_count, facts.sources) == (None, None, 0, 1)


def test_a_job_that_never_stores_its_state_says_so_and_one_that_ended_is_not_asked(
    job: FlinkConnector, cluster: JobManager
) -> None:
    cluster.add()
    cluster.interval = 0
    assert job.facts("shop").checkpoint_ms is None
    job.stop("shop")
    cluster.jobs.clear()
    facts = job.facts("shop")
    assert (facts.checkpoint_ms, facts.jobs, facts.deleted_on_cancel) == (0, (), False)


def test_of_a_state_with_several_sources_none_is_the_offset_to_start_from(
    job: FlinkConnector, cluster: JobManager
) -> None:
    """One offset was decided for one source: the state of two does not say which is meant."""
    cluster.add()
    job.stop("shop")
    assert job.offset_store("shop", {}).read() == OFFSET
    further = REAL.replace(b'"shop"."t"', b'"crm_"."u"')
    (cluster.folder / "savepoint-1" / "_metadata").write_bytes(further + REAL)
    store = job.offset_store("shop", {})
    store.write(OFFSET)
    decided = start_of(cluster)
    assert decided is not None
    assert decided.offset == OFFSET
    store.write(DECIDED)
    assert store.read() == DECIDED


def test_a_stored_set_that_is_ahead_shows_all_three_sets() -> None:
    """What is stored, what the server has, and what of its transactions would be skipped."""
    told = held(29, facts(offset=offset(f"{UUID}:1-103"))) or {}
    assert {name for name in told if name.startswith("gtids ")} == {
        "gtids stored",
        "gtids executed",
        "gtids will be skipped",
    }
    assert told["gtids executed"].startswith(f"{UUID}:1-100 (100 transactions)")


@pytest.mark.parametrize(
    ("restarts", "strategy", "shown"), [(0, "fixed delay", ""), (3, "fixed delay", "fixed delay"), (3, "", "not known")]
)
def test_how_flink_goes_on_with_a_job_that_fails_is_shown_once_it_failed(
    restarts: int, strategy: str, shown: str
) -> None:
    case = RULES.case(seen(connector=facts(restarts=restarts, strategy=strategy)))
    (beside,) = RULES.beside
    told = beside.tell(case)
    assert beside.ranks == {30, 33, 52, 53}  # a lost position, and a connector that failed
    assert bool(told) == bool(restarts)
    if restarts:
        assert told["failures that Flink remembers"].startswith("3 ")
        assert told["restart strategy"].startswith(f"{shown} ")


def test_a_plan_that_is_not_the_jobs_is_found_before_anything_is_decided(cluster: JobManager, tmp_path: Path) -> None:
    two = connector(cluster, tmp_path, source(1, OPTIONS), source(2, OPTIONS), node(3))
    cluster.add()
    with pytest.raises(ConnectorError):
        two.offset_store("shop", {})
    (tmp_path / "plan.json").unlink()
    with pytest.raises(ConnectorError):
        two.offset_store("shop", {})
