"""Connection type `cdc_mysql` (or an existing `mysql` connection) → a MySQL endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Connection

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.text import read_json
from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource

SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
SSL_TODO = 'Write it like {"ca": "/path/ca.pem"}.'
SSL_PARTS = ("ca", "cert", "key", "key_password")


class CdcMySqlHook(CdcHook[MySqlEndpoint]):
    """A MySQL server that a pipeline reads from.

    Connection fields: host, port (3306), login, password. Extra fields: `ssl_mode` (disabled, preferred, required,
    verify_ca, verify_identity), `ssl_ca`, `ssl_cert`, `ssl_key` (paths), `ssl_key_password`, `connect_timeout` (10 s),
    `read_timeout` (3600 s: a snapshot's scans are long). The user needs SELECT on the captured tables and REPLICATION
    CLIENT, and BACKUP_ADMIN if a recovery holds the binlog; `airflow cdc doctor` checks this.
    """

    default_conn_name = "cdc_mysql_default"
    conn_type = "cdc_mysql"
    hook_name = "CDC MySQL source"
    accepts = frozenset({"mysql"})
    example = "--conn-host HOST --conn-port 3306 --conn-login USER --conn-password …"

    def endpoint_of(self, conn: Connection) -> MySqlEndpoint:
        """The endpoint that `conn` describes. Raises ConfigError."""
        extra = conn.extra_dejson
        return MySqlEndpoint(
            host=self.required(conn.host, "host"),
            port=int(conn.port or 3306),
            user=self.required(conn.login, "login"),
            password=conn.password or "",
            ssl=self._ssl(extra),
            connect_timeout=self.seconds(extra, "connect_timeout", 10),
            read_timeout=self.seconds(extra, "read_timeout", 3600),
        )

    def get_conn(self) -> MySqlSource:
        return MySqlSource(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("log_facts")

    def _ssl(self, extra: Mapping[str, Any]) -> dict[str, object] | None:
        """The endpoint's `ssl`. The stock `mysql` type keeps ca, cert and key under `ssl`, as JSON or as its text."""
        ready = extra.get("ssl") or {}
        try:
            options = dict(read_json(ready) if isinstance(ready, str) else ready)
        except ValueError:
            raise ConfigError("the extra field ssl is not JSON", where=self.where, todo=SSL_TODO) from None
        mode = str(extra.get("ssl_mode") or "").lower().replace("-", "_")
        if mode and mode not in SSL_MODES:
            raise ConfigError(f"ssl_mode is {mode!r}", where=self.where, todo=f"Write one of {', '.join(SSL_MODES)}.")
        parts = {name: extra[f"ssl_{name}"] for name in SSL_PARTS if extra.get(f"ssl_{name}")}
        return {**options, **parts, **({"mode": mode} if mode else {})} or None
