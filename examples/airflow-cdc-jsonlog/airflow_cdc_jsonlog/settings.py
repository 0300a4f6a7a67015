"""What pipelines.yaml says of a JSON log: the keys of every source."""

from __future__ import annotations

from airflow_cdc.core.pipeline import SourceSpec
from airflow_cdc.core.settings import CONNECTION, key, settings


@settings
class JsonLogSettings(SourceSpec):
    """A folder of log files."""

    conn_id: str = key("Airflow connection (`cdc_jsonlog`) of the folder.", form=CONNECTION)
