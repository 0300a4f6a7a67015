from __future__ import annotations

from airflow_cdc.spark_apps.recover import reading_order


def test_small_tables_are_read_beside_the_largest_and_not_after_the_others() -> None:
    rows = {"customers": 20_000, "all_types": 300, "orders": 90_000, "order_items": 80_000, "rates": 12}
    assert reading_order(rows) == ["orders", "all_types", "rates", "order_items", "customers"]


def test_every_table_is_read_once_whatever_their_sizes() -> None:
    assert reading_order({}) == []
    assert reading_order({"b": 5, "a": 5}) == ["a", "b"]
    assert reading_order({"b": 50_000, "a": 70_000, "c": 60_000}) == ["a", "c", "b"]
