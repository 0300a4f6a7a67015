"""Parts of a table: the same rows for both engines, and all parts together are the table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import BackfillSpec
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.leaves import HashLeaves, IntegerLeaves
from airflow_cdc.decisions.compare.part import WHOLE, interval_part, leaves_part
from airflow_cdc.sources.mysql.encoding import ROWS as MYSQL
from airflow_cdc.spark_apps.compare.digest import ROWS as SPARK
from tests.unit.tables import col

TABLE = Table(
    "shop",
    "orders",
    (
        col("id", 1, "bigint", "bigint", nullable=False),
        col("at", 2, "datetime", "datetime(6)"),
        col("seen", 3, "timestamp", "timestamp"),
        col("on", 4, "date", "date"),
        col("day", 5, "char", "char(8)"),
        col("number", 6, "int", "int"),
        col("doc", 7, "json", "json"),
    ),
    ("id",),
)
DAY = (datetime(2026, 10, 3, tzinfo=UTC), datetime(2026, 10, 4, tzinfo=UTC))


def test_the_whole_has_no_condition() -> None:
    assert WHOLE.whole
    assert not leaves_part(HashLeaves(7), [3]).whole


def test_leaves_of_integers_are_ranges_with_open_ends() -> None:
    scheme = IntegerLeaves("id", 10)
    assert MYSQL.part_where(TABLE, leaves_part(scheme, [3, 2])) == "`id` BETWEEN 20 AND 39"
    part = leaves_part(scheme, [2, 9], below=0, above=4)
    assert MYSQL.part_where(TABLE, part) == SPARK.part_where(TABLE, part)
    assert MYSQL.part_where(TABLE, part) == "`id` BETWEEN 20 AND 29 OR `id` BETWEEN 90 AND 99 OR `id` < -9 OR `id` > 49"
    assert part.scheme is scheme


def test_hash_leaves_have_no_ends() -> None:
    part = leaves_part(HashLeaves(14), [3], below=0, above=13)
    assert MYSQL.part_where(TABLE, part).endswith("% 14 AS SIGNED) IN (3)")
    assert SPARK.part_where(TABLE, part).endswith("% 14) IN (3)")


@pytest.mark.parametrize(
    ("spec", "mysql", "spark"),
    [
        (
            BackfillSpec("shop.orders", "at"),
            "`at` >= TIMESTAMP'2026-10-03 00:00:00.000000' AND `at` < TIMESTAMP'2026-10-04 00:00:00.000000'",
            "`at` >= TIMESTAMP_NTZ'2026-10-03 00:00:00.000000' AND `at` < TIMESTAMP_NTZ'2026-10-04 00:00:00.000000'",
        ),
        (
            BackfillSpec("shop.orders", "seen"),
            "`seen` >= TIMESTAMP'2026-10-03 00:00:00.000000' AND `seen` < TIMESTAMP'2026-10-04 00:00:00.000000'",
            "`seen` >= TIMESTAMP'2026-10-03 00:00:00.000000' AND `seen` < TIMESTAMP'2026-10-04 00:00:00.000000'",
        ),
        (BackfillSpec("shop.orders", "on"), *["`on` >= DATE'2026-10-03' AND `on` < DATE'2026-10-04'"] * 2),
        (
            BackfillSpec("shop.orders", "day", format="%Y%m%d"),
            "`day` = _utf8mb4 X'3230323631303033'",
            "`day` = '20261003'",
        ),
        (BackfillSpec("shop.orders", "number", format="%Y%m%d"), *["`number` = 20261003"] * 2),
        (
            BackfillSpec("shop.orders", "id", step=100, origin="2026-10-01"),
            *["`id` >= 200 AND `id` < 300"] * 2,
        ),
        (BackfillSpec("shop.orders", "id", step=100, origin="2026-10-04"), *["`id` >= -100 AND `id` < 0"] * 2),
    ],
    ids=lambda v: v.by if isinstance(v, BackfillSpec) else "",
)
def test_an_interval(spec: BackfillSpec, mysql: str, spark: str) -> None:
    part = interval_part(TABLE, spec, *DAY)
    assert (MYSQL.part_where(TABLE, part), SPARK.part_where(TABLE, part)) == (mysql, spark)
    assert part.name.startswith("2026-10-03 00:00 to 2026-10-04 00:00")


def test_a_year_is_compared_as_the_number_that_it_is() -> None:
    """`y` >= 20 would be 2020 and later."""
    table = Table("shop", "t", (col("y", 1, "year", "year"),))
    part = interval_part(table, BackfillSpec("shop.t", "y", step=20, origin="2026-10-02"), *DAY)
    assert MYSQL.part_where(table, part) == "(`y` + 0) >= 20 AND (`y` + 0) < 40"
    assert SPARK.part_where(table, part) == "`y` >= 20 AND `y` < 40"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (BackfillSpec("shop.orders", "doc"), "doc is json: without `format` or `step`"),
        (BackfillSpec("shop.orders", "doc", format="%Y"), "`format` needs a column of whole numbers, CHAR or VARCHAR"),
        (BackfillSpec("shop.orders", "at", step=5, origin="2026-01-01"), "`step` needs a column of whole numbers"),
        # each of these means something else within quotes in one of the engines, or has other bytes there
        (BackfillSpec("shop.orders", "day", format="%Y'"), "is not a plain value"),
        (BackfillSpec("shop.orders", "day", format="%Y\\"), "is not a plain value"),
        (BackfillSpec("shop.orders", "day", format="%Yé"), "is not a plain value"),
    ],
)
def test_a_column_that_does_not_fit(spec: BackfillSpec, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        interval_part(TABLE, spec, *DAY)


@pytest.mark.parametrize("more", [{"step": 5}, {"origin": "2026-01-01"}, {"step": 5, "origin": "x", "format": "%Y"}])
def test_half_a_key_range_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="belong together"):
        BackfillSpec("shop.orders", "id", **more)  # type: ignore[arg-type]
