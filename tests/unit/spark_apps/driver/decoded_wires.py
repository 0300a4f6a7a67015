"""Records of real connectors (tests/data/wires), decoded: run here, and where nothing but what is shipped can be imported."""

from __future__ import annotations

import json

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.events.frames import frame_of
from airflow_cdc.core.table import Table
from airflow_cdc.events.decoder import Plan, decoder
from airflow_cdc.events.record import RawRecord, SchemaId
from airflow_cdc.events.wire.ids import CONTENT_ID
from airflow_cdc.sources.mysql.types import MySqlWords, mysql_column
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.types import column_of


def decoded(name: str) -> list[str]:
    """Each change of the recording's table `t`, as text."""
    from tests.wires import recording

    made = recording(name)
    settings = ConnectorSettings.from_config({"topic.prefix": name, **made.settings})
    pairs = ((key.partition(":"), answer) for key, answer in made.schemas.items())
    texts = {
        SchemaId(kind, int(number)): answer["schema"] if kind == CONTENT_ID else json.dumps(answer)
        for (kind, _, number), answer in pairs
    }
    table = _mysql() if name.startswith("mysql") else _postgres()
    assert settings.event_values is not None
    plan = Plan(table, frame_of(settings, table.full_name), settings.event_values).with_schemas(texts)
    records = [RawRecord(one.partition, one.offset, one.key, one.value, one.headers) for one in made.records["t"]]
    return [repr(row) for row in decoder(plan).batch(records).to_pylist()]


def _mysql() -> Table:
    words = {
        "id": MySqlWords("int", "int"),
        "n": MySqlWords("decimal", "decimal(12,2)", precision=12, scale=2),
        "more": MySqlWords("int", "int"),
    }
    columns = (mysql_column(name, at, one, nullable=name != "id") for at, (name, one) in enumerate(words.items(), 1))
    return Table("wires", "t", tuple(columns), ("id",))


def _postgres() -> Table:
    kinds = {"id": ("int4", -1), "n": ("numeric", (12 << 16 | 2) + 4), "more": ("int4", -1)}
    columns = (
        column_of(PgColumn(name, at, kind, kind, modifier=modifier, nullable=name != "id"))
        for at, (name, (kind, modifier)) in enumerate(kinds.items(), 1)
    )
    return Table("wires", "t", tuple(columns), ("id",))
