"""Everything that forbids to read tables is said at once, before anything is stopped, with the way on for the others."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.errors import CdcError, ConfigError, SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.flows.recoverable import MOST_NAMED, refuse_unrecoverable
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import DEBEZIUM, recovering
from tests.unit.tables import column

ID = column("id", "int")


def table(name: str, *columns: Any) -> Table:
    return Table("shop", name, (ID, *columns), ("id",))


SOUND = table("sound", column("v", "varchar(9)"))
ODD_NAME = table("a b", column("v", "varchar(9)"))
MASKED = table("masked", column("card", "varchar(19)"))
DATED = table("dated", column("day", "date"))
UNKNOWN_LETTERS = table("letters", column("v", "varchar(9)", charset="koi8u"))
NO_NUMBER = table("myisam")


def run_of(*tables: Table, **config: str) -> Run:
    """A run over these tables; `dated` holds a date that events don't carry, `myisam` has no number of InnoDB's."""
    run = recovering()
    source: Any = run.clients.source
    definitions = {one.full_name: one for one in tables}
    source.definitions.side_effect = lambda names: {name: definitions[name] for name in names}
    source.definitions_and_defaults.side_effect = lambda names: ({name: definitions[name] for name in names}, {})
    source.table_ids.side_effect = lambda names: {name: "7" for name in names if name != NO_NUMBER.full_name}
    source.has_row.side_effect = lambda name, _condition, _seconds: name == DATED.full_name
    connector: Any = run.clients.connector
    connector.raw_config.return_value = {**DEBEZIUM, "column.mask.with.5.chars": "shop[.]masked[.]card", **config}
    transport: Any = run.clients.transport
    transport.newest.return_value = {}
    return run


def refused(*tables: Table, **config: str) -> CdcError:
    with pytest.raises((SchemaError, ConfigError)) as caught:
        refuse_unrecoverable(run_of(*tables, **config), [one.full_name for one in tables])
    return caught.value


def test_all_that_forbids_a_recovery_is_one_error() -> None:
    error = refused(SOUND, ODD_NAME, MASKED, DATED, UNKNOWN_LETTERS, NO_NUMBER)
    assert error.what.startswith("4 things forbid to read these tables: (1) ")
    for words in ("card", "column day of shop.dated", "koi8u", "TRUNCATE of the table would go unnoticed"):
        assert words in error.what
    for number in ("(1)", "(2)", "(3)", "(4)"):
        assert number in error.what
        assert number in error.todo
    assert error.todo.endswith(
        "To continue with the others now, run: airflow cdc recover shop --table shop.sound --table 'shop.a b'"
    )


def test_one_fault_keeps_its_own_words_and_names_the_rest() -> None:
    error = refused(SOUND, DATED)
    assert "things forbid" not in error.what
    assert "column day of shop.dated" in error.what
    assert error.todo.endswith("To continue with the others now, run: airflow cdc recover shop --table shop.sound")
    assert "To go on" not in refused(DATED).todo, "there is no other"


def test_with_many_others_the_table_is_to_be_left_out() -> None:
    error = refused(DATED, *(table(f"t{n}") for n in range(MOST_NAMED + 1)))
    assert error.todo.endswith(
        "To continue with the other 9 tables now, remove shop.dated from source.tables in pipelines.yaml."
    )


def test_a_setting_that_is_about_all_tables_is_said_once_and_offers_no_others() -> None:
    error = refused(SOUND, ODD_NAME, **{"transforms": "f", "transforms.f.type": "io.debezium.transforms.Filter"})
    assert "things forbid" not in error.what
    assert "To go on" not in error.todo


AVRO = {
    **{f"{side}.converter": "io.apicurio.registry.utils.converter.AvroConverter" for side in ("key", "value")},
    **{f"{side}.converter.apicurio.registry.url": "http://registry:8080/apis/registry/v2" for side in ("key", "value")},
    "schema.history.internal.kafka.topic": "history",
    "schema.history.internal.kafka.bootstrap.servers": "kafka:9092",
    "column.mask.with.5.chars": "none",
}


def test_a_default_that_a_converter_writes_for_a_null_is_about_its_table_and_not_the_others() -> None:
    """Apicurio's converter of Avro has no setting against it. Seen: every table of the pipeline was refused."""
    run = run_of(SOUND, MASKED, **AVRO)
    source: Any = run.clients.source
    source.definitions_and_defaults.side_effect = lambda names: ({}, {name: {"card": "'7'"} for name in names})
    with pytest.raises(ConfigError) as caught:
        refuse_unrecoverable(run, [SOUND.full_name, MASKED.full_name])
    assert caught.value.what == "NULL in shop.masked.card arrives as the column's default"
    assert caught.value.todo.endswith(
        "To continue with the others now, run: airflow cdc recover shop --table shop.sound"
    )
    assert refuse_unrecoverable(run, [SOUND.full_name]) is not None


def test_tables_that_can_be_read_are_not_refused() -> None:
    assert refuse_unrecoverable(run_of(SOUND, ODD_NAME), ["shop.sound", "shop.a b"]) is not None
