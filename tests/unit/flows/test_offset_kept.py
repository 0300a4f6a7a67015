"""INV 39: where only tables are wrong, the connector's offset is proven and left alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import OffsetRejectedError, SchemaError
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import HistoryDoubts, OpenRecovery
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.diagnosis.connector_rows import NOT_IN_HISTORY
from airflow_cdc.decisions.diagnosis.diagnose import position_fault
from airflow_cdc.flows import move_offset
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.diagnosing import offset_in
from tests.unit.builders import GTID_OFFSET, OTHER, PIPELINE, UUID, WATERMARK
from tests.unit.faults import half_sent
from tests.unit.stand_ins import stand_in

MYSQL = "io.debezium.connector.mysql.MySqlConnector"
TABLE = Table("shop", "orders", (), ())
AS_IF = move_offset._as_if
OPEN = OpenRecovery(
    "r",
    tables=("shop.orders",),
    offset_kept=True,
    watermark=WATERMARK,
    definitions={"shop.orders": TABLE.fingerprint},
    backup=OffsetEntry({"server": "shop"}, None),
)


def at(gtids: str) -> dict[str, Any]:
    return {"file": "mysql-bin.000008", "pos": 500, "gtids": gtids, "ts_sec": 1}


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stopped connector a little behind W; its schema history says what the source says."""
    kinds = (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)
    made: Any = Parts(*(stand_in(kind) for kind in kinds))
    made.control.recovery.return_value = OPEN
    made.control.change_recovery.side_effect = lambda _run_id, transition, _read: transition(OPEN)
    made.connector.codec = MySqlCodec()
    made.connector.raw_config.return_value = {"topic.prefix": "shop", "connector.class": MYSQL}
    made.connector.committed_offset.return_value = at(f"{UUID}:1-70")
    monkeypatch.setattr(offset, "defined", lambda *_: {"shop.orders": TABLE})
    monkeypatch.setattr(offset, "present", lambda _run, tables: dict.fromkeys(tables, TABLE))
    # the source lets a connector read on from any place
    monkeypatch.setattr(move_offset, "_as_if", lambda *_: None)
    monkeypatch.setattr(move_offset, "position_fault", lambda *_: None)
    monkeypatch.setattr(offset, "_history", lambda *_: {})
    return made


def run(clients: Any) -> Run:
    return Run(PIPELINE, clients, "r", "/reports")


def test_inv_39_the_offset_is_kept_as_it_stands(clients: Any) -> None:
    done = offset.reset_offset(run(clients))
    assert (done["offset_before"], done["offset_after"], done["kept"]) == (at(f"{UUID}:1-70"), at(f"{UUID}:1-70"), True)
    clients.connector.alter_offsets.assert_not_called()
    (*_, (_run_id, transition, _read)) = (call.args for call in clients.control.change_recovery.call_args_list)
    assert transition(OPEN).written == at(f"{UUID}:1-70")


def test_inv_39_an_offset_from_between_the_connectors_own_snapshot_and_its_first_event_is_kept(clients: Any) -> None:
    """PostgreSQL's names no place to check yet. It is not written, so what a written one must hold is not asked of it."""
    stored = {"lsn": 400, "txId": 7, "ts_usec": 1}
    watermark = Watermark(PgPosition(Lsn(500), 1, "7"), "7/1", datetime(2026, 1, 1, tzinfo=UTC))
    clients.control.recovery.return_value = replace(OPEN, watermark=watermark)
    clients.connector.codec = PostgresCodec()
    clients.connector.committed_offset.return_value = stored
    assert clients.connector.codec.faults(stored)
    assert offset.reset_offset(run(clients))["offset_after"] == stored


@pytest.mark.parametrize("gtids", [f"{UUID}:1-81", f"{UUID}:1-70,{OTHER}:1-5"])
def test_inv_39_rows_read_at_a_watermark_that_lacks_what_was_sent_are_refused(clients: Any, gtids: str) -> None:
    """Changes before the fence that are not in W would be in neither."""
    clients.connector.committed_offset.return_value = at(gtids)
    with pytest.raises(OffsetRejectedError, match=r"may not hold everything.*airflow cdc abandon"):
        offset.reset_offset(run(clients))


@pytest.mark.parametrize(("transaction", "kept"), [("80", False), ("81", True)])
def test_inv_38_an_offset_inside_a_transaction_that_it_lists_as_done_is_not_kept(
    clients: Any, monkeypatch: pytest.MonkeyPatch, transaction: str, kept: bool
) -> None:
    """The other tables would lose the rest of it; inside one that is not listed yet, the connector reads it again."""
    seen = half_sent(f"{UUID}:{transaction}")
    clients.source.facts_for.return_value = seen.source
    clients.connector.committed_offset.return_value = {**GTID_OFFSET, "event": 4}
    monkeypatch.setattr(move_offset, "observe", lambda *_, **__: seen)
    monkeypatch.setattr(move_offset, "_as_if", AS_IF)
    monkeypatch.setattr(move_offset, "position_fault", position_fault)
    if kept:
        assert offset.reset_offset(run(clients))["kept"]
        return
    with pytest.raises(OffsetRejectedError, match=rf"TRANSACTION_HALF_SENT.*{UUID}:80 \[server") as refused:
        offset.reset_offset(run(clients))
    assert refused.value.reasons == ("TRANSACTION_HALF_SENT",)
    clients.control.change_recovery.assert_not_called()
    clients.connector.alter_offsets.assert_not_called()


def test_inv_39_a_history_is_not_rebuilt_over_another_tables_change(
    clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    differ = {
        "shop.orders": ["the schema history has no such table"],
        "shop.customers": ["column a: only in the source"],
    }
    monkeypatch.setattr(
        offset, "_history", lambda _run, definitions, _value: {t: differ[t] for t in definitions if t in differ}
    )
    with pytest.raises(SchemaError, match=r"^shop.customers changed after the connector's position"):
        offset.reset_offset(run(clients))
    del differ["shop.customers"]
    assert set(offset.reset_offset(run(clients))["history_differences"]) == {"shop.orders"}


CHANGED = {"shop.orders": ("column n: not in the source", "column m: only in the source")}
UNKNOWN = {"shop.orders": (NOT_IN_HISTORY,)}


@pytest.mark.parametrize(
    ("gtids", "differ", "rebuilt"),
    [
        (f"{UUID}:1-70", CHANGED, {}),
        (f"{UUID}:1-80", CHANGED, CHANGED),
        (f"{UUID}:1-70", UNKNOWN, UNKNOWN),
        (f"{UUID}:1-70", {}, {}),
    ],
    ids=[
        "it reads the change in its turn",
        "no change is left to read",
        "a table that it does not know",
        "as the source",
    ],
)
def test_inv_11_a_change_that_lies_ahead_of_the_connector_rebuilds_no_history(
    clients: Any, monkeypatch: pytest.MonkeyPatch, gtids: str, differ: Any, rebuilt: Any
) -> None:
    """Debezium fails at `CHANGE n m` if its definition has no column n any more, and so did every next recovery."""
    clients.connector.committed_offset.return_value = at(gtids)
    clients.source.at_rest.return_value = False
    monkeypatch.setattr(
        offset, "_history", lambda _run, definitions, _value: differ if "shop.orders" in definitions else {}
    )
    done = offset.reset_offset(run(clients))
    assert done["history_differences"] == {table: list(texts) for table, texts in rebuilt.items()}


def test_inv_11_on_a_server_at_rest_no_change_is_left_to_read(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DDL's own GTID enters the connector's set with the next transaction only."""
    clients.source.at_rest.return_value = True
    monkeypatch.setattr(
        offset, "_history", lambda _run, definitions, _value: CHANGED if "shop.orders" in definitions else {}
    )
    assert set(offset.reset_offset(run(clients))["history_differences"]) == {"shop.orders"}


def test_inv_12_definitions_that_were_wrong_past_a_watermark_are_rebuilt(clients: Any) -> None:
    clients.control.recovery.return_value = replace(OPEN, history=HistoryDoubts(doubted=True))
    assert set(offset.reset_offset(run(clients))["history_differences"]) == {"shop.orders"}


def test_inv_11_a_table_changed_ahead_beside_one_that_is_not_known_is_refused(
    clients: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history would be rebuilt for the one, and must not be for the other."""
    clients.source.at_rest.return_value = False
    both = {**CHANGED, "shop.customers": (NOT_IN_HISTORY,)}
    monkeypatch.setattr(offset, "_history", lambda *_: both)
    with pytest.raises(SchemaError, match=r"^shop.orders changed after the connector's position"):
        offset.reset_offset(run(clients))


def test_whether_a_watermark_holds_an_offset() -> None:
    assert offset_in(at(f"{UUID}:1-80")).held_by(WATERMARK) is True
    assert offset_in(at(f"{UUID}:1-81")).held_by(WATERMARK) is False
    without = {key: value for key, value in at("").items() if key != "gtids"}
    assert offset_in(without).held_by(WATERMARK) is None
    assert offset_in({**at(f"{UUID}:1"), "snapshot": "INITIAL"}).held_by(WATERMARK) is None
