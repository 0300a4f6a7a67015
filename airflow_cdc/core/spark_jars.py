"""What Spark needs beside its own jars, and whether the jars and packages that it will be given hold it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

SCALA_OF_SPARK = {"3": "2.12", "4": "2.13"}


class Of(StrEnum):
    """What the name of an artifact says it was built for."""

    ANY = "any"
    SCALA = r"_(?P<scala>\d+\.\d+)"
    SPARK_AND_SCALA = r"-(?P<spark>\d+\.\d+)_(?P<scala>\d+\.\d+)"


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that Spark must find on its class path.

    Attributes:
        package: the Maven coordinates to give, with {spark}, {minor} and {scala} of the installed Spark.
        entry: a class file in it, by which a jar of any name is known.
        comes_along: a package brings it with another one; only jars have to be named one by one.
    """

    artifact: str
    why: str
    package: str
    entry: str
    built_for: Of = Of.ANY
    comes_along: bool = False

    def found_in(self, name: str) -> re.Match[str] | None:
        """Whether a jar's path or a package's coordinates name this artifact."""
        suffix = "" if self.built_for is Of.ANY else self.built_for
        return re.search(rf"(?:^|[/:]){re.escape(self.artifact)}{suffix}(?:[-:]|$)", name)


ICEBERG = Need(
    "iceberg-spark-runtime",
    "reads and writes the sink tables",
    "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:1.12.0",
    "org/apache/iceberg/spark/SparkCatalog.class",
    Of.SPARK_AND_SCALA,
)
MYSQL = Need(
    "mariadb-java-client",
    "reads the source",
    "org.mariadb.jdbc:mariadb-java-client:3.5.11",
    "org/mariadb/jdbc/Driver.class",
)
KAFKA = Need(
    "spark-sql-kafka-0-10",
    "reads the topics",
    "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
    "org/apache/spark/sql/kafka010/KafkaSourceProvider.class",
    Of.SCALA,
)
# what the Kafka source itself needs
OF_KAFKA = (
    Need(
        "spark-token-provider-kafka-0-10",
        "is needed by the Kafka source",
        "org.apache.spark:spark-token-provider-kafka-0-10_{scala}:{spark}",
        "org/apache/spark/kafka010/KafkaConfigUpdater.class",
        Of.SCALA,
        comes_along=True,
    ),
    Need(
        "kafka-clients",
        "is needed by the Kafka source",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org/apache/kafka/clients/consumer/KafkaConsumer.class",
        comes_along=True,
    ),
    Need(
        "commons-pool2",
        "is needed by the Kafka source",
        "org.apache.commons:commons-pool2:2.12.1",
        "org/apache/commons/pool2/ObjectPool.class",
        comes_along=True,
    ),
)
NEEDS = (ICEBERG, MYSQL, KAFKA, *OF_KAFKA)
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


def catalog_needs(properties: Mapping[str, str]) -> tuple[Need, ...]:
    """What a catalog needs by its PyIceberg properties: the driver of a SQL catalog, and a client of its object store."""
    uri = properties.get("uri", "").partition(":")[0].partition("+")[0]
    driver = _BY_URI.get(uri) if properties.get("type") == "sql" else None
    store = _BY_WAREHOUSE.get(properties.get("warehouse", "").partition(":")[0])
    return tuple(need for need in (driver, store) if need)


@dataclass(frozen=True, slots=True)
class SparkVersion:
    """The installed Spark, and the Scala that it is built with."""

    full: str

    @property
    def minor(self) -> str:
        return ".".join(self.full.split(".")[:2])

    @property
    def scala(self) -> str:
        return SCALA_OF_SPARK.get(self.full.partition(".")[0], "")

    def package(self, need: Need) -> str:
        """The Maven coordinates of what is needed, for this Spark."""
        return need.package.format(spark=self.full, minor=self.minor, scala=self.scala)


@dataclass(frozen=True, slots=True)
class GivenJars:
    """What spark-submit will be given.

    Attributes:
        jars: paths or URLs of jars.
        packages: Maven coordinates; what they depend on is fetched with them.
        classes: the entries that were looked for and found inside local jars.
    """

    jars: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()

    def has(self, need: Need) -> bool:
        """Whether a jar or a package holds it."""
        named = any(map(need.found_in, (*self.jars, *self.packages)))
        return named or need.entry in self.classes or (need.comes_along and any(map(KAFKA.found_in, self.packages)))


def missing(given: GivenJars, needs: Iterable[Need]) -> tuple[Need, ...]:
    """What is needed and not given."""
    return tuple(need for need in needs if not given.has(need))


def misfits(given: GivenJars, spark: SparkVersion, needs: Collection[Need] = NEEDS) -> tuple[str, ...]:
    """Jars and packages that were built for another Spark or Scala, each with what it is for."""
    named = [
        (name, match) for name in (*given.jars, *given.packages) for need in needs if (match := need.found_in(name))
    ]
    return tuple(
        f"{name.rpartition('/')[2]} is for {_built_for(match)}" for name, match in named if not _fits(match, spark)
    )


def _fits(match: re.Match[str], spark: SparkVersion) -> bool:
    here = {"spark": spark.minor, "scala": spark.scala}
    return all(here[part] == value for part, value in match.groupdict().items())


def _built_for(match: re.Match[str]) -> str:
    return ", ".join(f"{part.title()} {value}" for part, value in match.groupdict().items())
