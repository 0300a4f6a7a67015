"""DDL between two applies, judged statement by statement on records as a connector sent them (INV 30)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.schema_changes import HistoryTable, read_ddl
from airflow_cdc.core.errors import RereadNeededError, UnreportedChangeError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.apply.ddl import Ddl
from airflow_cdc.decisions.apply.schema_change import SchemaChange
from airflow_cdc.fields import Fields
from airflow_cdc.sources.mysql.schema_steps import constant_of, judge
from airflow_cdc.sources.mysql.types import with_zones
from tests.paths import DATA
from tests.unit.tables import col, column

RECORDED = json.loads((DATA / "schema-changes.json").read_text(encoding="utf-8"))


def recorded(said: dict[str, Any]) -> Table:
    """A definition from what information_schema said of it, as the recording has it."""
    columns = [col(**{**c, "labels": tuple(c.get("labels", ()))}) for c in said["columns"]]
    return Table(said["schema"], said["name"], with_zones(columns), tuple(said["key"]))


def before(table: str) -> Table:
    """The definition before the first recorded statement."""
    return recorded(RECORDED["tables"][table]["before"])


def after(table: str, statement: str = "") -> Table:
    """The definition after the statement that begins so; after the last recorded one by default."""
    steps = RECORDED["tables"][table]["after"]
    made = [step["table"] for step in steps if step["ddl"].startswith(statement)]
    return recorded(made[-1]) if made else before(table)


def statements(table: str) -> list[Ddl]:
    read = [read_ddl(record) for record in RECORDED["records"]]
    return [ddl for ddl in read if ddl is not None and f"shop.{table}" in ddl.tables]


def one(table: str, text: str) -> Ddl:
    return next(ddl for ddl in statements(table) if text in ddl.statement)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("django", "status was added with a default"),  # DROP DEFAULT follows: the net effect is a nullable ADD
        ("nn", "c was NOT NULL and then nullable again"),
        ("decs", r"column d \(decimal\(10,2\) → decimal\): the change of type"),
        ("swap", "CHANGE a tmp"),
        ("nick", "CHANGE nick nick_old"),
        ("txt", "c was added with a default"),
        ("blackhole", "ENGINE=BLACKHOLE"),
        ("exch", "EXCHANGE PARTITION p0"),
        ("exch_in", "EXCHANGE PARTITION p0"),
        ("renc", "RENAME COLUMN a TO b"),
    ],
)
def test_inv_30_several_statements_are_judged_one_after_the_other(table: str, reason: str) -> None:
    with pytest.raises(RereadNeededError, match=reason) as caught:
        judge(before(table), statements(table), after(table))
    assert f"shop.{table}" in str(caught.value)


@pytest.mark.parametrize(
    ("table", "text", "change"),
    [
        ("nn", "ADD c INT NOT NULL DEFAULT 7", SchemaChange(added=("c",), filled={"c": "7"})),
        ("dropc", "DROP COLUMN a", SchemaChange(dropped=("a",))),
        ("tonn", "MODIFY a VARCHAR(9) NOT NULL", SchemaChange(never_null=("a",))),
    ],
)
def test_what_events_and_the_statement_itself_carry(table: str, text: str, change: SchemaChange) -> None:
    outcome = one(table, text)
    assert judge(before(table), [outcome], after(table, outcome.statement)) == change


def test_steps_that_each_pass_pass_together() -> None:
    assert judge(before("tonn"), statements("tonn"), after("tonn")) == SchemaChange(never_null=("a",))


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("COMMENT 'a, b'", SchemaChange()),
        ("ADD aa VARCHAR(5)", SchemaChange(added=("aa",))),
        ("MODIFY a BIGINT(7)", SchemaChange(widened=("a",))),
        ("ADD (ab INT", SchemaChange(added=("ab", "ac"), filled={"ac": "x"})),
        ("RENAME INDEX", SchemaChange()),
    ],
)
def test_a_table_of_every_type_is_known_by_what_the_connector_reports(text: str, change: SchemaChange) -> None:
    steps = RECORDED["tables"]["types"]["after"]
    at = next(number for number, step in enumerate(steps) if text in step["ddl"])
    stored = recorded(steps[at - 1]["table"]) if at else before("types")
    assert judge(stored, [one("types", text)], after("types", steps[at]["ddl"])) == change


def test_characters_that_were_converted_are_read_again() -> None:
    stored = after("types", "ALTER TABLE types ADD aa")
    with pytest.raises(RereadNeededError, match="its characters were converted"):
        judge(stored, [one("types", "CONVERT TO")], after("types", "ALTER TABLE types CONVERT"))


def test_inv_30_a_definition_that_no_statement_leads_to_is_not_followed() -> None:
    """A connector whose transform drops schema changes, or that has not come so far."""
    with pytest.raises(UnreportedChangeError, match="column b: varchar"):
        judge(before("renc"), [], after("renc"))
    with pytest.raises(UnreportedChangeError, match="column a: not in the source"):
        judge(before("dropc"), [], after("dropc"))
    with pytest.raises(UnreportedChangeError, match="column status"):
        judge(before("django"), [], after("django"))
    with pytest.raises(UnreportedChangeError):
        judge(before("decs"), [], after("decs"))


def test_inv_30_a_report_that_shows_more_than_the_text_is_not_believed() -> None:
    added = one("django", "ADD COLUMN status")
    sly = replace(added, statement="ALTER TABLE django ADD KEY (a)")
    with pytest.raises(RereadNeededError, match="left the columns id, a, status"):
        judge(before("django"), [sly], after("django"))
    wider = replace(one("decs", "DECIMAL(12,2)"), statement="ALTER TABLE decs COMMENT 'x'")
    with pytest.raises(RereadNeededError, match="changed more than was recognised"):
        judge(before("decs"), [wider], after("decs"))


def test_a_column_dropped_and_added_again_is_read_again() -> None:
    drop, gone = one("dropc", "DROP COLUMN a"), after("dropc")
    back = replace(drop, statement="ALTER TABLE dropc ADD a VARCHAR(9)", after={"shop.dropc": _with_a(drop)})
    with pytest.raises(RereadNeededError, match="column a was dropped and added again"):
        judge(before("dropc"), [drop, back], before("dropc"))
    with pytest.raises(UnreportedChangeError):
        judge(before("dropc"), [drop], before("dropc"))
    assert judge(gone, [], gone) == SchemaChange()


def _with_a(drop: Ddl) -> HistoryTable:
    reported = drop.after["shop.dropc"]
    assert isinstance(reported, HistoryTable)
    made = Fields(reported.raw)
    name = {"name": "a", "typeName": "VARCHAR", "length": 9, "position": 3, "optional": True, "charsetName": "utf8mb4"}
    return HistoryTable({**made, "columns": [*made.each("columns"), name]})


DECIMAL = column("c", "decimal(6,2)", precision=6, scale=2)
ENUM = column("c", "enum('b','a')", labels=("b", "a"))


@pytest.mark.parametrize(
    ("of", "default", "value"),
    [
        (column("c", "int"), "7", "7"),
        (column("c", "tinyint(1)"), "TRUE", "1"),
        (column("c", "bigint"), None, "0"),
        (column("c", "int"), "1.5", None),
        (DECIMAL, "1.5", "1.5"),
        (DECIMAL, "1.555", None),
        (DECIMAL, None, "0"),
        (column("c", "varchar(9)"), "new", "new"),
        (column("c", "varchar(9)"), None, ""),
        (column("c", "varchar(9)"), "a\\b", None),
        (column("c", "varchar(9)"), "ü", None),
        (column("c", "char(9)"), "a ", "a"),
        (ENUM, "a", "a"),
        (ENUM, None, "b"),
        (ENUM, "A", None),
        (column("c", "date"), "2020-01-02", "2020-01-02"),
        (column("c", "date"), None, None),
        (column("c", "datetime"), "2020-01-02 00:00:00", None),
        (column("c", "double"), "1.5", None),
        (column("c", "json"), None, None),
    ],
)
def test_the_value_of_old_rows_is_said_only_where_it_is_certain(
    of: Column, default: str | None, value: str | None
) -> None:
    assert constant_of(of, default) == value
