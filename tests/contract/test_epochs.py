"""INV 39: epochs belong to tables, in the control document and in everything that asks it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.control.control import Control
from airflow_cdc.core.epochs import EVERY, Epochs
from airflow_cdc.core.observation import (
    ControlFacts,
    OpenFacts,
)
from airflow_cdc.flows import decide
from airflow_cdc.flows.backlog import applicable
from airflow_cdc.flows.run import RunOptions
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from tests.contract.lakes import run_on
from tests.diagnosing import diagnose
from tests.recoveries import advance_to
from tests.unit.builders import seen
from tests.unit.faults import epochs

ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
BOTH = [ORDERS, CUSTOMERS]


@pytest.fixture
def control(lake: Lake) -> Control:
    """A pipeline of two tables after its first recovery."""
    made = Control(IcebergControlStore(lake), "shop")
    recovered(made, "run:1", BOTH)
    return made


def recovered(control: Control, run_id: str, tables: list[str], **how: bool) -> int:
    epoch = control.open_recovery(run_id, tables=tables, **how)
    advance_to(control, run_id, published=dict.fromkeys(tables, 1))
    control.close_recovery(run_id)
    return epoch


def test_inv_39_recovering_one_table_asks_nothing_of_the_others(control: Control) -> None:
    assert recovered(control, "run:2", [ORDERS], moves=False) == 2
    facts = control.facts()
    assert (facts.required.of(ORDERS), facts.required.of(CUSTOMERS), facts.epoch) == (2, 1, 2)
    assert diagnose(seen(control=facts, sink=epochs(orders=2, customers=1))).code == "HEALTHY"
    put_back = diagnose(seen(control=facts, sink=epochs(orders=1, customers=1)))
    assert (put_back.code, put_back.evidence["stamp of shop.orders"][:7]) == ("EPOCH_BEHIND", "epoch 1")
    assert "stamp of shop.customers" not in put_back.evidence


def test_inv_39_an_offset_that_moves_leaves_no_table_alone(control: Control) -> None:
    recovered(control, "run:2", [ORDERS], moves=False)
    recovered(control, "run:3", [ORDERS])
    assert [control.facts().required.of(table) for table in BOTH] == [3, 3]
    assert diagnose(seen(control=control.facts(), sink=epochs(orders=3, customers=1))).code == "EPOCH_BEHIND"


def test_a_later_epoch_than_the_tables_own_is_no_good_either(control: Control) -> None:
    recovered(control, "run:2", [ORDERS], moves=False)
    assert diagnose(seen(control=control.facts(), sink=epochs(orders=2, customers=2))).code == "UNKNOWN"


def test_inv_39_a_document_from_before_asks_the_pipelines_epoch_of_every_table(control: Control) -> None:
    def as_before(state: dict[str, Any]) -> dict[str, Any]:
        return {**{key: value for key, value in state.items() if key != "epochs"}, "epoch": 7}

    control.update(as_before, "an older version")
    assert [control.facts().required.of(table) for table in BOTH] == [7, 7]
    recovered(control, "run:2", [ORDERS], moves=False)
    assert [control.facts().required.of(table) for table in BOTH] == [8, 7]
    assert control.state()["epochs"] == {EVERY: 7, ORDERS: 8}


def test_moving_the_position_alone_asks_nothing_of_any_table(control: Control) -> None:
    recovered(control, "run:2", BOTH, raises=False)
    assert [control.facts().required.of(table) for table in BOTH] == [1, 1]


def test_inv_39_a_new_watermark_after_some_tables_were_published_asks_a_new_epoch_of_them_too(
    control: Control,
) -> None:
    """The offset jumps from where the first watermark's connector had come to the second's: readers of the published
    tables would miss what is between.
    """
    control.open_recovery("run:2", tables=BOTH)
    advance_to(control, "run:2", published={ORDERS: 7})
    assert (control.raise_epoch("run:2"), control.ledger_get("run:2")["epoch"]) == (3, 3)
    assert not control.state()["recovery"]["published"]
    assert [control.facts().required.of(table) for table in BOTH] == [3, 3]


def test_epochs_are_asked_of_tables() -> None:
    assert Epochs(5).of(ORDERS) == 5
    assert Epochs(5).raised(6, [ORDERS]).tables == {EVERY: 5, ORDERS: 6}
    assert Epochs(6, {EVERY: 5, ORDERS: 6}).raised(7, [CUSTOMERS]).tables == {EVERY: 5, ORDERS: 6, CUSTOMERS: 7}
    assert Epochs(6, {EVERY: 5, ORDERS: 6}).raised(7, None).tables == {EVERY: 7}


def test_what_may_be_applied_beside_a_recovery() -> None:
    moving = ControlFacts(2, OpenFacts("r", tables=(ORDERS,)))
    keeping = ControlFacts(2, OpenFacts("r", tables=(ORDERS,), offset_kept=True))
    assert applicable(ControlFacts(2), BOTH) == BOTH
    assert applicable(moving, BOTH) == []
    assert applicable(keeping, BOTH) == [CUSTOMERS]
    given_up = {CUSTOMERS: {"at": "", "who": "", "reason": "", "run_id": ""}}
    assert applicable(ControlFacts(2, abandoned=given_up), BOTH) == [ORDERS]


@pytest.mark.parametrize(
    ("sink", "options", "tables"),
    [
        (epochs(customers=3), {}, [ORDERS]),
        (epochs(orders=2, customers=3), {}, [ORDERS]),
        (epochs(orders=2, customers=3), {"tables": [CUSTOMERS]}, [CUSTOMERS]),
        (epochs(orders=3, customers=3), {}, BOTH),
    ],
    ids=["added", "behind", "asked for", "healthy"],
)
def test_inv_39_a_problem_of_one_table_is_planned_for_that_table(
    lake: Lake, tmp_path: Path, sink: Any, options: dict[str, Any], tables: list[str]
) -> None:
    run = replace(run_on(lake, tmp_path, *BOTH), options=RunOptions.from_json(options))
    observation = seen(sink=sink)
    assert sorted(decide._concerned(run, observation, diagnose(observation))) == sorted(tables)
