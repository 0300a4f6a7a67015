"""Where the Hudi tables are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_cdc.core.endpoint import Unlimited
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.sinks.hudi.kind import plain_path

COPY_ON_WRITE: Final = "copy-on-write"


@dataclass(frozen=True, slots=True)
class HudiEndpoint(Unlimited):
    """A folder on a file system that all who use it share.

    Attributes:
        table_type: of new tables that readers see.
        buckets: of the tables that the connector makes and writes; 0: the tables are ours.
    """

    path: str = ""
    table_type: str = COPY_ON_WRITE
    buckets: int = 0

    @classmethod
    def of(cls, path: str, table_type: str = COPY_ON_WRITE, buckets: int = 0) -> HudiEndpoint:
        """The endpoint of a folder as pipelines.yaml names it."""
        return cls(plain_path(path), table_type, buckets)

    @property
    def shared(self) -> bool:
        """Whether the connector makes the tables and writes them."""
        return self.buckets > 0

    @property
    def where(self) -> str:
        """How messages name the folder."""
        return f"folder {self.path}"

    @property
    def dataset(self) -> str:
        """The folder's name in OpenLineage."""
        return f"file://{self.path}"

    @property
    def root(self) -> Path:
        """The folder. Raises ConfigError for what is no absolute path."""
        if not self.path.startswith("/"):
            raise ConfigError(
                f"{self.path!r} is no absolute path; object stores have not been tried with Hudi tables of ours",
                where="key sink.path",
                todo="Name a folder on a file system that Airflow's workers and Spark share.",
            )
        return Path(self.path)
