"""The doctor's look at the schema registry of a connector's records."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from airflow_cdc.core.errors import TransportError
from airflow_cdc.core.topics import NewestRecord
from airflow_cdc.events.record import SchemaId
from airflow_cdc.flows.schemas import check_registry
from tests.unit.flows.recovering import recovering

AVRO = "io.confluent.connect.avro.AvroConverter"
CONFIG = {
    "topic.prefix": "shop",
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "key.converter": AVRO,
    "value.converter": AVRO,
}
RECORD = NewestRecord(b"\0\0\0\0\3\2", b"\0\0\0\0\7\2")


class Known:
    """A registry that knows schema 3, and those of `more`."""

    where = "schema registry http://r"

    def __init__(self, *more: int, down: bool = False) -> None:
        self.numbers, self.down = {3, *more}, down

    def reach(self) -> None:
        if self.down:
            raise TransportError("the schema registry did not answer", where=self.where, todo="Check its address.")

    def texts(self, schemas: Iterable[SchemaId]) -> Mapping[SchemaId, str]:
        return {one: "{}" for one in schemas if one.number in self.numbers}


def looked(
    registry: Known, config: Mapping[str, str] = CONFIG, record: NewestRecord | None = RECORD
) -> list[tuple[str, str]]:
    run: Any = recovering()
    run.clients.connector.raw_config.return_value = dict(config)
    run.clients.transport.newest.side_effect = lambda names: dict.fromkeys(names, record) if record else {}
    object.__setattr__(run.clients, "registry", registry)
    return [(one.state, one.found) for one in check_registry(run)]


def test_a_registry_that_knows_the_newest_records_schemas_is_well() -> None:
    assert looked(Known(7)) == [("ok", "schema registry http://r knows the schemas of the newest records")]
    assert looked(Known(), record=None) == [("ok", "schema registry http://r answers")]


def test_a_schema_that_it_lost_is_named_with_its_id_and_table() -> None:
    found = looked(Known())
    assert {state for state, _ in found} == {"bad"}
    assert all("does not know the schemas of the newest record of shop." in what for _, what in found)
    assert all(what.endswith("contentId 7") for _, what in found)


def test_one_that_does_not_answer_is_said() -> None:
    assert looked(Known(down=True)) == [
        ("bad", "the schema registry did not answer (schema registry http://r)"),
    ]


@pytest.mark.parametrize("side", ["key", "value"])
def test_json_asks_no_registry(side: str) -> None:
    json = "org.apache.kafka.connect.json.JsonConverter"
    assert looked(Known(down=True), {**CONFIG, "key.converter": json, "value.converter": json}) == []
    assert looked(Known(7), {**CONFIG, f"{side}.converter": json}) != []


def test_a_missing_reader_of_avro_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    ((state, found),) = looked(Known(7))
    assert (state, "'fastavro' is not installed" in found) == ("bad", True)
