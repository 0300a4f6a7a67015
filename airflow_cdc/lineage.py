"""The tables that a task read and wrote, as OpenLineage datasets, if `apache-airflow-providers-openlineage` is installed.

The names follow OpenLineage's naming of data sets, so that they match other producers' events: `mysql://host:port` with
"schema.table", and for the sink its warehouse with "namespace.table". No server is asked for them.

Source: https://openlineage.io/docs/spec/naming
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from airflow_cdc.core.pipeline import Pipeline

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_cdc.parts import Endpoints

Side: TypeAlias = Literal["source", "sink"]

# application or task → what it reads, what it writes; nobody reads a stage, so `recover` writes nothing yet
FLOWS: Mapping[str, tuple[tuple[Side, ...], tuple[Side, ...]]] = {
    "apply_changes": (("source",), ("sink",)),
    "recover": (("source",), ()),
    "verify": (("source", "sink"), ()),
    "publish": (("source",), ("sink",)),
    "reset_offset": (("source",), ("sink",)),
    "nightly": (("source", "sink"), ()),
    "repair": (("source", "sink"), ("sink",)),
    "backfill": (("source", "sink"), ("sink",)),
    "maintain": (("sink",), ("sink",)),
}


@dataclass(frozen=True, slots=True)
class Named:
    """A data set by its OpenLineage name."""

    namespace: str
    name: str


def datasets(pipeline: Pipeline, endpoints: Endpoints, side: Side) -> list[Named]:
    """The pipeline's tables on one side; names hold no credentials."""
    if side == "source":
        return [Named(endpoints.source.dataset, table) for table in pipeline.source.tables]
    if not pipeline.has_sink:
        return []
    namespace = endpoints.sink.dataset
    return [Named(namespace, f"{pipeline.sink.namespace}.{pipeline.sink_table(t)}") for t in pipeline.source.tables]


def facets(flow: str, pipeline: Pipeline, endpoints: Endpoints) -> OperatorLineage:
    """The OperatorLineage of one of FLOWS. Only the OpenLineage provider calls it, so that provider is installed."""
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    def named(sides: tuple[Side, ...]) -> list[Dataset]:
        return [Dataset(one.namespace, one.name) for side in sides for one in datasets(pipeline, endpoints, side)]

    inputs, outputs = FLOWS[flow]
    return OperatorLineage(inputs=named(inputs), outputs=named(outputs))
