"""What is known of connectors without topics before a client is opened: its settings in pipelines.yaml, init's questions."""

from __future__ import annotations

from airflow_cdc.core.pipeline import TransportSpec
from airflow_cdc.core.settings import key, settings
from airflow_cdc.core.setup import Setup


@settings
class DirectSettings(TransportSpec):
    """Nothing in between: the connector writes the sink itself, and events cannot be read again."""

    conn_id: str = key("Not used: there is nothing to connect to.", default="")


SETUP = Setup()
