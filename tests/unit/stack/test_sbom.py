"""The bill of materials is valid CycloneDX, and names what an installation of the provider has: no more, no less."""

from __future__ import annotations

import json
from importlib.metadata import distributions
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from airflow_cdc import __version__
from stack import sbom, versions
from tests.paths import ROOT

PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return dict(json.loads(sbom.document()))


def python_packages(made: dict[str, Any]) -> dict[str, str]:
    return {part["name"]: part["version"] for part in made["components"] if part["purl"].startswith("pkg:pypi/")}


def test_it_is_valid_and_the_check_can_refuse(made: dict[str, Any]) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(made)) is None
    assert validator.validate_str(json.dumps({**made, "components": [{"name": "x"}]})) is not None


def test_it_is_about_the_provider(made: dict[str, Any]) -> None:
    about = made["metadata"]["component"]
    assert (about["name"], about["version"]) == ("airflow-provider-cdc", __version__)


def test_what_the_provider_imports_is_in_it_by_the_pinned_version(made: dict[str, Any]) -> None:
    packages = python_packages(made)
    pins: dict[str, str] = {canonicalize_name(name): version for name, version in PINS.items()}
    for name in ("pymysql", "pyspark", "kafka-python", "great-expectations", "pyiceberg", "pika", "crc32c", "psycopg"):
        assert packages[name] == pins[name]


def test_what_only_its_developers_need_is_not(made: dict[str, Any]) -> None:
    """Every package here is in it, or is one that nothing of it names."""
    packages = python_packages(made)
    here = {canonicalize_name(one.metadata["Name"]) for one in distributions()}
    assert {"pytest", "ruff", "mypy", "django"} <= here - set(packages)
    assert set(packages) <= here


def test_the_drivers_jars_are_in_it_by_checksum(made: dict[str, Any]) -> None:
    jars = {part["name"]: part for part in made["components"] if part["purl"].startswith("pkg:maven/")}
    iceberg = jars[f"iceberg-spark-runtime-4.1_{versions.SCALA}"]
    assert iceberg["version"] == versions.ICEBERG
    assert f":{iceberg['hashes'][0]['content']}:spark" in (ROOT / "stack" / "jars.lock").read_text()


def test_everything_in_it_is_needed_by_something(made: dict[str, Any]) -> None:
    needed = {other for one in made["dependencies"] for other in one.get("dependsOn", ())}
    assert {part["bom-ref"] for part in made["components"]} - needed == set()
