"""What stops a new offset from being written, and that nothing was written by then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.errors import OffsetRejectedError, SchemaError, SourceError
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.flows import reset_offset as step
from airflow_cdc.flows.run import Run
from tests.unit.builders import UUID
from tests.unit.flows.recovering import KEY, LOST, NAME, ORDERS, READ, now, recovering

OLDER = {NAME: "the fingerprint of an older definition"}


class Written:
    """The offset writes of a step, in place of the transaction that tests/unit/flows/test_offsets.py is about."""

    def __init__(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: list[Any] = []
        monkeypatch.setattr(step, "write", lambda _run, _key, _before, value: self.values.append(dict(value)))
        monkeypatch.setattr(step, "_history", lambda *_: {})
        self.connector: Any = run.clients.connector


def test_the_new_offset_is_the_watermark_and_the_old_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()
    written = Written(run, monkeypatch)
    done = step.reset_offset(run)
    assert done["offset_before"] == LOST
    assert [value["gtids"] for value in written.values] == [f"{UUID}:1-80"]
    assert now(run).backup == OffsetEntry(KEY, LOST)


def test_the_connector_stands_before_its_offset_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()
    order: list[str] = []
    written = Written(run, monkeypatch)
    written.connector.stop.side_effect = lambda *_, **__: order.append("stop")
    monkeypatch.setattr(step, "write", lambda *_: order.append("write"))
    step.reset_offset(run)
    assert order == ["stop", "write"]


def test_inv_11_rows_read_under_an_older_definition_end_the_recovery_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = recovering(replace(READ, definitions=OLDER))
    written = Written(run, monkeypatch)
    with pytest.raises(SchemaError, match="changed since the watermark") as refused:
        step.reset_offset(run)
    assert "Clear the task fence_and_watermark" in refused.value.todo
    assert written.values == []


def test_inv_09_a_server_that_is_not_the_watermarks_gets_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()
    source: Any = run.clients.source
    source.check_same_server.side_effect = SourceError("another server answers")
    written = Written(run, monkeypatch)
    with pytest.raises(SourceError, match="another server answers"):
        step.reset_offset(run)
    assert written.values == []


def test_a_watermark_whose_log_is_gone_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()
    source: Any = run.clients.source
    source.still_available.return_value.__bool__.return_value = False
    source.still_available.return_value.why = "purged"
    written = Written(run, monkeypatch)
    with pytest.raises(SourceError, match="no longer has the log from the watermark: purged") as refused:
        step.reset_offset(run)
    assert "clear the task fence_and_watermark" in refused.value.todo
    assert written.values == []


def test_the_first_backup_is_never_replaced_by_a_later_try(monkeypatch: pytest.MonkeyPatch) -> None:
    first = OffsetEntry(KEY, {**LOST, "pos": 1})
    run = recovering(replace(READ, backup=first))
    Written(run, monkeypatch)
    assert step.reset_offset(run)["offset_before"] == first.value
    assert now(run).backup == first


@pytest.mark.parametrize(("position", "again"), [("before", True), ("past", False)])
def test_a_second_try_writes_again_only_if_the_connector_has_not_read_from_the_watermark(
    monkeypatch: pytest.MonkeyPatch, position: str, again: bool
) -> None:
    watermark = READ.watermark
    assert watermark is not None
    at_watermark = MySqlCodec().at(watermark.position, 1)
    run = recovering(replace(READ, written_at="2026-11-21T09:00:00+00:00", written=at_watermark))
    connector: Any = run.clients.connector
    connector.committed_offset.return_value = LOST if position == "before" else at_watermark
    written = Written(run, monkeypatch)
    step.reset_offset(run)
    assert bool(written.values) is again


@pytest.mark.parametrize(("state", "again"), [("STOPPED", True), ("RUNNING", False)])
def test_an_offset_that_was_moved_after_it_was_written_is_written_again_by_a_second_try(
    monkeypatch: pytest.MonkeyPatch, state: str, again: bool
) -> None:
    """Past the watermark it looks read already; only a connector that runs may have read that far."""
    assert READ.watermark is not None
    at_watermark = MySqlCodec().at(READ.watermark.position, 1)
    run = recovering(replace(READ, written_at="2026-11-21T09:00:00+00:00", written=at_watermark))
    connector: Any = run.clients.connector
    connector.committed_offset.return_value = {**at_watermark, "gtids": f"{UUID}:1-100"}
    connector.state.return_value.state = state
    written = Written(run, monkeypatch)
    step.reset_offset(run)
    assert bool(written.values) is again


def test_tables_whose_history_differs_are_told_to_the_step_that_rebuilds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()
    Written(run, monkeypatch)
    monkeypatch.setattr(step, "_history", lambda *_: {NAME: ("column note: only in the source",)})
    assert step.reset_offset(run)["history_differences"] == {NAME: ["column note: only in the source"]}
    assert now(run).history.differences == {NAME: ("column note: only in the source",)}


def test_a_history_of_an_abandoned_detour_is_rebuilt_for_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering(replace(READ, history=replace(READ.history, doubted=True)))
    Written(run, monkeypatch)
    assert list(step.reset_offset(run)["history_differences"]) == [NAME]


def test_a_source_whose_connector_reports_no_ddl_has_no_history_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()
    asked: list[Any] = []
    monkeypatch.setattr(step, "history", lambda _run: asked.append(1))
    monkeypatch.setattr(step, "write", lambda *_: None)

    class Silent:
        reports_ddl = False
        prefix = "shop"

    monkeypatch.setattr(step, "settings", lambda _run: Silent)
    assert step.reset_offset(run)["history_differences"] == {}
    assert asked == []


def test_an_offset_that_cannot_be_read_back_ends_the_step_with_nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()

    def fails(*_: Any) -> None:
        raise OffsetRejectedError("read back differs", reasons=("read back differs",))

    monkeypatch.setattr(step, "write", fails)
    with pytest.raises(OffsetRejectedError):
        step.reset_offset(run)
    assert now(run).written_at == ""


def test_the_definitions_of_the_recovered_tables_alone_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering()
    Written(run, monkeypatch)
    source: Any = run.clients.source
    step.reset_offset(run)
    source.definitions.assert_called_with([NAME])
    assert ORDERS.fingerprint == READ.definitions[NAME]


def test_an_offset_that_somebody_else_put_past_the_watermark_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of main are those of the watermark: a connector further on would leave out what lies between."""
    run = recovering()
    connector: Any = run.clients.connector
    connector.committed_offset.return_value = {**LOST, "file": "mysql-bin.000010", "gtids": f"{UUID}:1-100"}
    written = Written(run, monkeypatch)
    step.reset_offset(run)
    assert [value["gtids"] for value in written.values] == [f"{UUID}:1-80"]


def test_tables_that_the_connector_writes_are_on_main_before_it_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recovering()
    sink = replace(made.pipeline.sink, writer="connector")
    run = replace(made, pipeline=replace(made.pipeline, sink=sink))
    order: list[str] = []
    Written(run, monkeypatch)
    monkeypatch.setattr(step, "publish_read", lambda _run: order.append("publish"))
    monkeypatch.setattr(step, "write", lambda *_: order.append("write"))
    step.reset_offset(run)
    assert order == ["publish", "write"]


def test_inv_39_a_second_try_that_keeps_the_offset_looks_at_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering(replace(READ, offset_kept=True, written=LOST, written_at="2026-11-21T09:00:00+00:00"))
    written = Written(run, monkeypatch)
    assert step.reset_offset(run)["kept"] is True
    assert written.values == []
    source: Any = run.clients.source
    source.check_same_server.assert_not_called()
