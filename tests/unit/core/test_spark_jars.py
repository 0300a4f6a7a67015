"""Which jars Spark lacks, by what it will be given; the demo's own set is complete."""

from __future__ import annotations

import pytest

from airflow_cdc.core.spark_jars import GivenJars, SparkVersion, misfits, missing
from airflow_cdc.kinds import jars_for
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint, catalog_needs
from stack.fetch import jars_of
from stack.versions import SPARK
from tests.unit.builders import PIPELINE

NEEDS = jars_for([PIPELINE])

HERE = SparkVersion(SPARK)
JARS = tuple(f"/opt/jars/{jar.file_name}" for jar in jars_of("spark"))
PACKAGES = tuple(HERE.package(need) for need in NEEDS if need.comes_with is None)
LOCAL = {"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake"}


def artifacts(given: GivenJars, needs: object = NEEDS) -> list[str]:
    return [need.artifact for need in missing(given, NEEDS)]


def test_the_jars_of_the_demo_are_all_that_is_needed() -> None:
    given = GivenJars(jars=JARS)
    assert artifacts(given) == []
    assert misfits(given, HERE, NEEDS) == ()
    assert missing(given, catalog_needs(IcebergEndpoint("lake", LOCAL))) == ()


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.artifact)
def test_each_jar_is_missed(need: object) -> None:
    rest = GivenJars(jars=tuple(jar for jar in JARS if not need.found_in(jar)))  # type: ignore[attr-defined]
    assert artifacts(rest) == [need.artifact]  # type: ignore[attr-defined]


def test_packages_bring_what_they_depend_on() -> None:
    assert artifacts(GivenJars(packages=PACKAGES)) == []
    assert misfits(GivenJars(packages=PACKAGES), HERE, NEEDS) == ()
    assert PACKAGES[0] == "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
    assert PACKAGES[2] == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"


def test_a_jar_of_any_name_is_known_by_its_classes() -> None:
    assert artifacts(GivenJars(jars=("/opt/all.jar",), classes=frozenset(need.entry for need in NEEDS))) == []


@pytest.mark.parametrize(
    ("name", "built_for"),
    [
        ("/j/iceberg-spark-runtime-3.5_2.12-1.12.0.jar", "is for Spark 3.5, Scala 2.12"),
        ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.12.0", "is for Spark 4.0, Scala 2.13"),
        ("/j/spark-sql-kafka-0-10_2.12-3.5.1.jar", "is for Scala 2.12"),
    ],
)
def test_a_jar_for_another_spark_is_named(name: str, built_for: str) -> None:
    given = GivenJars(jars=(name,)) if name.endswith(".jar") else GivenJars(packages=(name,))
    (one,) = misfits(given, HERE, NEEDS)
    assert one == f"{name.rpartition('/')[2]} {built_for}"


@pytest.mark.parametrize(
    ("properties", "wanted"),
    [
        (LOCAL, ["sqlite-jdbc"]),
        (
            {"type": "sql", "uri": "postgresql+psycopg2://db/lake", "warehouse": "s3://b/w"},
            ["postgresql", "iceberg-aws-bundle"],
        ),
        ({"type": "rest", "uri": "https://catalog", "warehouse": "lake"}, []),
        ({"type": "rest", "uri": "https://catalog", "warehouse": "abfss://b/w"}, ["iceberg-azure-bundle"]),
    ],
)
def test_what_a_catalog_needs(properties: dict[str, str], wanted: list[str]) -> None:
    assert [need.artifact for need in catalog_needs(IcebergEndpoint("lake", properties))] == wanted
