"""What is known of `sink: {kind: topics}` before a client is opened: its settings in pipelines.yaml; init asks nothing."""

from __future__ import annotations

from typing import Literal

from airflow_cdc.core.pipeline import SinkSpec
from airflow_cdc.core.settings import key, settings
from airflow_cdc.core.setup import Setup


@settings
class TopicsSettings(SinkSpec):
    """Whoever reads the topics. Nobody's tables are read or written: what the topics say is compared and corrected."""

    namespace: str = key("Not used with topics.", default="")
    writer: Literal["consumers"] = key(
        "Who writes the tables: the topics' consumers.", default="consumers", kw_only=True
    )

    @property
    def where(self) -> str:
        """How messages name it."""
        return "the topics"


SETUP = Setup()
