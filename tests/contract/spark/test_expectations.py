"""Expectations of a real Spark DataFrame: each can fail, and says so in words; Great Expectations says the same on its page."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_cdc.decisions.compare.expectations import Expected, Judged, judged
from airflow_cdc.reports.data_docs import write_pages
from airflow_cdc.spark_apps.compare.expectations import Pinned, count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "id": "bigint",
    "line": "int",
    "name": "string",
    "price": "decimal(20,0)",
    "at": "timestamp_ntz",
    "place": "struct<srid:int,wkb:binary>",
}
EXPECTED = Expected("shop.orders", 7, COLUMNS, ("id", "line", "name"), rows=50, key=("id", "line"))


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    """Fifty rows that fit EXPECTED."""
    return spark.range(50).selectExpr(
        "id",
        "CAST(id % 5 AS int) AS line",
        "concat('n', id) AS name",
        "CAST(IF(id = 3, NULL, id) AS decimal(20,0)) AS price",
        "TIMESTAMP_NTZ'2020-01-01 00:00:00' AS at",
        "named_struct('srid', 0, 'wkb', X'00') AS place",
    )


def suite(frame: DataFrame, expected: Expected, folder: Path) -> Judged:
    """The result counted by Spark, which is also that of a small table, counted in memory, and Great Expectations'."""
    (facts,) = count([Pinned(lambda: frame, expected)])
    (small,) = count([Pinned(lambda: frame, expected, partial(in_memory, frame))])
    assert small == facts
    write_pages([facts], folder)
    return judged(facts)


def same(frame: DataFrame) -> DataFrame:
    return frame


def in_memory(frame: DataFrame) -> pa.Table:
    return pa.Table.from_batches(frame.toArrow().to_batches())


def test_a_sound_snapshot_passes_and_has_a_page(frame: DataFrame, tmp_path: Path) -> None:
    result = suite(frame, EXPECTED, tmp_path)
    assert (result.success, result.failures) == (True, ())
    assert result.checks == len(["rows", "columns", "NULLs", "key"])
    assert "shop.orders" in (tmp_path / "index.html").read_text()
    assert list(tmp_path.glob("validations/**/*.html"))


@pytest.mark.parametrize(
    ("change", "expected", "say"),
    [
        (lambda f: f.where("id <> 9"), EXPECTED, "rows: 49, expected 50"),
        (
            lambda f: f.unionAll(f.where("id = 9")).where("id <> 8"),
            EXPECTED,
            "rows whose key another row has: 2, expected 0",
        ),
        (
            lambda f: f.withColumn("id", f.line.cast("bigint")),
            replace(EXPECTED, key=("id",)),
            "rows whose key another row has: 50, expected 0",
        ),
        (
            lambda f: f.selectExpr("id", "line", "nullif(name, 'n7') AS name", "price", "at", "place"),
            EXPECTED,
            "NULLs in name: 1, expected 0",
        ),
        (
            lambda f: f.select("line", "id", "name", "price", "at", "place"),
            EXPECTED,
            "column 1: line IntegerType, expected id LongType, and 1 after it",
        ),
        (
            lambda f: f.withColumn("price", f.price.cast("string")),
            EXPECTED,
            "column 4: price StringType, expected price DecimalType",
        ),
        (
            lambda f: f.drop("price"),
            EXPECTED,
            "column 4: at TimestampNTZType, expected price DecimalType, and 2 after it",
        ),
        (lambda f: f.drop("place"), EXPECTED, "column 6: none, expected place StructType"),
        (lambda f: f.drop("name"), EXPECTED, "NULLs in name: 50, expected 0"),
        (lambda f: f.withColumn("more", f.id), EXPECTED, "column 7: more LongType, expected none"),
    ],
)
def test_each_fault_fails_the_suite(
    frame: DataFrame, change: object, expected: Expected, say: str, tmp_path: Path
) -> None:
    result = suite(change(frame), expected, tmp_path)  # type: ignore[operator]
    assert not result.success
    assert any(say in failure for failure in result.failures), result.failures


def test_rows_in_flight_widen_the_count_and_nothing_more(frame: DataFrame, tmp_path: Path) -> None:
    assert suite(frame.where("id <> 9"), replace(EXPECTED, tolerance=1), tmp_path).success
    assert not suite(frame.where("id > 9"), replace(EXPECTED, tolerance=1), tmp_path).success


def test_a_table_without_a_key_may_hold_equal_rows(frame: DataFrame, tmp_path: Path) -> None:
    twice = frame.unionAll(frame)
    keyless = replace(EXPECTED, key=(), rows=100)
    assert suite(twice, keyless, tmp_path).success


def test_a_key_that_equal_digests_prove_is_not_counted_again_and_the_page_says_so(
    frame: DataFrame, tmp_path: Path
) -> None:
    twice = frame.unionAll(frame.where("id = 9")).where("id <> 8")
    proven = replace(EXPECTED, key_proven=True)
    assert suite(twice, proven, tmp_path).success, "the digests would have differed"
    pages = [page.read_text() for page in tmp_path.glob("expectations/**/*.html")]
    assert any("equal digests of every row prove it" in page for page in pages)


@pytest.mark.slow
def test_many_tables_share_a_suite_and_each_has_its_own_failures(frame: DataFrame, tmp_path: Path) -> None:
    """More tables than one suite holds; the sound ones, and one without a key, pass beside them."""
    keyless = replace(EXPECTED, key=(), not_null=(), rows=100)
    odd = {
        3: (frame.where("id <> 9"), EXPECTED, ("rows: 49, expected 50",)),
        18: (frame.drop("place"), EXPECTED, ("column 6: none, expected place StructType",)),
        19: (frame.unionAll(frame), keyless, ()),
        99: (frame.selectExpr("*", "1 AS more"), EXPECTED, ("column 7: more IntegerType, expected none",)),
        101: (frame.where("id <> 9"), EXPECTED, ("rows: 49, expected 50",)),
    }
    sound = in_memory(frame)
    tables = [
        Pinned(
            partial(same, rows),
            replace(expected, name=f"shop.t{n:03}"),
            partial(in_memory, rows) if n in odd else lambda: sound,
        )
        for n in range(102)
        for rows, expected, _ in [odd.get(n, (frame, EXPECTED, ()))]
    ]
    facts = count(tables)
    write_pages(facts, tmp_path)
    results = [judged(one) for one in facts]
    assert [result.name for result in results] == [f"shop.t{n:03}" for n in range(102)]
    failed = {f"shop.t{n:03}": say for n, (_, _, say) in odd.items() if say}
    assert {result.name: result.failures for result in results if not result.success} == failed
    assert {result.name: result.checks for result in results if result.checks != 4} == {"shop.t019": 2}
    (page,) = [page for page in tmp_path.glob("validations/**/*.html") if "shop.t003" in page.read_text()]
    assert "shop.t018" in page.read_text(), "the page names the tables at fault"


def test_tables_of_any_name_are_checked_and_have_pages(frame: DataFrame, tmp_path: Path) -> None:
    """Great Expectations makes files of a suite's name: it refuses a slash, and a long name is no file name."""
    sound = in_memory(frame)
    for number, table in enumerate(("a/b", "订" * 64)):
        pinned = Pinned(partial(same, frame), replace(EXPECTED, name=f"shop.{table}"), lambda: sound)
        docs = tmp_path / str(number)
        facts = count([pinned])
        write_pages(facts, docs)
        assert [(one.name, one.success) for one in map(judged, facts)] == [(f"shop.{table}", True)]
        assert list(docs.glob("validations/**/*.html")) != []


def test_what_cannot_be_counted_in_memory_is_counted_by_spark(spark: SparkSession) -> None:
    """Arrow tells -0.0 from 0.0 in a key, Spark does not; a file may be gone; a table may be large."""
    zeros = spark.range(2).selectExpr("double(IF(id = 0, '0.0', '-0.0')) AS price")
    expected = Expected("shop.zeros", 7, {"price": "double"}, ("price",), rows=2, key=("price",))

    def gone() -> pa.Table:
        raise FileNotFoundError("part-0.parquet")

    for small in (partial(in_memory, zeros), gone, lambda: None):
        (facts,) = count([Pinned(lambda: zeros, expected, small)])
        assert judged(facts).failures == ("rows whose key another row has: 2, expected 0",)
