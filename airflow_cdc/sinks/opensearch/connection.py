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
        "ca": field("CA certificate", "File of the certificate authority's certificate"),
        "shards": field("Shards", "Primary shards of a new index (default 1)"),
        "replicas": field("Replicas", "Replicas of each shard once an index is published (default 1)"),
    },
}
