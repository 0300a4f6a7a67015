"""Debezium's engine without Kafka Connect: its offsets in a file or a table, read, written, and recovered from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium_engine.connector import DebeziumEngine
from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint
from airflow_cdc.connectors.debezium_engine.kind import EngineSettings
from airflow_cdc.connectors.debezium_engine.stores.table import TableOffsets
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.flows.offsets import replace_offset
from airflow_cdc.sinks.iceberg.client import Lake
from stack import Stack, fetch
from stack.connect import DEBEZIUM_CLASS
from stack.engine import Engine, make_engine
from stack.postgres import PostgresServer, PostgresSettings
from tests.integration.followed_mysql import FollowedMySql, recover_a_purge
from tests.integration.mariadb.recovered import connector_config
from tests.integration.mariadb.support import purge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stack.mysql import MySqlServer

pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

FILE = "org.apache.kafka.connect.storage.FileOffsetBackingStore"
TABLE = "io.debezium.storage.jdbc.offset.JdbcOffsetBackingStore"


@dataclass(frozen=True, slots=True)
class OffsetsPlace:
    """Where the engine's offsets are: its settings for that, the database as the provider reaches it, and its driver."""

    settings: Mapping[str, str]
    database: SqlEndpoint | None = None


@dataclass(slots=True)
class Followed(FollowedMySql):
    """A MySQL database that an engine follows."""

    place: OffsetsPlace
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        server, name = self.server, self.database
        self.set_up_mysql()
        own = {
            "connector.class": DEBEZIUM_CLASS,
            "database.ssl.mode": "disabled",
            "driver.allowPublicKeyRetrieval": "true",
            "offset.flush.interval.ms": "200",
            # a heartbeat follows an event of the server's, and that comes after four fifths of this
            "connect.keep.alive.interval.ms": "5000",
        }
        config = connector_config(server, name, self.kafka, own) | dict(self.place.settings)
        folder = self.folder / "engine"
        config = {key: value.replace("FOLDER", str(folder)) for key, value in config.items()}
        self.engine = make_engine(folder, config, self.kafka, sets=("debezium", "spark"))
        commands: dict[str, Any] = self.engine.commands()
        part = EngineSettings(
            "debezium_engine", "c", name, str(self.engine.config), **commands, log=str(self.engine.log)
        )
        connector: Any = DebeziumEngine(part.at(EngineEndpoint("here", self.place.database)), MySqlCodec())
        self.connector = connector
        pipeline = replace(self.base.pipeline, connector=part)
        self.base = replace(self.base, pipeline=pipeline, clients=replace(self.base.clients, connector=connector))

    def follow(self) -> None:
        self.connector.resume(self.database)
        self.connector.wait_running(self.database)
        self.wait_read()
        self.mirror(self.database)


def in_file() -> OffsetsPlace:
    return OffsetsPlace({"offset.storage": FILE, "offset.storage.file.filename": "FOLDER/offsets.dat"})


def in_mysql(server: MySqlServer, schema: str) -> OffsetsPlace:
    url = f"jdbc:mysql://{server.host}:{server.port}/{schema}?allowPublicKeyRetrieval=true&sslMode=DISABLED"
    database = SqlEndpoint("mysql+pymysql", schema, server.host, server.port, server.user, server.password)
    return OffsetsPlace(_table(url, server.user, server.password), database)


def in_postgres(server: PostgresServer, name: str) -> OffsetsPlace:
    url = f"jdbc:postgresql://{server.host}:{server.port}/postgres"
    database = SqlEndpoint("postgresql+psycopg", "postgres", server.host, server.port, server.user, server.password)
    more = {"offset.storage.jdbc.offset.table.name": f"debezium_{name}"}
    return OffsetsPlace(_table(url, server.user, server.password) | more, database)


def _table(url: str, user: str, password: str) -> dict[str, str]:
    connection = "offset.storage.jdbc.connection"
    return {
        "offset.storage": TABLE,
        f"{connection}.url": url,
        f"{connection}.user": user,
        f"{connection}.password": password,
    }


@pytest.fixture(scope="session")
def postgres(servers: Stack) -> PostgresServer:
    """A PostgreSQL with default settings."""
    return servers.postgres.get("postgres") or servers.add_postgres(PostgresSettings())


@pytest.fixture(params=["file", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mysql", "postgres"))])
def followed(  # noqa: PLR0917
    request: pytest.FixtureRequest,
    mysql: MySqlServer,
    kafka: str,
    spark: SparkSession,
    lake_properties: dict[str, str],
    databases: Callable[..., str],
    tmp_path: Path,
) -> Iterator[Followed]:
    fetch.fetch_all(["kafka", "debezium", "debezium-engine", "spark"])
    name, lake = databases(), Lake("lake", lake_properties)
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(40))")
    places: dict[str, Callable[[], OffsetsPlace]] = {
        "file": in_file,
        "mysql": lambda: in_mysql(mysql, databases()),
        "postgres": lambda: in_postgres(request.getfixturevalue("postgres"), name),
    }
    made = Followed(mysql, spark, lake, kafka, "http://nobody:1", tmp_path, name, ("t",), places[request.param]())
    made.follow()
    yield made
    made.engine.stop()


def test_a_purged_log_is_recovered_while_its_source_is_written(followed: Followed) -> None:
    recover_a_purge(followed)


@pytest.mark.slow
def test_an_offset_is_set_back_and_the_engine_reads_from_there(followed: Followed) -> None:
    name, connector = followed.database, followed.connector
    followed.execute("INSERT INTO t VALUES (1, 'a')")
    followed.wait_read()
    before = followed.stored()
    assert before is not None
    followed.execute("INSERT INTO t VALUES (2, 'b')")
    followed.wait_sent(2)
    store = connector.offset_store(name, {"server": name})
    with pytest.raises(ConnectorError, match="would write over the offset"):
        store.write(before)
    connector.stop(name)
    assert connector.state(name).state == "STOPPED"
    replace_offset(store, connector.codec, followed.stored(), before, where="here")
    connector.resume(name)
    connector.wait_running(name)
    followed.wait_sent(3)  # the second row comes again
    connector.stop(name)
    store.write(None)
    assert connector.entries(name) == ()


@pytest.mark.slow
@pytest.mark.parametrize("followed", ["file"], indirect=True)
def test_a_definition_that_changed_in_the_gap_is_rebuilt_by_a_start_with_another_setting(followed: Followed) -> None:
    before = followed.engine.config.read_text()
    followed.execute("INSERT INTO t VALUES (1, 'a')")
    followed.apply("apply-1")
    followed.connector.stop(followed.database)
    followed.execute("ALTER TABLE t ADD COLUMN w INT FIRST", "INSERT INTO t (id, v, w) VALUES (2, 'b', 7)")
    purge(followed.server)
    followed.connector.resume(followed.database)
    assert "no longer available" in followed.failure()
    done = followed.recover("rec-1")
    assert done["verify"]["verdict"] == "MATCH"
    assert followed.engine.config.read_text() == before
    with_mode = followed.engine.config.with_name("application.properties.before").read_text()
    assert with_mode.count("debezium.source.snapshot.mode=recovery") == 1
    followed.execute("UPDATE t SET w = 8 WHERE id = 2")
    followed.apply("apply-2")
    assert followed.differences("t", ("id", "v", "w")) == ([], [])


def test_a_name_with_which_the_engine_does_not_start_again_is_refused(postgres: PostgresServer) -> None:
    """It creates the table as debezium_x, looks for Debezium_X, and tries to create it again for ever."""
    database = in_postgres(postgres, "x").database
    assert database is not None
    with pytest.raises(ConnectorError, match="small letters"):
        TableOffsets(database, "Debezium_X").read()


@pytest.mark.parametrize("followed", ["mysql"], indirect=True)
def test_a_row_that_somebody_else_changed_stays(followed: Followed) -> None:
    name, connector = followed.database, followed.connector
    connector.stop(name)
    database = followed.place.database
    assert database is not None
    offsets = TableOffsets(database, "debezium_offset_storage")
    (key,) = offsets.read()
    stored = offsets.read()[key]
    with pytest.raises(ConnectorError, match="somebody else wrote"):
        offsets.replace(key, "{}", "{}")
    assert offsets.read() == {key: stored}
    with pytest.raises(ConnectorError, match="Data too long"):
        offsets.replace(key, stored, "x" * 2000)  # the table of Debezium's has room for 1,255 characters
    assert offsets.read() == {key: stored}
