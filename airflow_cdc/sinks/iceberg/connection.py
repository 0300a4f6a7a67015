"""The form of Airflow's connection type `iceberg_catalog`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "iceberg_catalog",
    "hook-class-name": "airflow_cdc.hooks.iceberg.IcebergCatalogHook",
    "hook-name": "Iceberg catalog",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port"],
        "relabeling": {"host": "URI", "login": "Client id", "password": "Client secret or token"},
        "placeholders": {
            "host": "https://catalog.example",
            "extra": '{"type": "rest", "warehouse": "s3://bucket/warehouse"}',
        },
    },
    "conn-fields": {
        "type": field("Catalog type", "rest, sql, hive or glue"),
        "warehouse": field("Warehouse", "Folder or URL under which new tables are made"),
    },
}
