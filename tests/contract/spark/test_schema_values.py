"""What DDL did to rows that no event names: values of added columns, and NULLs where none may be any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.errors import RereadNeededError
from airflow_cdc.decisions.apply.schema_change import SchemaChange
from airflow_cdc.spark_apps.apply.schema_values import check_never_null, with_filled
from tests.unit.tables import column, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = table(column("id", "bigint", nullable=False), column("qty", "int"), column("it's `x`", "varchar(9)"), key=("id",))
FORBIDDEN = SchemaChange(never_null=("qty",))


def net_of(spark: SparkSession, *rows: tuple[int, bool, int | None, str | None]) -> DataFrame:
    """Net changes (key, deleted, after) of these (id, deleted, qty, x)."""
    data = [((key,), gone, None if gone else (key, qty, x)) for key, gone, qty, x in rows]
    return spark.createDataFrame(
        data, "key struct<id: bigint>, deleted boolean, after struct<id: bigint, qty: int, `it's ``x```: string>"
    )


def held(spark: SparkSession, *rows: tuple[int, int | None]) -> DataFrame:
    """The stage's rows."""
    return spark.createDataFrame(list(rows), "id bigint, qty int")


def test_an_event_from_before_an_added_column_gets_the_value_that_the_server_gave_the_old_rows(
    spark: SparkSession,
) -> None:
    filled = with_filled(
        net_of(spark, (1, False, None, None), (2, False, 5, "own"), (3, True, None, None)),
        T,
        SchemaChange(filled={"qty": "7", "it's `x`": "new"}),
    )
    rows = {row["key"]["id"]: row["after"] for row in filled.collect()}
    assert [tuple(rows[key]) for key in (1, 2)] == [(1, 7, "new"), (2, 5, "own")]
    assert filled.schema["after"].dataType["qty"].dataType.typeName() == "integer"


def test_a_batch_without_an_added_column_stays_as_it_is(spark: SparkSession) -> None:
    net = net_of(spark, (1, False, None, None))
    assert with_filled(net, T, SchemaChange()) is net


@pytest.mark.parametrize(
    ("rows", "net", "emptied", "refused"),
    [
        ([(1, None)], None, False, True),
        ([(1, 5)], None, False, False),
        ([(1, None)], [(1, False, 5, None)], False, False),
        ([(1, None)], [(1, True, None, None)], False, False),
        ([(1, None), (2, 5)], [(2, False, 6, None)], False, True),
        ([(1, 5)], [(1, False, None, None)], False, True),
        ([(1, None)], [(2, False, 6, None)], True, False),
        ([], [(1, False, None, None)], True, True),
    ],
    ids=[
        "a row that nothing changes",
        "no NULL",
        "an event brings its value",
        "an event deletes it",
        "an event of another row",
        "an event itself",
        "the table was emptied before",
        "emptied, and an event itself",
    ],
)
def test_inv_13_a_null_that_the_server_replaced_is_read_again_and_never_guessed(
    spark: SparkSession,
    rows: list[tuple[int, int | None]],
    net: list[tuple[int, bool, int | None, str | None]] | None,
    emptied: bool,
    refused: bool,
) -> None:
    changes = None if net is None else net_of(spark, *net)
    if not refused:
        check_never_null(held(spark, *rows), T, FORBIDDEN, changes, emptied=emptied)
        return
    with pytest.raises(RereadNeededError, match="column qty: it became NOT NULL"):
        check_never_null(held(spark, *rows), T, FORBIDDEN, changes, emptied=emptied)


def test_a_column_that_may_still_hold_null_is_not_looked_at(spark: SparkSession) -> None:
    check_never_null(held(spark, (1, None)), T, SchemaChange())
