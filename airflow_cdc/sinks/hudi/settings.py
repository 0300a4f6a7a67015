"""The settings of a Hudi sink in pipelines.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from airflow_cdc.core.pipeline import SinkSpec
from airflow_cdc.core.settings import key, settings


@settings
class HudiSettings(SinkSpec):
    """A folder of Hudi tables: `<path>/<namespace>/<table>`."""

    writer: Literal["cdc_apply"] = key(
        "Who writes the sink tables: the DAG `cdc_apply__<pipeline>`, and nothing else.",
        default="cdc_apply",
        kw_only=True,
    )
    path: str = key("Folder of the tables: an absolute path that Airflow's workers and Spark share.")
    table_type: Literal["copy-on-write", "merge-on-read"] = key(
        "How new tables are written. A table that is there keeps its type.", default="copy-on-write"
    )

    @property
    def where(self) -> str:
        """How messages name the place of the tables."""
        return f"{plain_path(self.path)}/{self.namespace}"

    def at(self, endpoint: Any) -> Any:
        """The folder that this pipeline names."""
        return endpoint.of(self.path, self.table_type)


def plain_path(path: str) -> str:
    """A folder as it is named, without a scheme and what names it twice."""
    plain = path.removeprefix("file://")
    return str(Path(plain)) if plain.startswith("/") else plain
