"""What the sources declare: their parts, the forms of their connections, the questions of init, and their settings."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.kind import SourceKind
from airflow_cdc.core.settings import connections
from airflow_cdc.sources.mariadb import KIND as MARIADB
from airflow_cdc.sources.mariadb import kind as mariadb
from airflow_cdc.sources.mysql import KIND as MYSQL
from airflow_cdc.sources.mysql import kind as mysql
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.sources.postgres import KIND as POSTGRES
from airflow_cdc.sources.postgres import kind as postgres
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.sources.tls import TLS_FIELDS
from tests.unit.declared import asks, asks_in_airflow, offers, reads, refuses

# the modules that are declared: airflow_cdc.sources.mysql.kind, airflow_cdc.sources.mariadb.kind, airflow_cdc.sources.postgres.kind
PARTS = ("endpoint", "client", "read_position", "rules", "setup", "hook", "form", "jars", "reader", "copies")
OWN = {"kind": "k", "conn_id": "c", "tables": ["shop.orders"]}


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [(MYSQL, "mysql", "MySQL"), (MARIADB, "mariadb", "MariaDB"), (POSTGRES, "postgres", "PostgreSQL")],
)
def test_a_source_is_called_by_its_makers_name_and_all_its_parts_load(kind: SourceKind, name: str, title: str) -> None:
    assert (kind.name, kind.title, kind.why_unread) == (name, title, "")
    offers(kind, PARTS)


@pytest.mark.parametrize(
    ("kind", "package", "path"),
    [
        # MariaDB's driver speaks to MySQL as well, and may be distributed with everything else
        (MYSQL, "org.mariadb.jdbc:mariadb-java-client:", "org/mariadb/jdbc/Driver.class"),
        (MARIADB, "org.mariadb.jdbc:mariadb-java-client:", "org/mariadb/jdbc/Driver.class"),
        (POSTGRES, "org.postgresql:postgresql:", "org/postgresql/Driver.class"),
    ],
)
def test_the_driver_that_reads_the_tables_is_known_by_its_class(kind: SourceKind, package: str, path: str) -> None:
    assert kind.jars is not None
    (need,) = kind.jars.load()
    assert need.package.startswith(package)
    assert need.artifact == need.package.split(":")[1]
    assert need.entry == path


# ---- the forms in Airflow -----------------------------------------------------------------------------


def _fields(waits: Any) -> dict[str, object]:
    """The fields of TLS, and how long is waited unless the form says so: as long as without the form."""
    fields: Any = TLS_FIELDS
    tls = {name: (field["schema"]["type"], field["schema"].get("default")) for name, field in fields.items()}
    seconds = ["integer", "null"]
    return {**tls, "connect_timeout": (seconds, waits.connect_timeout), "read_timeout": (seconds, waits.read_timeout)}


@pytest.mark.parametrize("kind", [MYSQL, MARIADB])
def test_the_form_of_mysql_has_no_schema_and_shows_its_port(kind: SourceKind) -> None:
    """The tables are named with their schema, and one connection reads them all."""
    example = {"host": "mysql.example", "port": "3306", "login": "cdc"}
    asks_in_airflow(kind, {"schema"}, {"login": "User"}, example, _fields(MySqlEndpoint("h", 1, "u", "p")))


def test_the_form_of_postgresql_asks_for_the_database_and_shows_its_port() -> None:
    example = {"host": "postgres.example", "port": "5432", "login": "cdc", "schema": "shop"}
    waits = PostgresEndpoint("h", 1, "u", "p", "shop")
    asks_in_airflow(POSTGRES, set(), {"login": "User", "schema": "Database"}, example, _fields(waits))


# ---- the questions of init ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setup", "kind", "title"), [(mysql.SETUP, "mysql", "MySQL"), (mariadb.SETUP, "mariadb", "MariaDB")]
)
def test_init_asks_for_a_server_and_its_user(setup: Any, kind: str, title: str) -> None:
    asks(setup, {kind: ("db:3306", True), f"{kind}_user": ("cdc", True)})
    assert [(one.name, one.value) for one in setup.keys("shop", {})] == [("conn_id", f"shop_{kind}")]
    for address, port in (("db", 3306), ("db:3307", 3307)):
        (made,) = setup.connections("shop", {kind: address, f"{kind}_user": "ann"})
        assert (made.conn_id, made.conn_type, made.host, made.port, made.login) == (
            f"shop_{kind}",
            "cdc_mysql",
            "db",
            port,
            "ann",
        )
        assert (made.password.of, made.password.variable) == (f"the {title} user", f"CDC_{kind.upper()}_PASSWORD")
    with pytest.raises(UsageError, match=f"--{kind}"):
        setup.connections("shop", {kind: "db:x", f"{kind}_user": "ann"})


def test_only_of_mysql_init_tells_that_replicas_may_stand_in() -> None:
    """The key is MySQL's alone; the line that shows it is a comment, so it is as it may be written."""
    assert any(note.startswith("replicas: [shop_replica]") for note in mysql.SETUP.notes)
    assert mariadb.SETUP.notes == ()


def test_init_asks_for_postgresqls_database_slot_and_publication() -> None:
    """The names that Debezium uses unless it is told others (slot.name, publication.name)."""
    asks(
        postgres.SETUP,
        {
            "postgres": ("db:5432", True),
            "postgres_user": ("cdc", True),
            "database": ("shop", True),
            "slot": ("debezium", True),
            "publication": ("dbz_publication", True),
        },
    )
    answers = {"postgres": "db", "postgres_user": "ann", "database": "crm", "slot": "s", "publication": "p"}
    assert {one.name: one.value for one in postgres.SETUP.keys("shop", answers)} == {
        "conn_id": "shop_postgres",
        "slot": "s",
        "publication": "p",
    }
    (made,) = postgres.SETUP.connections("shop", answers)
    assert (made.conn_id, made.conn_type, made.host, made.port) == ("shop_postgres", "cdc_postgres", "db", 5432)
    assert (made.login, made.schema) == ("ann", "crm")
    assert made.password is not None
    assert (made.password.of, made.password.variable) == ("the PostgreSQL user", "CDC_POSTGRES_PASSWORD")
    with pytest.raises(UsageError, match="--postgres"):
        postgres.SETUP.connections("shop", {**answers, "postgres": "db:x"})


# ---- the settings -------------------------------------------------------------------------------------


def test_a_mysql_server_may_have_replicas_that_are_others() -> None:
    reads(mysql.MySqlSettings, OWN, {"replicas": ()})
    spec = reads(mysql.MySqlSettings, {**OWN, "replicas": ["r1", "r2"]}, {"replicas": ("r1", "r2")}, of=OWN)
    assert connections(spec) == {"conn_id": "c", "replicas.0": "r1", "replicas.1": "r2"}
    refuses(mysql.MySqlSettings, {**OWN, "replicas": ["r1", "c"]}, "replicas")


def test_a_mariadb_server_is_its_connection() -> None:
    assert connections(reads(mariadb.MariaDbSettings, OWN, {"replicas": ()})) == {"conn_id": "c"}
    refuses(mariadb.MariaDbSettings, {**OWN, "replicas": ["r1"]}, "replicas")


def test_a_postgresql_server_is_read_by_debeziums_names_unless_others_are_written() -> None:
    left_out = {"slot": "debezium", "publication": "dbz_publication", "database": "", "warn_kept_gb": 10}
    spec = reads(postgres.PostgresSettings, OWN, left_out)
    assert connections(spec) == {"conn_id": "c"}
    endpoint = PostgresEndpoint("h", 1, "u", "p", "shop")
    own = spec.at(endpoint)
    assert (own.slot, own.publication, own.database) == ("debezium", "dbz_publication", "shop")
    written = {"slot": "s", "publication": "p", "database": "crm", "warn_kept_gb": 3}
    own = reads(postgres.PostgresSettings, OWN | written, {"warn_kept_gb": 3}, of=OWN).at(endpoint)
    assert (own.slot, own.publication, own.database) == ("s", "p", "crm")
