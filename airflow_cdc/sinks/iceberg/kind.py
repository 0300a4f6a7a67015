"""What is known of Iceberg before a client is opened: its settings in pipelines.yaml, where a catalog is, init's questions, the form of its connection, Spark's jars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self, cast
from urllib.parse import urlsplit

from airflow_cdc.core.endpoint import Unlimited
from airflow_cdc.core.pipeline import E, SinkSpec
from airflow_cdc.core.settings import NAME, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup, form_field
from airflow_cdc.core.spark_jars import Need, Of

# the names of Spark's settings and of the control table contain the catalog's name
_CATALOG = replace(NAME, names_connection=True)


@settings
class IcebergSettings(SinkSpec):
    """An Iceberg catalog, and the namespace of the tables in it."""

    writer: Literal["cdc_apply", "connector"] = key(
        "Who writes the sink tables: the DAG `cdc_apply__<pipeline>`, or the connector itself (with `transport.kind` direct).",
        default="cdc_apply",
        kw_only=True,
    )
    catalog: str = key(
        "Name of the Iceberg catalog, which is also the id of the Airflow connection that describes it.", form=_CATALOG
    )
    staging: Literal["auto", "registered", "beside"] = key(
        "How stages are made: `registered` on the tables' own files, or `beside` them, in tables of their own. `auto` "
        "registers them if the catalog allows it.",
        default="auto",
        kw_only=True,
    )

    def at(self, endpoint: E) -> E:
        """The catalog with this pipeline's way of staging."""
        return endpoint if self.staging == "auto" else cast("E", cast("IcebergEndpoint", endpoint).staged(self.staging))


@dataclass(frozen=True, slots=True)
class IcebergEndpoint(Unlimited):
    """An Iceberg catalog: its name and its PyIceberg properties (which may hold credentials)."""

    name: str
    properties: Mapping[str, str] = field(repr=False)

    @property
    def where(self) -> str:
        """How messages name this catalog."""
        return f"catalog {self.name}"

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


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `sink`."""
    return (
        Key("catalog", answers["catalog"], "also the id of the Airflow connection that describes the catalog"),
        Key("namespace", answers["namespace"]),
        # the only one that the transport allows
        Key("writer", "connector" if answers["transport_kind"] == "direct" else "cdc_apply", "who writes the tables"),
    )


def connections(_name: str, answers: Answers) -> Sequence[NewConnection]:
    """The catalog's connection."""
    return (NewConnection(answers["catalog"], "iceberg_catalog", extra=answers["catalog_extra"] or "{}"),)


SETUP = Setup(
    (
        Question("catalog", "Iceberg catalog: the id of its Airflow connection", "lake"),
        Question(
            "catalog_extra",
            'Its PyIceberg properties as JSON (only if it is new), like {"type": "rest", "uri": "…"}',
            needed=False,
        ),
        Question("namespace", "Namespace of the sink tables (default: the pipeline's name)", as_pipeline=True),
    ),
    keys,
    connections,
)


FORM: Final[dict[str, object]] = {
    "connection-type": "iceberg_catalog",
    "hook-class-name": "airflow_cdc.hooks.iceberg.IcebergCatalogHook",
    "hook-name": "Iceberg catalog",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port"],
        "relabeling": {"host": "URI", "login": "Client id", "password": "Client secret or token"},
        "placeholders": {
            "host": "https://catalog.example",
            "extra": '{"type": "rest", "warehouse": "s3://bucket/warehouse"}',
        },
    },
    "conn-fields": {
        "type": form_field("Catalog type", "rest, sql, hive or glue"),
        "warehouse": form_field("Warehouse", "Folder or URL under which new tables are made"),
    },
}


ICEBERG = Need(
    "iceberg-spark-runtime",
    "reads and writes the sink tables",
    "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:1.12.0",
    "org/apache/iceberg/spark/SparkCatalog.class",
    Of.SPARK_AND_SCALA,
)
JARS = (ICEBERG,)
_SQLITE = Need("sqlite-jdbc", "opens the catalog", "org.xerial:sqlite-jdbc:3.50.3.0", "org/sqlite/JDBC.class")
_POSTGRES = Need("postgresql", "opens the catalog", "org.postgresql:postgresql:42.7.7", "org/postgresql/Driver.class")
_AWS, _GCP, _AZURE = (
    Need(
        f"iceberg-{cloud}-bundle",
        f"reads the warehouse in {where}",
        f"org.apache.iceberg:iceberg-{cloud}-bundle:1.12.0",
        f"org/apache/iceberg/{entry}.class",
    )
    for cloud, where, entry in (
        ("aws", "S3", "aws/s3/S3FileIO"),
        ("gcp", "Google Cloud Storage", "gcp/gcs/GCSFileIO"),
        ("azure", "Azure", "azure/adlsv2/ADLSFileIO"),
    )
)
_BY_URI = {"sqlite": _SQLITE, "postgresql": _POSTGRES}
_BY_WAREHOUSE = {"s3": _AWS, "s3a": _AWS, "gs": _GCP, "abfs": _AZURE, "abfss": _AZURE}


def catalog_needs(endpoint: IcebergEndpoint) -> tuple[Need, ...]:
    """What a catalog needs by its PyIceberg properties: a SQL catalog's driver and an object store's client."""
    properties = endpoint.properties
    uri = properties.get("uri", "").partition(":")[0].partition("+")[0]
    driver = _BY_URI.get(uri) if properties.get("type") == "sql" else None
    store = _BY_WAREHOUSE.get(properties.get("warehouse", "").partition(":")[0])
    return tuple(need for need in (driver, store) if need)
