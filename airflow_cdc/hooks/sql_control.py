"""Connection type `cdc_sql_control` (or an existing `postgres`, `mysql` or `sqlite` one) → where a control database is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow.sdk import Connection

from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.hooks.base import CdcHook

if TYPE_CHECKING:
    from airflow_cdc.controls.sql.store import SqlControlStore


@dataclass(frozen=True, slots=True)
class _Driver:
    """`options`: the driver's own time limits, because a database that hangs must not block a run."""

    name: str
    port: int | None
    options: Mapping[str, str] = field(default_factory=dict)
    extra: str = ""


_DRIVERS: Final[Mapping[str, _Driver]] = {
    "postgres": _Driver(
        "postgresql+psycopg",
        5432,
        {"connect_timeout": "10", "tcp_user_timeout": "30000", "options": "-c statement_timeout=30000"},
        "postgres",
    ),
    "mysql": _Driver("mysql+pymysql", 3306, {"connect_timeout": "10", "read_timeout": "30", "write_timeout": "30"}),
    "sqlite": _Driver("sqlite", None, {"timeout": "30"}),
}


class SqlControlHook(CdcHook[SqlEndpoint]):
    """The database that keeps pipelines' control documents, in its table `cdc_control`.

    Connection fields: host (SQLite: the file), port, schema (the database), login, password. Extra fields: `dialect`
    (postgres, mysql or sqlite; a connection of one of these types needs none), and what else the driver takes, such as
    sslmode or ssl_ca. The login must be allowed to create, read and write a table.
    """

    default_conn_name = "cdc_control_default"
    conn_type = "cdc_sql_control"
    hook_name = "CDC control database"
    accepts = frozenset(_DRIVERS)
    example = """--conn-host HOST --conn-schema DATABASE --conn-login USER --conn-password … --conn-extra '{"dialect": "postgres"}'"""

    def endpoint_of(self, conn: Connection) -> SqlEndpoint:
        """The endpoint that `conn` describes. Raises ConfigError."""
        extra = {key: str(value) for key, value in conn.extra_dejson.items() if isinstance(value, str | int | float)}
        dialect = extra.pop("dialect", "") or str(conn.conn_type)
        if dialect not in _DRIVERS:
            raise ConfigError(
                f"dialect is {dialect!r}", where=self.where, todo=f"Write one of {', '.join(sorted(_DRIVERS))}."
            )
        driver = _DRIVERS[dialect]
        options = {**driver.options, **extra}
        if driver.port is None:
            return SqlEndpoint(driver.name, self.required(conn.host or conn.schema, "host"), options=options)
        return SqlEndpoint(
            driver.name,
            self.required(conn.schema, "schema"),
            self.required(conn.host, "host"),
            int(conn.port or driver.port),
            self.required(conn.login, "login"),
            conn.password or "",
            options,
            driver.extra,
        )

    def get_conn(self) -> SqlControlStore:
        from airflow_cdc.controls.sql.store import SqlControlStore  # SQLAlchemy, where a store is used

        return SqlControlStore(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
