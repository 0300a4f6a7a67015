"""A connection to a database that a JDBC sink connector fills: of the type of a source of its kind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from airflow.sdk import Connection

from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.hooks.mysql import CdcMySqlHook
from airflow_cdc.hooks.postgres import CdcPostgresHook
from airflow_cdc.sinks.jdbc.client import JdbcSink
from airflow_cdc.sinks.jdbc.endpoint import JdbcEndpoint

# hook → the kinds of database that its connections lead to
_HOOKS: Final[tuple[tuple[type[CdcPostgresHook | CdcMySqlHook], tuple[str, ...]], ...]] = (
    (CdcPostgresHook, ("postgres",)),
    (CdcMySqlHook, ("mysql", "mariadb")),
)


class JdbcSinkHook(CdcHook[JdbcEndpoint]):
    """The database of a JDBC sink. Connection types and fields are those of a PostgreSQL or MySQL source."""

    conn_type = CdcPostgresHook.conn_type
    hook_name = "database of a JDBC sink"
    accepts = frozenset(kind for hook, _ in _HOOKS for kind in (hook.conn_type, *hook.accepts))
    example = CdcPostgresHook.example

    def endpoint_of(self, conn: Connection) -> JdbcEndpoint:
        """The database that `conn` describes. Raises ConfigError."""
        for hook, databases in _HOOKS:
            if conn.conn_type in {hook.conn_type, *hook.accepts}:
                server = hook(self.conn_id).endpoint_of(conn)
                return JdbcEndpoint(databases, asdict(server), server.where, server.dataset)
        raise self.missing()

    def get_conn(self) -> JdbcSink:
        return JdbcSink(self.endpoint())
