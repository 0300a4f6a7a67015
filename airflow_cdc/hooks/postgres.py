"""Connection type `cdc_postgres` (or an existing `postgres` connection) → a PostgreSQL endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from airflow.sdk import Connection

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.session import PORT, SSL_MODES, PostgresEndpoint

# our extra field → libpq's name for it, which the stock `postgres` type uses
_SSL_PARTS: Final = {"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey", "key_password": "sslpassword"}


class CdcPostgresHook(CdcHook[PostgresEndpoint]):
    """A PostgreSQL server that a pipeline reads from.

    Connection fields: host, port (5432), login, password, schema (the database; `postgres`). Extra fields: `ssl_mode`
    (disabled, preferred, required, verify_ca, verify_identity; libpq's names too), `ssl_ca`, `ssl_cert`, `ssl_key`
    (paths), `ssl_key_password`, `connect_timeout` (10 s), `read_timeout` (3600 s). The role needs LOGIN, USAGE on the
    schemas and SELECT on the captured tables; a recovery needs REPLICATION too.
    """

    default_conn_name = "cdc_postgres_default"
    conn_type = "cdc_postgres"
    hook_name = "CDC PostgreSQL source"
    accepts = frozenset({"postgres"})
    example = "--conn-host HOST --conn-port 5432 --conn-schema DATABASE --conn-login USER --conn-password …"

    def endpoint_of(self, conn: Connection) -> PostgresEndpoint:
        """The endpoint that `conn` describes. Raises ConfigError."""
        extra = conn.extra_dejson
        return PostgresEndpoint(
            host=self.required(conn.host, "host"),
            port=int(conn.port or PORT),
            user=self.required(conn.login, "login"),
            password=conn.password or "",
            database=conn.schema or "",
            ssl=self._ssl(extra),
            connect_timeout=self.seconds(extra, "connect_timeout", 10),
            read_timeout=self.seconds(extra, "read_timeout", 3600),
        )

    def get_conn(self) -> PostgresSource:
        return PostgresSource(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("log_facts")

    def _ssl(self, extra: Mapping[str, object]) -> dict[str, object] | None:
        mode = str(extra.get("ssl_mode") or extra.get("sslmode") or "").lower().replace("-", "_")
        mode = "preferred" if mode == "allow" else mode
        if mode and mode not in SSL_MODES:
            known = "disabled, preferred, required, verify_ca, verify_identity"
            raise ConfigError(f"ssl_mode is {mode!r}", where=self.where, todo=f"Write one of {known}.")
        values = {part: extra.get(f"ssl_{part}") or extra.get(own) for part, own in _SSL_PARTS.items()}
        parts = {part: value for part, value in values.items() if value}
        return {**parts, **({"mode": mode} if mode else {})} or None
