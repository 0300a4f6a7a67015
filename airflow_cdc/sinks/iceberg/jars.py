"""What Spark needs to read and write Iceberg tables."""

from __future__ import annotations

from airflow_cdc.core.spark_jars import Need, Of
from airflow_cdc.sinks.iceberg.endpoint import IcebergEndpoint

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
