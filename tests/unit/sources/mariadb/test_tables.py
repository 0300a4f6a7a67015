"""Which tables of a MariaDB server are refused by name, because no connector can follow them or no read of them has a place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_cdc.sources.errors import SourceSettingError
from airflow_cdc.sources.mariadb.tables import require_followed
from tests.unit.sources.answering import AnsweringSession, Rows

LOGS_GENERATED, LEAVES_THEM_OUT = "10.11.18-MariaDB-log", "11.8.9-MariaDB-log"


def check(
    kind: str = "BASE TABLE",
    engine: str = "InnoDB",
    *,
    compressed: str = "",
    generated: str = "",
    version: str = LEAVES_THEM_OUT,
    tables: Sequence[str] = ("shop.orders",),
) -> list[Sequence[Any]]:
    """Look at a table of that kind; returns what was asked for."""
    given: list[Sequence[Any]] = []

    def answer(sql: str, args: Sequence[Any]) -> Rows:
        given.append(args)
        named = {"s": "shop", "t": "orders"}
        if "information_schema.TABLES" in sql:
            return [named | {"kind": kind, "engine": engine}]
        column = compressed if "COMPRESSED" in sql else generated
        return [named | {"c": column}] if column else []

    session: Any = AnsweringSession(version, answer)
    require_followed(session, tables)
    return given


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"kind": "SYSTEM VERSIONED"}, "is system-versioned"),
        ({"kind": "SEQUENCE"}, "is a sequence and no table"),
        ({"engine": "MyISAM"}, "is kept by MyISAM, which has no read views"),
        ({"engine": "Aria"}, "is kept by Aria"),
        ({"compressed": "note"}, "has the compressed column note"),
        ({"generated": "total"}, "has the generated column total: MariaDB 11.8.9-MariaDB-log leaves it out"),
    ],
)
def test_a_table_that_cannot_be_followed_is_refused_by_its_name(made: dict[str, Any], why: str) -> None:
    with pytest.raises(SourceSettingError, match=f"shop.orders {why}") as refused:
        check(**made)
    assert "table.include.list" in refused.value.todo


@pytest.mark.parametrize(
    "made",
    [
        {},
        {"engine": "ROCKSDB"},
        {"kind": "VIEW", "engine": "None"},
        {"generated": "total", "version": LOGS_GENERATED},  # 10.11 logs them, so they are followed
    ],
)
def test_a_table_that_can_be_followed_is_not_refused(made: dict[str, Any]) -> None:
    check(**made)


def test_tables_of_two_schemas_are_asked_for_by_their_own_schema() -> None:
    given = check(tables=["b.two", "a.one", "b.one"], version=LOGS_GENERATED)
    assert {tuple(args) for args in given} == {("a", "one"), ("b", "one", "two")}
