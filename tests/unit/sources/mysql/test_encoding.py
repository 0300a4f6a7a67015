"""The canonical text, as MySQL and Spark are told to write it."""

from __future__ import annotations

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.decisions.compare import canonical
from airflow_cdc.sources.mysql import encoding as mysql
from airflow_cdc.sources.mysql.sql import key_predicate
from airflow_cdc.sources.mysql.types import TYPES
from airflow_cdc.spark_apps.canonical import spark
from tests.unit.tables import column, table


def test_the_whole_text_of_a_small_table() -> None:
    small = table(
        column("id", "int", nullable=False),
        column("name", "varchar(9)", charset="utf8mb4"),
        column("day", "date"),
        key=("id",),
    )
    assert mysql.row_hash(small) == (
        "SHA2(CONCAT_WS(_binary'|', `id`, IFNULL(LENGTH(`name`), 'N'), `name`,"
        " IFNULL(IF(`day` = `day` + INTERVAL 0 DAY AND `day` >= DATE'0001-01-01', TO_DAYS(`day`) - 719528, NULL), 'N')), 256)"
    )
    assert spark.row_hash(small) == (
        "sha2(concat_ws('|', coalesce(CAST(`id` AS string), 'N'), coalesce(CAST(octet_length(`name`) AS string), 'N'),"
        " `name`, coalesce(CAST(unix_date(`day`) AS string), 'N')), 256)"
    )


@pytest.mark.parametrize("column_type", ["int(6) unsigned zerofill", "year(4)", "decimal(30,2) zerofill"])
def test_padding_of_numbers_is_left_out(column_type: str) -> None:
    padded = table(column("c", column_type, nullable=False, precision=30, scale=2))
    assert "(_binary'|', `c` + 0)" in mysql.row_hash(padded)


def test_inv_25_each_column_is_hashed_or_fetched_or_named_with_the_reason() -> None:
    mixed = table(
        column("id", "int", nullable=False),
        column("j", "json"),
        column("g", "int", generated=True, expression="(`id` + 1)"),
        column("t", "timestamp"),
        column("day", "date", generated=True, expression="cast(`t` as date)"),
        key=("id",),
    )
    hashed = {c.name for c in canonical.hashed(mixed)}
    fetched = set(canonical.outside_hash(mixed))
    left = {name for name, _ in canonical.not_compared(mixed)}
    assert (hashed, fetched, left) == ({"id", "g", "t"}, {"j"}, {"day"})


def test_a_table_of_json_only_has_no_hash() -> None:
    with pytest.raises(SchemaError, match="no column can be compared"):
        mysql.row_hash(table(column("j", "json")))


def test_every_type_has_an_encoding_or_is_fetched() -> None:
    for name in (name for row in TYPES for name in row.names):
        one = table(column("id", "int", nullable=False), column("c", name, charset="utf8mb4"), key=("id",))
        fetched = set(canonical.outside_hash(one))
        assert ("`c`" in mysql.row_hash(one)) is (name != "json")
        assert ("`c`" in spark.row_hash(one)) is (name != "json")
        assert fetched == ({"c"} if name == "json" else set())


def test_only_foreign_character_sets_are_converted() -> None:
    for charset, converted in (
        ("utf8mb4", False),
        ("utf8", False),
        ("ascii", False),
        ("latin1", True),
        ("utf16", True),
    ):
        text = mysql.row_hash(table(column("c", "varchar(9)", charset=charset)))
        assert ("CONVERT" in text) is converted


def test_a_keyless_row_is_known_by_its_hash() -> None:
    bag = table(column("a", "int"))
    assert mysql.key_text(bag) == mysql.row_hash(bag)
    assert spark.key_text(bag) == spark.row_hash(bag)


def test_lanes_are_the_first_digits_of_the_hash() -> None:
    assert spark.lanes("h")[1] == "CAST(conv(substr(h, 9, 8), 16, 10) AS bigint)"
    assert spark.lanes("h")[0] == "CAST(conv(substr(h, 1, 8), 16, 10) AS bigint)"


KEYED = table(
    column("n", "bigint", nullable=False),
    column("t", "varchar(20)", nullable=False, charset="utf8mb4"),
    column("b", "varbinary(9)", nullable=False),
    key=("n", "t", "b"),
)


def test_the_epoch_may_be_a_zero_date() -> None:
    dated = table(column("k", "date", nullable=False), key=("k",))
    day = f"_utf8mb4 X'{b'1970-01-01'.hex()}'"
    assert key_predicate(dated, ["0"]) == f"((`k` = {day} OR `k` = 0))"
    assert " OR " not in key_predicate(dated, ["1"])


def test_composite_keys_are_alternatives() -> None:
    assert key_predicate(KEYED, ["1|1|a|00", "2|0||"]) == (
        "(`n` = 1 AND `t` = _utf8mb4 X'61' AND `b` = _binary X'00')"
        " OR (`n` = 2 AND `t` = _utf8mb4 X'' AND `b` = _binary X'')"
    )
