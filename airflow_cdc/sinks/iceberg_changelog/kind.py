"""What is known of change logs in Iceberg before a client is opened: the settings in pipelines.yaml, and init's questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from airflow_cdc.core.pipeline import SinkSpec
from airflow_cdc.core.settings import NAME, key, settings
from airflow_cdc.core.setup import Answers, Key, Question, Setup


@settings
class ChangelogSettings(SinkSpec):
    """An Iceberg catalog in which Iceberg's own Kafka Connect sink appends each change. We read it and never write to it."""

    namespace: str = key("Not used: the sink connector's settings name the tables.", default="")
    writer: Literal["connect_sink"] = key("The sink connector `connector`.", default="connect_sink", kw_only=True)
    catalog: str = key(
        "Name of the Iceberg catalog, which is also the id of the Airflow connection that describes it.",
        form=replace(NAME, names_connection=True),
        kw_only=True,
    )
    connector: str = key("Name of the sink connector on the same Kafka Connect.", kw_only=True)

    @property
    def where(self) -> str:
        """How messages name the place of the tables: catalog and sink connector."""
        return f"{self.catalog}.{self.connector}"

    @property
    def feeder(self) -> str:
        """See SinkSpec."""
        return self.connector


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `sink`."""
    return (
        Key(
            "catalog", answers["changelog_catalog"], "also the id of the Airflow connection that describes the catalog"
        ),
        Key("connector", answers["changelog_connector"], "the sink connector's name on Kafka Connect"),
        Key("writer", "connect_sink", "who writes the tables"),
    )


SETUP = Setup(
    (
        Question("changelog_catalog", "Iceberg catalog: the id of its Airflow connection, which exists", "lake"),
        Question("changelog_connector", "Name of Iceberg's sink connector on Kafka Connect", example="shop-log"),
    ),
    keys,
)
