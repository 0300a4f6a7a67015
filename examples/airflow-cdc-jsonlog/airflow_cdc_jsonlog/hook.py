"""Connection type `cdc_jsonlog` → the folder."""

from __future__ import annotations

from airflow.sdk import Connection

from airflow_cdc.hooks.base import CdcHook
from airflow_cdc_jsonlog.client import JsonLogEndpoint, JsonLogSource


class JsonLogHook(CdcHook[JsonLogEndpoint]):
    """A folder of log files: the connection's host is its path."""

    default_conn_name = "cdc_jsonlog_default"
    conn_type = "cdc_jsonlog"
    hook_name = "CDC JSON log"
    example = "--conn-host /data/log"

    def endpoint_of(self, conn: Connection) -> JsonLogEndpoint:
        """The folder. Raises ConfigError where the connection has no host."""
        return JsonLogEndpoint(self.required(conn.host, "host"))

    def get_conn(self) -> JsonLogSource:
        """The folder as a source."""
        return JsonLogSource(self.endpoint())
