"""Every make of server that the demo can be told with: one row each, and a pipeline that the product takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc import kinds
from airflow_cdc.config.registry import load_registry
from demo.makes import MAKES, shop_on
from demo.sinks import sinks
from demo.world import PIPELINE, World
from stack.cluster import Stack
from stack.errors import StackError
from stack.installation import User
from stack.mysql import MySqlServer, MySqlSettings
from stack.postgres import PostgresServer, PostgresSettings
from stack.process import Child
from stack.shop import connectors, writer
from stack.shop.dataset import SCHEMA, TABLES
from stack.shop.postgres.writer import Writer as PostgresWriter

CONNECTION_TYPES = {"mysql": "cdc_mysql", "mariadb": "cdc_mysql", "postgres": "cdc_postgres"}


def running(kind: str, folder: Path) -> Stack:
    """A stack of that make whose server is nowhere."""
    options: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 1,
        "user": "admin",
        "password": "a",
        "cdc": User("cdc", "c"),
        "debezium": User("debezium", "d"),
        "version": "1",
        "folder": str(folder),
        "child": Child("server", -1, -1, ""),
    }
    if kind == "postgres":
        return Stack(folder, postgres={"postgres": PostgresServer(**options, settings=PostgresSettings())})
    settings = MySqlSettings(series="mariadb" if kind == "mariadb" else "8.0")
    return Stack(folder, mysql={"mysql": MySqlServer(**options, settings=settings, auth_plugin="")})


def test_every_source_that_can_be_recovered_has_its_demo() -> None:
    assert set(MAKES) == set(kinds.SOURCES.built_in)


@pytest.mark.parametrize("kind", MAKES)
def test_the_shop_is_found_on_its_server_and_its_pipeline_is_taken(kind: str, tmp_path: Path) -> None:
    world = World(tmp_path, running(kind, tmp_path))
    assert (world.shop.kind, type(world.shop)) == (kind, MAKES[kind])
    pipeline = load_registry(world.write_registry())[PIPELINE]
    assert pipeline.source.kind == kind
    assert pipeline.source.tables == tuple(f"{SCHEMA}.{table}" for table in TABLES)
    declared = json.loads(world.connections()[f"AIRFLOW_CONN_{pipeline.source.conn_id.upper()}"])
    assert declared["conn_type"] == CONNECTION_TYPES[kind]


@pytest.mark.parametrize("kind", MAKES)
def test_the_two_connectors_read_the_same_tables_into_topics_of_their_own(kind: str, tmp_path: Path) -> None:
    made = World(tmp_path, running(kind, tmp_path)).shop.connectors("broker:1")
    shop, peer = made["shop"], made["peer"]
    assert (shop["topic.prefix"], peer["topic.prefix"]) == ("shop", "peer")
    assert (shop["snapshot.mode"], peer["snapshot.mode"]) == ("no_data", "initial")
    assert shop["table.include.list"] == peer["table.include.list"] == ",".join(f"{SCHEMA}.{name}" for name in TABLES)
    assert connectors.FAST_SNAPSHOT.items() <= peer.items()
    assert all(shop.values())


def test_a_stack_without_a_database_has_no_shop(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="none of mysql, mariadb, postgres"):
        shop_on(Stack(tmp_path))


@pytest.mark.parametrize(
    ("offset", "done"),
    [
        ({}, False),
        ({"file": "b.1", "snapshot": "INITIAL"}, False),
        ({"file": "b.1", "gtids": "u:1-2"}, True),
        ({"lsn": 1, "snapshot": "INITIAL", "snapshot_completed": False}, False),
        ({"lsn": 1, "snapshot": "INITIAL", "snapshot_completed": True}, True),
        ({"lsn": 1, "lsn_proc": 1}, True),
    ],
)
def test_a_snapshot_is_over_when_the_offset_says_so(offset: dict[str, Any], done: bool) -> None:
    assert connectors.copied(offset) is done


def test_both_writers_make_the_same_changes() -> None:
    assert set(PostgresWriter.SQL) == set(writer.Writer.SQL)
    for sql in PostgresWriter.SQL.values():
        assert not any(word in sql for word in ("REPLACE INTO", "IGNORE", "NOW("))


@pytest.mark.parametrize("kind", sinks())
def test_the_pipeline_of_every_sink_is_taken(kind: str, tmp_path: Path) -> None:
    stack = replace(running("mysql", tmp_path), postgres=running("postgres", tmp_path).postgres)
    sink = sinks()[kind]
    world = World(tmp_path, stack, sink)
    pipeline = load_registry(world.write_registry())[PIPELINE]
    assert (pipeline.sink.kind, world.shop.kind) == (kind, "mysql")
    assert pipeline.source.tables == tuple(f"{SCHEMA}.{table}" for table in sink.tables)
    assert sink.connections(world).keys() <= {
        name.removeprefix("AIRFLOW_CONN_").lower() for name in world.connections()
    }
