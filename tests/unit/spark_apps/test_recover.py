from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, NativeColumn, Table
from airflow_cdc.core.types import Json
from airflow_cdc.spark_apps import recover
from airflow_cdc.spark_apps.recover import load_task, reading_order
from tests.unit.flows.recovering import DEBEZIUM, NAME, READ, recovering


def test_small_tables_are_read_beside_the_largest_and_not_after_the_others() -> None:
    rows = {"customers": 20_000, "all_types": 300, "orders": 90_000, "order_items": 80_000, "rates": 12}
    assert reading_order(rows) == ["orders", "all_types", "rates", "order_items", "customers"]


def test_every_table_is_read_once_whatever_their_sizes() -> None:
    assert reading_order({}) == []
    assert reading_order({"b": 5, "a": 5}) == ["a", "b"]
    assert reading_order({"b": 50_000, "a": 70_000, "c": 60_000}) == ["a", "c", "b"]


def test_tables_without_a_key_are_read_last_as_writes_to_them_wait_for_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()

    def reading(name: str, *, keyless: bool) -> Any:
        table = SimpleNamespace(full_name=name, keyless=keyless)
        return SimpleNamespace(table=table, watermark=None, ledger=SimpleNamespace(rows=0, complete=False))

    @contextmanager
    def for_many(_at: Any) -> Any:
        yield tools

    tools: Any = SimpleNamespace(for_many=for_many)
    progress: Any = SimpleNamespace(estimate={"log": 9_000_000, "orders": 50_000, "rates": 12, "more": 5}.get)

    def read_table(_tools: Any, one: Any, _progress: Any) -> int:
        read.append(one.table.full_name)
        return 7

    monkeypatch.setattr(recover, "read_table", read_table)
    tables = [reading(name, keyless=name in {"log", "more"}) for name in ("log", "orders", "more", "rates")]
    heads = recover._read_all(tools, tables, progress, 1)
    assert read == ["rates", "orders", "log", "more"]
    assert heads == dict.fromkeys(read, 7)
    read.clear()
    assert recover._read_all(tools, tables[:1], progress, 1) == {"log": 7}


def test_inv_21_a_column_that_the_connector_leaves_out_changes_no_definition() -> None:
    """W notes whole definitions. Such a table was refused for ever: its definition "changed since the watermark"."""
    columns = tuple(
        Column(name, at, Json(), NativeColumn("mysql", "json", (("data_type", "json"),)))
        for at, name in enumerate(("id", "day"), 1)
    )
    whole = Table("shop", "orders", columns, ("id",))
    run: Any = recovering(replace(READ, definitions={NAME: whole.fingerprint}))
    run.clients.source.definitions.side_effect = lambda names: dict.fromkeys(names, whole)
    run.clients.connector.raw_config.return_value = {**DEBEZIUM, "column.exclude.list": r"shop\.orders\.day"}
    assert [column.name for column in load_task(run).definitions[NAME].mirrored] == ["id"]
    run.clients.source.definitions.side_effect = lambda names: dict.fromkeys(names, whole.without(["day"]))
    with pytest.raises(SchemaError, match=r"shop\.orders changed since the watermark"):
        load_task(run)
