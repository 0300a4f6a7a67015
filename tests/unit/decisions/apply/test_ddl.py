"""Which tables a statement was done to, where it stands, and what the connector reported of it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.connectors.debezium.schema_changes import read_ddl
from airflow_cdc.core.position import Watermark
from airflow_cdc.decisions.apply.ddl import Ddl
from airflow_cdc.kinds import read_position
from airflow_cdc.sources.mysql.position import covered as covered_by
from airflow_cdc.sources.mysql.position import place_of
from tests.marks import moved


def record(ddl: str = "ALTER TABLE t DROP a", **changes: Any) -> dict[str, Any]:
    source = {"snapshot": "false", "table": "t", "file": "bin.000001", "pos": 5, "gtid": "u:7", "server_id": 1}
    body = {
        "source": source,
        "databaseName": "shop",
        "ddl": ddl,
        "tableChanges": [{"type": "ALTER", "id": '"shop"."t"'}],
    }
    return body | changes


def test_a_record_names_its_tables_with_or_without_the_schema_around_it() -> None:
    statement_read = read_ddl({"schema": {}, "payload": record(source={"table": "_t_del,t"}, tableChanges=None)})
    assert statement_read is not None
    assert statement_read.tables == {"shop._t_del", "shop.t"}
    plain = read_ddl(record(tableChanges=[{"id": '"shop"."t9"', "previousId": '"shop"."t"'}]))
    assert plain is not None
    assert plain.tables == {"shop.t", "shop.t9"}


def test_inv_13_a_default_that_the_converter_leaves_out_is_no_snapshot() -> None:
    """With replace.null.with.default=false the field `snapshot`, whose default is "false", arrives as null."""
    ddl = read_ddl(record(source={"snapshot": None, "table": "t"}))
    assert ddl is not None
    assert ddl.tables == {"shop.t"}


def test_a_repeat_has_the_same_place_and_another_statement_has_not() -> None:
    first, again, other = read_ddl(record()), read_ddl(record()), read_ddl(record("ALTER TABLE t DROP b"))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.at == again.at != other.at


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"snapshot": "true", "table": "t"}},
        {"position": {"snapshot": "INITIAL"}, "source": {"server": "p"}},
        {"ddl": None},
    ],
)
def test_what_a_snapshot_writes_changes_nothing(changes: dict[str, Any]) -> None:
    assert read_ddl(record(**changes)) is None


@pytest.mark.parametrize("broken", [{"source": 5}, {"tableChanges": [7]}, {"tableChanges": 7}, {"payload": []}])
def test_a_record_of_another_shape_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a schema change"):
        read_ddl(record(**broken))


def test_inv_30_the_text_names_tables_that_the_record_does_not() -> None:
    swapped = read_ddl(record("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE `other`.`t_in`"))
    assert swapped is not None
    assert swapped.tables == {"shop.t", "other.t_in"}
    indexed = read_ddl(record("CREATE UNIQUE INDEX i ON t (a)", source={"table": ""}, tableChanges=[]))
    assert indexed is not None
    assert indexed.tables == {"shop.t"}


W = Watermark.from_json(
    {
        "format": 2,
        "position": {
            "kind": "mysql",
            "file": "bin.000003",
            "pos": 500,
            "gtids": "75ac0c48-0000-11f0-8000-000000000001:1-50",
            "server_id": 1,
        },
        "server": "75ac0c48-0000-11f0-8000-000000000001",
        "taken_at": "2026-11-21T10:00:00+00:00",
    },
    read_position,
)


@pytest.mark.parametrize(
    ("watermark", "place", "covered"),
    [
        (W, {"gtid": "75ac0c48-0000-11f0-8000-000000000001:50"}, True),
        (W, {"gtid": "75ac0c48-0000-11f0-8000-000000000001:51"}, False),
        (W, {"gtid": None, "server_id": 1, "file": "bin.000001", "pos": 4}, False),
        (W, {"gtid": "?"}, False),
        (None, {"gtid": "75ac0c48-0000-11f0-8000-000000000001:50"}, False),
        (moved(W, gtids=None), {"server_id": 1, "file": "bin.000003", "pos": 499}, True),
        (moved(W, gtids=None), {"server_id": 1, "file": "bin.000003", "pos": 500}, False),
        (moved(W, gtids=None), {"server_id": 2, "file": "bin.000003", "pos": 4}, False),
        (moved(W, gtids=None), {"server_id": 1, "file": "other.000003", "pos": 4}, False),
        (moved(W, gtids=None), {"server_id": 1}, False),
    ],
)
def test_a_statement_before_the_watermark_is_in_the_rows(
    watermark: Watermark | None, place: dict[str, Any], covered: bool
) -> None:
    named: dict[str, Any] = dict.fromkeys(("gtid", "server_id", "file", "pos"))
    origin, at = place_of(**(named | place)) or (None, None)
    ddl = Ddl(frozenset({"shop.t"}), "TRUNCATE t", origin=origin, place=at)
    assert ddl.covered(covered_by(watermark)) is covered
