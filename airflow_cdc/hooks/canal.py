"""Connection type `canal` → where a Canal server keeps its cursors."""

from __future__ import annotations

from airflow.sdk import Connection

from airflow_cdc.connectors.canal.connector import CanalConnector
from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.hooks.base import CdcHook


class CanalHook(CdcHook[CanalEndpoint]):
    """A Canal server. Its files and commands stand in pipelines.yaml, below `connector`.

    Connection fields: host (ZooKeeper's servers, `zk1:2181,zk2:2181`; with `cursor: file` the machine that Canal runs on,
    which only messages name), login and password (ZooKeeper's digest authentication, optional).
    """

    default_conn_name = "canal_default"
    conn_type = "canal"
    hook_name = "Canal"
    example = "--conn-host zk1.example:2181,zk2.example:2181"

    def endpoint_of(self, conn: Connection) -> CanalEndpoint:
        """The servers and the login there. Raises ConfigError."""
        host = self.required(conn.host, "host")
        return CanalEndpoint(f"{host}:{conn.port}" if conn.port else host, conn.login or "", conn.password or "")

    def test_connection(self) -> tuple[bool, str]:
        """Whether ZooKeeper answers. A host without a port is the machine with Canal's files, which is not asked anything."""
        works, message = self.tested("reach")
        if works and not self.endpoint().names_zookeeper:
            return True, "Canal: no ZooKeeper to ask; `airflow cdc doctor` looks at Canal's files"
        return works, message

    def get_conn(self) -> CanalConnector:
        return CanalConnector(self.endpoint(), CursorCodec())
