"""What of PostgreSQL's values Debezium's events carry, and what is refused by name."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.values.postgres import PostgresValues
from airflow_cdc.core.dead_letter import MISREAD
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.types import column_of

CONFIG = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "shop"}


def column(kind: str, **more: object) -> PgColumn:
    return PgColumn("c", 1, kind, kind, **more)  # type: ignore[arg-type]


def of(kind: str, **more: object) -> Table:
    return Table("public", "t", (column_of(column(kind, **more)),), ("c",))


def numeric(precision: int, scale: int) -> PgColumn:
    return column("numeric", modifier=(precision << 16 | scale) + 4)


@pytest.mark.parametrize(
    ("made", "modes"),
    [
        (column("timetz"), {}),
        (column("tstzrange", type_kind="r"), {}),
        (column("int4multirange", type_kind="m"), {}),
        (column("tsvector"), {}),
        (column("varbit"), {}),
        (column("name"), {}),
        (column("_numeric", element="numeric", element_schema="pg_catalog", element_kind="b"), {"decimal": "string"}),
        (column("bit", modifier=65), {}),
        (column("_timestamptz", element="timestamptz", element_schema="pg_catalog", element_kind="b"), {}),
        (column("numeric"), {"decimal": "precise"}),
        (column("interval"), {"interval": "numeric"}),
        (column("hstore", type_schema="public"), {"hstore": "map"}),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_what_events_do_not_carry_exactly_is_refused_by_name(made: PgColumn, modes: dict[str, str]) -> None:
    with pytest.raises(SchemaError, match="column c"):
        PostgresValues(**modes).from_event(column_of(made), "v")  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [numeric(12, 2), numeric(50, 3), column("uuid"), column("bit", modifier=64)])
def test_what_the_default_modes_carry(made: PgColumn) -> None:
    assert "v" in PostgresValues().from_event(column_of(made), "v")


@pytest.mark.parametrize(
    ("setting", "value"),
    [("decimal.handling.mode", "double"), ("time.precision.mode", "connect"), ("binary.handling.mode", "raw")],
)
def test_a_mode_that_cannot_be_decoded_is_named(setting: str, value: str) -> None:
    with pytest.raises(SchemaError, match=f"{setting}={value}"):
        ConnectorSettings.from_config({**CONFIG, setting: value}).check_rows()


def test_a_table_without_a_key_needs_numbered_events() -> None:
    bare = Table("public", "t", of("int4").columns)
    with pytest.raises(SchemaError, match="not numbered"):
        ConnectorSettings.from_config(CONFIG).check_table(bare)
    ConnectorSettings.from_config({**CONFIG, "provide.transaction.metadata": "true"}).check_table(bare)


@pytest.mark.parametrize("kind", ["text", "bytea", "jsonb", "numeric"])
def test_the_row_of_a_long_value_that_did_not_change_is_read_again(kind: str) -> None:
    """A letter whose reason says so is replayed by reading the key."""
    assert MISREAD in PostgresValues().why_not(column_of(column(kind)))


def test_the_placeholder_is_the_one_that_the_connector_was_told() -> None:
    values = PostgresValues.from_config({"unavailable.value.placeholder": "it's\\gone"})
    assert values.from_event(column_of(column("text")), "v") == r"nullif(v, 'it\'s\\gone')"


def test_its_log_tells_of_no_ddl() -> None:
    made = ConnectorSettings.from_config(CONFIG)
    assert not made.reports_ddl
    assert made.ddl_topic is None
    assert made.topics_about(["public.t"]) == ["shop.public.t"]
