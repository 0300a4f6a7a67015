"""How a table of MySQL or MariaDB is read from its catalog, and what it means that nothing is known of a source."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pytest

from airflow_cdc.core.observation import Unknown
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.column_changes import check_column, meaning
from airflow_cdc.sources.mysql.detour import chosen_replica, detour_blocker, failover_blocker
from airflow_cdc.sources.mysql.schema import _column, _key, read_defaults
from airflow_cdc.sources.mysql.types import words_of
from airflow_cdc.sources.row import Row
from tests.diagnosing import case_of
from tests.unit.builders import CONNECTOR, REPLICA, connector_with
from tests.unit.sources.mysql.test_detour import NAMED, lost
from tests.unit.tables import column


def part(index: str, seq: int, name: str | None, **more: Any) -> Row:
    """A row of SHOW INDEX."""
    return Row({"Key_name": index, "Seq_in_index": seq, "Column_name": name, "Non_unique": 0, "Null": "", **more})


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        ([part("u", 2, "b"), part("u", 1, "a")], ("a", "b")),
        ([part("u", 1, "a"), part("PRIMARY", 1, "id")], ("id",)),
        ([part("u", 1, "a", Null="YES"), part("v", 1, "b")], ("b",)),
        ([part("u", 1, "a"), part("u", 2, "b", Null="YES")], ()),
        ([part("u", 1, None), part("v", 1, "b")], ("b",)),  # over an expression
        ([part("u", 1, "a", Non_unique=1)], ()),
        ([part("v", 1, "b"), part("u", 1, "a")], ("b",)),
        ([], ()),
    ],
)
def test_a_key_says_which_row_is_meant(rows: list[Row], key: tuple[str, ...]) -> None:
    assert _key(rows) == key


COLUMN = {
    "name": "c", "ordinal": 3, "data_type": "VARCHAR", "column_type": "varchar(9)", "charset": "latin1",
    "collation": "latin1_bin", "char_length": 9, "byte_length": 9, "precision": None, "scale": None, "fsp": None,
    "srid": None, "expression": "", "extra": "", "is_nullable": "YES",
}  # fmt: skip


def test_a_column_is_read_with_all_that_its_definition_says() -> None:
    made = _column(Row(COLUMN))
    words = words_of(made)
    assert (made.name, made.ordinal, made.nullable, made.generated) == ("c", 3, True, False)
    assert (words.data_type, words.column_type, words.charset, words.collation) == (
        "varchar",
        "varchar(9)",
        "latin1",
        "latin1_bin",
    )
    assert (words.char_length, words.byte_length, words.precision, words.labels) == (9, 9, None, ())
    number = words_of(
        _column(Row({**COLUMN, "data_type": "decimal", "column_type": "decimal(5,2)", "precision": 5, "scale": 2}))
    )
    assert (number.precision, number.scale) == (5, 2)
    timed = words_of(_column(Row({**COLUMN, "data_type": "time", "column_type": "time(6)", "fsp": 6})))
    assert timed.fsp == 6
    assert words_of(_column(Row({**COLUMN, "data_type": "point", "column_type": "point", "srid": 4326}))).srid == 4326
    for kind in ("enum", "set"):
        assert words_of(_column(Row({**COLUMN, "data_type": kind, "column_type": f"{kind}('a','b')"}))).labels == (
            "a",
            "b",
        )


@pytest.mark.parametrize(
    ("extra", "generated"),
    [
        *(("", False), ("auto_increment", False), ("DEFAULT_GENERATED", False)),
        *(("VIRTUAL GENERATED", True), ("STORED GENERATED", True), ("stored generated", True)),
        ("DEFAULT_GENERATED on update CURRENT_TIMESTAMP", False),
    ],
)
def test_only_a_generated_column_is_one_and_an_expression_as_a_default_is_none(extra: str, *, generated: bool) -> None:
    made = _column(Row({**COLUMN, "extra": extra, "is_nullable": "NO"}))
    assert (made.generated, made.nullable) == (generated, False)


class Answers:
    """A connection whose cursor answers each statement as `answer` says."""

    host, port = "db", 3306

    def __init__(self, version: str, rows: list[dict[str, Any]]) -> None:
        self.version, self.rows, self.last = version, rows, ""

    def cursor(self, _kind: object = None) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str, args: object = None) -> None:
        self.last = sql
        assert "@@version" in sql or args == ["shop", "t"]

    def fetchone(self) -> dict[str, Any]:
        return {"version": self.version}

    def fetchall(self) -> list[dict[str, Any]]:
        return self.rows


@pytest.mark.parametrize(("version", "null"), [("10.11.6-MariaDB", None), ("8.0.36", "NULL")])
def test_mariadb_writes_null_for_no_default_and_quotes_a_text_of_that_name(version: str, null: str | None) -> None:
    rows = [
        {"schema": "shop", "table": "t", "name": name, "value": value}
        for name, value in (("a", "NULL"), ("b", "'NULL'"), ("c", None))
    ]
    told: Any = Answers(version, rows)
    assert read_defaults(told, ["shop.t"]) == {"shop.t": {"a": null, "b": "'NULL'", "c": None}}
    assert read_defaults(told, []) == {}


TABLE = Table("shop", "t", (), ())


def test_utf8_is_utf8mb3_under_its_older_name() -> None:
    """Servers before 8.0.30 say utf8, later ones utf8mb3: an upgrade changes no column."""
    old, new = (column("c", "varchar(9)", charset=name, char_length=9) for name in ("utf8", "utf8mb3"))
    assert not check_column(TABLE, old, new)
    assert meaning(old) == meaning(new)
    assert meaning(old) != meaning(column("c", "varchar(9)", charset="latin1", char_length=9))
    assert check_column(TABLE, old, column("c", "varchar(9)", charset="utf8mb4", char_length=9))


def test_where_source_or_position_is_not_known_no_replica_and_no_other_server_is_chosen() -> None:
    for unknown in (
        replace(lost(first=REPLICA), source=Unknown("away")),
        replace(lost(first=REPLICA), connector=connector_with(CONNECTOR, NAMED, offset=None)),
    ):
        case = case_of(unknown)
        assert chosen_replica(case) is None
        assert "not known" in detour_blocker(case)
        assert "not known" in failover_blocker(case)
