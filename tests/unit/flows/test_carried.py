"""A row that can't be read is named by its key, before a recovery begins and within it, with what can be done about it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.errors import DeadlineError, SchemaError, SourceError
from airflow_cdc.flows.carried import Changed, odd_values_named
from airflow_cdc.flows.recoverable import refuse_unrecoverable
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of
from airflow_cdc.sources.postgres.columns import PgColumn, PgTable
from airflow_cdc.sources.postgres.types import table_of
from tests.unit.flows.recovering import recovering

POSTGRES = {
    "topic.prefix": "shop",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "decimal.handling.mode": "string",
}
ROWS = table_of(
    PgTable(
        "shop",
        "orders",
        (
            PgColumn("id", 1, "integer", "int4"),
            PgColumn("day", 2, "date", "date"),
            PgColumn("tags", 3, "text[]", "_text", element="text", element_schema="pg_catalog", element_kind="b"),
        ),
        ("id",),
    )
)


def run_of(odd: str, **config: str) -> Run:
    """A run over `shop.orders`, of which one row holds an odd value in the column `odd`."""
    run: Any = recovering()
    tables = {ROWS.full_name: ROWS}
    run.clients.source.definitions.side_effect = lambda names: {name: tables[name] for name in names}
    run.clients.source.definitions_and_defaults.side_effect = lambda names: ({name: tables[name] for name in names}, {})
    run.clients.source.has_row.side_effect = lambda _table, condition, _seconds: bool(odd) and f'"{odd}"' in condition
    run.clients.source.key_of.return_value = {"id": "7", "at": None}
    run.clients.connector.raw_config.return_value = {**POSTGRES, "skipped.operations": "none", **config}
    run.clients.transport.newest.return_value = {}
    found: Run = run
    return found


@pytest.mark.parametrize(("column", "what"), [("day", "dates lie before the year 1"), ("tags", "several dimensions")])
def test_an_odd_value_is_named_with_its_key_before_anything_is_stopped(column: str, what: str) -> None:
    with pytest.raises(SchemaError, match=what) as refused:
        refuse_unrecoverable(run_of(column), [ROWS.full_name])
    assert f"column {column} of shop.orders (the row with id=7, at=None)" in refused.value.what
    for way in ("Change the value", "column.exclude.list", "leave out the table"):
        assert way in refused.value.todo


def test_a_table_without_odd_values_is_not_refused() -> None:
    refuse_unrecoverable(run_of(""), [ROWS.full_name])


def test_apply_sees_such_values_in_their_events_and_asks_nobody() -> None:
    """A query a batch for every table with a date would be the price."""
    run = run_of("day")
    capture = config_rules_of(run.pipeline).capture(run.clients.connector.raw_config("shop"))
    assert Changed(run, capture).looks(ROWS) == []


@pytest.mark.parametrize(("mode", "asked"), [("string", 0), ("precise", 1)])
def test_a_nan_that_arrives_as_null_is_asked_for_by_apply(mode: str, asked: int) -> None:
    run = run_of("", **{"decimal.handling.mode": mode})
    capture = config_rules_of(run.pipeline).capture(run.clients.connector.raw_config("shop"))
    numbers = table_of(
        PgTable(
            "shop",
            "n",
            (
                PgColumn("id", 1, "integer", "int4"),
                PgColumn("v", 2, "numeric(5,2)", "numeric", modifier=(5 << 16) + 2 + 4),
            ),
            ("id",),
        )
    )
    looks = list(Changed(run, capture).looks(numbers))
    assert [look.condition for look in looks] == ["\"v\" = 'NaN'"] * asked


def test_within_a_recovery_the_row_is_named_with_the_ways_on_from_there() -> None:
    failed = SourceError(
        "could not read the tables: invalid input syntax", where="pipeline shop", todo="Clear the task."
    )
    with pytest.raises(SchemaError) as named, odd_values_named(run_of("day"), [ROWS.full_name], "recover"):
        raise failed
    assert "column day of shop.orders (the row with id=7" in named.value.what
    assert "then clear the task recover: this recovery continues" in named.value.todo
    assert "set column.exclude.list on the connector, then clear the task recover and all after it" in named.value.todo
    assert named.value.todo.endswith('airflow cdc abandon shop --table shop.orders --reason "…"')
    assert named.value.__cause__ is failed


def test_other_errors_stay_what_they_are() -> None:
    for odd, error in (("", SourceError("the server is gone")), ("day", DeadlineError("too late"))):
        with pytest.raises(type(error), match=error.what), odd_values_named(run_of(odd), [ROWS.full_name], "verify"):
            raise error
    broken: Any = run_of("day")
    broken.clients.source.has_row.side_effect = SourceError("and it stays gone")
    with pytest.raises(SourceError, match="the server is gone"), odd_values_named(broken, [ROWS.full_name], "verify"):
        raise SourceError("the server is gone")
