"""The settings of a MySQL source in pipelines.yaml."""

from __future__ import annotations

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import SourceSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class MySqlSettings(SourceSpec):
    """A MySQL server, and the replicas that may stand in for it."""

    conn_id: str = key(
        "Airflow connection (`cdc_mysql` or `mysql`) of the server that the connector reads.", form=CONNECTION
    )
    replicas: tuple[str, ...] = key(
        "Connections of replicas from which the connector may temporarily read what the source has purged (GTID only).",
        form=CONNECTION,
        default=(),
    )

    def __post_init__(self) -> None:
        if self.conn_id in self.replicas:
            raise ConfigError(
                "names the source itself",
                where="replicas",
                todo="Name connections of its replicas, or leave the key out.",
            )
