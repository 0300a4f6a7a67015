"""Connection type `cdc_opensearch` → an OpenSearch endpoint."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow.sdk import Connection

from airflow_cdc.core.endpoint import Address
from airflow_cdc.core.errors import ConfigError, needs
from airflow_cdc.core.text import number_in
from airflow_cdc.hooks.base import CdcHook, tls_settings
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint

if TYPE_CHECKING:
    from airflow_cdc.sinks.opensearch.client import SearchSink


class CdcOpenSearchHook(CdcHook[OpenSearchEndpoint]):
    """An OpenSearch cluster that holds mirrored tables.

    Connection fields: host, port (9200), schema (https or http), login and password (a password alone is a bearer
    token). Extra fields: `verify` (check the server's certificate, default true), `ca_file` (your own certificate
    authority), `cert_file`, `key_file`, `key_password` (a client certificate), `shards` and `replicas` of new indexes
    (1 each).
    """

    default_conn_name = "cdc_opensearch_default"
    conn_type = "cdc_opensearch"
    hook_name = "CDC OpenSearch sink"
    accepts = frozenset({"opensearch"})
    example = "--conn-host search.example --conn-port 9200 --conn-schema https --conn-login USER --conn-password …"

    def endpoint_of(self, conn: Connection) -> OpenSearchEndpoint:
        """The address, the login and the settings of new indexes. Raises ConfigError."""
        extra, host = conn.extra_dejson, self.required(conn.host, "host")
        scheme = conn.schema or "https"
        if scheme not in {"http", "https"}:
            raise ConfigError(f"schema is {scheme!r}", where=self.where, todo="Write https or http.")
        address = Address.of(host if "://" in host else f"{scheme}://{host}", "OpenSearch")
        return OpenSearchEndpoint(
            url=address.url if re.search(r":\d+$", address.url) else f"{address.url}:{conn.port or 9200}",
            user=conn.login or address.user,
            password=conn.password or address.password,
            **tls_settings(extra),
            shards=self._number(extra.get("shards"), "shards", 1),
            replicas=self._number(extra.get("replicas"), "replicas", 0),
        )

    def _number(self, value: object, key: str, least: int) -> int:
        if value in (None, ""):
            return 1
        number = number_in(str(value))
        if number is None or number < least:
            raise ConfigError(f"{key} is {value!r}", where=self.where, todo=f"Write a whole number from {least} on.")
        return number

    def get_conn(self) -> SearchSink:
        with needs("opensearch", where=self.where):
            from airflow_cdc.sinks.opensearch.client import SearchSink

        return SearchSink(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
