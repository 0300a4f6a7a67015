"""The form of Airflow's connection type `cdc_opensearch`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "cdc_opensearch",
    "hook-class-name": "airflow_cdc.hooks.opensearch.CdcOpenSearchHook",
    "hook-name": "CDC OpenSearch sink",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Scheme"},
        "placeholders": {"host": "search.example", "port": "9200", "schema": "https", "extra": '{"replicas": 1}'},
    },
    "conn-fields": {
        "verify": field("Check the TLS certificate", type=["boolean", "null"], default=True),
        "ca_file": field("TLS: CA file", "Path; takes the place of the system's authorities"),
        "cert_file": field("TLS: client certificate", "Path"),
        "key_file": field("TLS: client key", "Path; if it is not in the certificate's file"),
        "key_password": field("TLS: password of the client key", format="password"),
        "shards": field("Shards", "Primary shards of a new index (default 1)"),
        "replicas": field("Replicas", "Replicas of each shard once an index is published (default 1)"),
    },
}
