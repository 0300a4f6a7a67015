"""Abandoning a recovery, or tables of it: the rest goes on, and nothing that was given up looks healthy."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.core.errors import ConnectorError, LeaseHeldError, SinkError, UsageError
from airflow_cdc.core.observation import ConnectorState
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.apply.start import DdlLog, plan_start
from airflow_cdc.decisions.diagnosis.strategy import DETOUR
from airflow_cdc.flows.abandon import abandon
from airflow_cdc.flows.run import Run
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.position import read_position
from tests.contract.lakes import COLUMNS, run_on
from tests.diagnosing import diagnose
from tests.recoveries import advance_to
from tests.unit.builders import seen
from tests.unit.faults import epochs

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
MYSQL = "io.debezium.connector.mysql.MySqlConnector"
PROVEN: dict[str, str] = {"verdict": "MATCH"}
BY: dict[str, str] = {"who": "ada", "reason": "the table was dropped"}


@pytest.fixture
def connector() -> Any:
    """A connector that was stopped."""
    made = create_autospec(DebeziumConnector, instance=True)
    made.state.return_value = ConnectorState("STOPPED")
    return made


@pytest.fixture
def run(lake: Lake, tmp_path: Path, connector: Any) -> Run:
    """A recovery of two tables whose run is dead: its lease is gone."""
    made = run_on(lake, tmp_path, ORDERS, CUSTOMERS, connector=connector)
    made.clients.control.open_recovery(made.run_id, tables=[ORDERS, CUSTOMERS])
    return made


def test_inv_01_an_abandoned_recovery_is_closed_and_does_not_look_healthy(run: Run) -> None:
    done = abandon(run, **BY)
    facts = run.clients.control.facts()
    assert (done["recovery"], done["left"], facts.recovery) == ("abandoned", [], None)
    diagnosis = diagnose(seen(control=facts, sink=epochs(orders=0, customers=0)))
    assert diagnosis.code == "EPOCH_BEHIND"
    assert "abandoned at" in diagnosis.evidence["recovery of shop.orders"]
    assert "by ada: the table was dropped" in diagnosis.evidence["recovery of shop.orders"]


def test_inv_02_the_stamp_of_an_abandoned_table_is_no_start_for_apply(run: Run) -> None:
    abandon(run, **BY)
    table = Table("shop", "orders", (), ())
    with pytest.raises(SinkError, match="epoch 0"):
        plan_start(
            table,
            run.clients.control.facts().epoch,
            Stamp(0),
            {},
            topic="t",
            state=None,
            upto={},
            ddl=DdlLog("ddl"),
            read_position=read_position,
        )


def test_the_other_tables_go_on(run: Run) -> None:
    done = abandon(run, [ORDERS], **BY)
    recovery = run.clients.control.state()["recovery"]
    assert (done["abandoned"], done["left"], done["recovery"]) == ([ORDERS], [CUSTOMERS], "open")
    assert (recovery["run_id"], recovery["tables"]) == (run.run_id, [CUSTOMERS])
    assert "trigger cdc_recovery" in done["todo"]


def test_with_the_others_published_the_recovery_is_closed_and_its_stages_go(
    run: Run, lake: Lake, connector: Any
) -> None:
    """`publish: each`: what could not be made equal must not keep the rest from being applied."""
    for name in ("orders", "customers"):
        lake.ensure_table("shop", name, COLUMNS)
        lake.stage("shop", name, "recov_1_1")
    advance_to(
        run.clients.control,
        run.run_id,
        published={CUSTOMERS: 7},
        verified={CUSTOMERS: PROVEN},
        config_changed={"heartbeat.interval.ms": "60000"},
    )
    connector.raw_config.return_value = {
        "topic.prefix": "shop",
        "connector.class": MYSQL,
        "heartbeat.interval.ms": "1000",
    }
    connector.committed_offset.return_value = None
    done = abandon(run, **BY)
    assert connector.change_config.call_args.args[2]["heartbeat.interval.ms"] == "60000"
    assert "still set" not in done["connector"]
    state = run.clients.control.state()
    assert (done["abandoned"], done["left"], done["recovery"]) == ([ORDERS], [CUSTOMERS], "closed")
    assert (state["recovery"], state["lease"], set(state["abandoned"])) == (None, None, {ORDERS})
    assert lake.stages("shop") == ()


def test_who_and_why_stand_in_the_audit_and_in_the_ledger_of_the_run(run: Run) -> None:
    abandon(run, [ORDERS], **BY)
    (line,) = run.clients.control.state()["audit"]
    assert (line["who"], line["what"], line["to"]) == ("ada", "abandon run:1", "the table was dropped")
    assert run.clients.control.ledger_get(run.run_id)["abandoned"][ORDERS]["reason"] == "the table was dropped"


def test_a_table_that_is_recovered_later_is_abandoned_no_more(run: Run) -> None:
    abandon(run, **BY)
    control = run.clients.control
    assert control.open_recovery("run:2", tables=[ORDERS]) == 2
    assert set(control.facts().abandoned) == {ORDERS, CUSTOMERS}
    advance_to(control, "run:2", published={ORDERS: 7})
    control.close_recovery("run:2")
    assert set(control.facts().abandoned) == {CUSTOMERS}


def test_a_recovery_whose_run_lives_is_not_abandoned(run: Run) -> None:
    run.clients.control.acquire(run.run_id, 60)
    with pytest.raises(LeaseHeldError, match="run:1"):
        abandon(run, **BY)
    assert run.clients.control.state()["recovery"]["tables"] == [ORDERS, CUSTOMERS]


def test_what_cannot_be_abandoned_is_said_and_changes_nothing(run: Run) -> None:
    control = run.clients.control
    advance_to(control, run.run_id, published={CUSTOMERS: 7}, verified={CUSTOMERS: PROVEN})
    before = control.state()
    with pytest.raises(UsageError, match=r"no table shop.else. Choose from: shop.orders"):
        abandon(run, ["shop.else"], **BY)
    with pytest.raises(UsageError, match="is already published"):
        abandon(run, [CUSTOMERS], **BY)
    with pytest.raises(UsageError, match="reason is missing"):
        abandon(run, who="ada", reason=" ")
    assert {**control.state(), "lease": None} == {**before, "lease": None}
    control.close_recovery(run.run_id)
    with pytest.raises(UsageError, match="no recovery is open"):
        abandon(run, **BY)


def test_a_table_that_was_published_before_it_could_be_proven_can_be_abandoned(run: Run) -> None:
    """As one that the connector writes itself is: it must not keep its recovery open for ever."""
    advance_to(
        run.clients.control,
        run.run_id,
        published={ORDERS: 7, CUSTOMERS: 8},
        verified={CUSTOMERS: PROVEN, ORDERS: {"verdict": "MISMATCH", "missing": 1}},
    )
    with pytest.raises(UsageError, match="is already published"):
        abandon(run, [CUSTOMERS], **BY)
    recovery = run.clients.control.recovery(read_position)
    assert recovery is not None
    assert recovery.unsettled == [ORDERS]
    advance_to(run.clients.control, run.run_id, verified={CUSTOMERS: {"verdict": "INCONCLUSIVE"}})
    done = abandon(run, [ORDERS], **BY)
    assert (done["abandoned"], done["left"], done["recovery"]) == ([ORDERS], [CUSTOMERS], "open")


def test_a_detour_under_way_is_put_back_first(run: Run) -> None:
    advance_to(run.clients.control, run.run_id, strategy=DETOUR, replica="shop_replica")
    with pytest.raises(UsageError, match=r"full_snapshot: it first restores the connector"):
        abandon(run, **BY)
    advance_to(run.clients.control, run.run_id, replica=None)
    assert abandon(run, **BY)["recovery"] == "abandoned"


def test_the_connector_is_left_as_it_is_and_said_to_be(run: Run, connector: Any) -> None:
    advance_to(
        run.clients.control,
        run.run_id,
        offset_written_at="10:00",
        config_changed={"heartbeat.interval.ms": None, "snapshot.mode": "initial"},
    )
    assert abandon(run, [ORDERS], **BY)["connector"] == (
        "connector shop is STOPPED; its offset is the watermark's, written at 10:00; still set for the recovery: "
        "heartbeat.interval.ms (before: not set), snapshot.mode (before: initial)"
    )
    connector.state.side_effect = ConnectorError("refused")
    assert "could not be read (refused); its offset" in abandon(run, **BY)["connector"]
    assert {call[0] for call in connector.method_calls} == {"state"}
