"""How a table of PostgreSQL is read from its catalog: its columns, its key, its columns' defaults; and how busy and late its server is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, cast

import pytest

from airflow_cdc.core.errors import MissingPrivilegeError, PositionError
from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.load import read_load
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.sources.postgres.schema import _Index, key_of, read_defaults, read_definitions, read_pg_tables
from airflow_cdc.sources.postgres.session import Session
from tests.unit.sources.answering import AnsweringSession, Rows

ID = {
    "schema": "shop", "table": "orders", "kind": "r", "name": "id", "number": 1, "declared": "bigint", "type": "int8",
    "type_schema": "pg_catalog", "type_kind": "b", "modifier": -1, "not_null": True, "element": None,
    "element_schema": None, "element_kind": None, "labels": None, "collation": None, "deterministic": None,
    "identity": "a", "generated": "", "expression": None,
}  # fmt: skip
TAGS = {
    **ID, "name": "tags", "number": 2, "declared": "mood[]", "type": "_mood", "type_schema": "shop", "not_null": False,
    "element": "mood", "element_schema": "shop", "element_kind": "e", "labels": ["ok", "sad"], "identity": "",
}  # fmt: skip
NAME = {
    **ID, "name": "name", "number": 3, "declared": "varchar(9)", "type": "varchar", "modifier": 13, "identity": "",
    "collation": "de-x", "deterministic": False, "generated": "s", "expression": "upper(x)",
}  # fmt: skip
PRIMARY = {
    "schema": "shop", "table": "orders", "name": "orders_pkey", "primary": True, "identity": False, "relident": "d", "columns": ["id"],
}  # fmt: skip


def session(columns: Rows, keys: Rows = [], defaults: Rows = []) -> Session:  # noqa: B006
    def answer(sql: str, args: Sequence[Any]) -> Rows:
        assert args == (["shop"], ["orders"])
        return (
            defaults
            if "pg_get_expr(d.adbin, d.adrelid) END AS value" in sql
            else keys
            if "pg_index" in sql
            else columns
        )

    return cast("Session", AnsweringSession("16.1", answer))


def test_a_column_is_read_with_all_that_its_definition_says() -> None:
    table = read_pg_tables(session([ID, TAGS, NAME], [PRIMARY]), ["shop.orders"])["shop.orders"]
    assert table.key == ("id",)
    assert not table.partitioned
    first, tags, name = (asdict(one) for one in table.columns)
    assert first == asdict(PgColumn("id", 1, "bigint", "int8", nullable=False, identity="a"))
    of = {"element": "mood", "element_schema": "shop", "element_kind": "e", "labels": ("ok", "sad")}
    assert tags == asdict(PgColumn("tags", 2, "mood[]", "_mood", "shop", **of))  # type: ignore[arg-type]
    text = {"collation": "de-x", "deterministic": False, "generated": "s", "expression": "upper(x)"}
    assert name == asdict(PgColumn("name", 3, "varchar(9)", "varchar", modifier=13, nullable=False, **text))  # type: ignore[arg-type]


def test_a_generated_column_is_in_no_event_and_a_partitioned_table_is_told() -> None:
    (made,) = read_definitions(session([ID, NAME], [PRIMARY]), ["shop.orders"]).values()
    assert [column.name for column in made.columns] == ["id"]
    (root,) = read_pg_tables(session([{**ID, "kind": "p"}]), ["shop.orders"]).values()
    assert (root.partitioned, root.key) == (True, ())
    assert read_pg_tables(session([]), []) == {}


def test_a_default_is_its_expression_as_the_server_writes_it() -> None:
    rows = [
        {"schema": "shop", "table": "orders", "name": name, "value": value}
        for name, value in (("id", None), ("at", "now()"))
    ]
    assert read_defaults(session([], defaults=rows), ["shop.orders"]) == {"shop.orders": {"id": None, "at": "now()"}}
    assert read_defaults(session([]), []) == {}


def column(name: str, **more: Any) -> PgColumn:
    return PgColumn(name, 1, "text", "text", **{"nullable": False, **more})


@pytest.mark.parametrize(
    ("indexes", "key"),
    [
        # the primary key, else the replica identity, else the first unique index over columns that are never NULL
        ([_Index(("b",), primary=False, identity=True, relident="i"), _Index(("a",), primary=True, identity=False)], ("a",)),
        ([_Index(("a",), primary=False, identity=False), _Index(("b",), primary=False, identity=True, relident="i")], ("b",)),
        ([_Index(("a",), primary=False, identity=False), _Index(("b",), primary=False, identity=True)], ("a",)),
        ([_Index(("maybe",), primary=False, identity=False), _Index(("a", "b"), primary=False, identity=False)], ("a", "b")),
        # texts that differ here are equal there
        ([_Index(("loose",), primary=True, identity=False)], ()),
        ([_Index(("a", "loose"), primary=False, identity=False)], ()),
        ([_Index(("maybe",), primary=False, identity=False)], ()),
        ([_Index((), primary=False, identity=False)], ()),
        ([], ()),
    ],
)  # fmt: skip
def test_a_key_says_which_row_is_meant(indexes: list[_Index], key: tuple[str, ...]) -> None:
    columns = [column("a"), column("b"), column("maybe", nullable=True), column("loose", deterministic=False)]
    assert key_of(columns, indexes) == key


# ---- load ------------------------------------------------------------------------------------------------------------


def load(limits: ThrottlePolicy, *, seconds: float | None = 2.5, standby: bool = True, hidden: bool = False) -> Any:
    def answer(sql: str, _: Sequence[Any]) -> Rows:
        if "pg_is_in_recovery" in sql:
            return [{"standby": standby, "seconds": seconds}]
        return [{"running": 7, "hidden": hidden}]

    return read_load(cast("Session", AnsweringSession("16.1", answer)), limits)


def test_only_what_is_limited_is_asked() -> None:
    none = load(ThrottlePolicy())
    assert (none.running, none.lag_s) == (None, None)
    busy = load(ThrottlePolicy(threads_running=9))
    assert (busy.running, busy.lag_s) == (7, None)


def test_a_standby_is_as_late_as_it_says_and_a_primary_is_never_late() -> None:
    limits = ThrottlePolicy(replica_lag=9)
    assert load(limits).lag_s == 2.5
    assert load(limits, standby=False, seconds=None).lag_s is None
    assert "replayed no transaction" in load(limits, seconds=None).lag_unknown
    assert load(limits).lag_unknown == ""


def test_what_others_execute_must_be_visible() -> None:
    with pytest.raises(MissingPrivilegeError) as caught:
        load(ThrottlePolicy(threads_running=9), hidden=True)
    assert caught.value.privilege == "pg_read_all_stats"


@pytest.mark.parametrize("timeline", [-1, True, 1.5, "1"])
def test_a_timeline_is_a_number(timeline: Any) -> None:
    with pytest.raises(PositionError, match="is not a timeline"):
        PgPosition(Lsn(1), timeline)
    assert PgPosition(Lsn(1), 0).timeline == 0
