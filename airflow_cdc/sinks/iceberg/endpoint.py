"""Where an Iceberg catalog is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self
from urllib.parse import urlsplit

from airflow_cdc.core.endpoint import CallLimits


@dataclass(frozen=True, slots=True)
class IcebergEndpoint:
    """An Iceberg catalog: its name and its PyIceberg properties (which may hold credentials)."""

    name: str
    properties: Mapping[str, str] = field(repr=False)

    @property
    def where(self) -> str:
        """How messages name this catalog."""
        return f"catalog {self.name}"

    def limited(self, _: CallLimits) -> Self:
        """Returns itself: PyIceberg's catalogs take their timeouts from `properties`."""
        return self

    def staged(self, way: str) -> Self:
        """A copy whose stages are made in this way (staging.py)."""
        return replace(self, properties={**self.properties, "staging": way})

    @property
    def dataset(self) -> str:
        """The warehouse without user or query; the catalog's name if it does not disclose its warehouse."""
        parts = urlsplit(self.properties.get("warehouse", ""))
        if not parts.scheme:
            return f"iceberg://{self.name}"
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path}".rstrip("/")
