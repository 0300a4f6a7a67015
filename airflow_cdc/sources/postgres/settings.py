"""A PostgreSQL source's settings in pipelines.yaml."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, cast

from airflow_cdc.core.pipeline import SourceSpec
from airflow_cdc.core.settings import CONNECTION, key, settings

E = TypeVar("E")


@settings
class PostgresSettings(SourceSpec):
    """A PostgreSQL server, and the slot and the publication through which the connector reads it."""

    conn_id: str = key(
        "Airflow connection (`cdc_postgres` or `postgres`) of the server that the connector reads.", form=CONNECTION
    )
    slot: str = key("The connector's replication slot (its `slot.name`).", default="debezium")
    publication: str = key("The connector's publication (its `publication.name`).", default="dbz_publication")
    database: str = key("The database of the tables; left out: that of the connection.", default="")
    warn_kept_gb: int = key(
        "Warn when the slot keeps more log than this many GB, which may fill the server's disk.", default=10
    )

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with this pipeline's slot, publication and database."""
        own: Any = endpoint
        made = replace(own, slot=self.slot, publication=self.publication, database=self.database or own.database)
        return cast("E", made)
