"""Connection type `debezium_engine`, or one of a database → where Debezium's engine keeps its offsets."""

from __future__ import annotations

from airflow.sdk import Connection

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium_engine.connector import DebeziumEngine
from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint
from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.hooks.sql_control import SqlControlHook


class DebeziumEngineHook(CdcHook[EngineEndpoint]):
    """Debezium's engine without Kafka Connect. Its files and commands stand in pipelines.yaml, below `connector`.

    A connection of type `debezium_engine`: host is the machine that it runs on, which only messages name. Of type
    `postgres` or `mysql`: the database with the table of its offsets.
    """

    default_conn_name = "debezium_engine_default"
    conn_type = "debezium_engine"
    hook_name = "Debezium's engine"
    accepts = frozenset({"postgres", "mysql"})
    example = "--conn-host debezium1.example"

    def endpoint_of(self, conn: Connection) -> EngineEndpoint:
        """The machine, or the database of its offsets. Raises ConfigError."""
        if conn.conn_type in self.accepts:
            return EngineEndpoint(database=SqlControlHook(self.conn_id).endpoint_of(conn))
        return EngineEndpoint(self.required(conn.host, "host"))

    def test_connection(self) -> tuple[bool, str]:
        """Whether the database of its offsets answers. A machine is not asked anything."""
        works, message = self.tested("reach")
        if works and self.endpoint().database is None:
            return True, "Debezium's engine: nothing to ask; `airflow cdc doctor` looks at its files"
        return works, message

    def get_conn(self) -> DebeziumEngine:
        return DebeziumEngine(self.endpoint(), MySqlCodec())
