"""docker-compose.yaml is the stack's topology: valid Compose, and the same versions, ports and settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from stack import connect, kafka, mysql, versions
from stack.fetch import jars_of
from stack.mysql import CDC_PRIVILEGES, DEBEZIUM_PRIVILEGES, MySqlSettings
from stack.ports import COMPOSE_PORTS, HOST
from tests.paths import ROOT

SCHEMA = ROOT / "tests" / "data" / "compose-spec.json"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / "docker-compose.yaml").read_text()))


def properties(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if line.strip())


def base_image(dockerfile: Path) -> str:
    return str(re.findall(r"^FROM (\S+)$", dockerfile.read_text(), re.MULTILINE)[-1])


def test_it_is_valid_compose(compose: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(compose)


def test_the_schema_can_refuse(compose: dict[str, Any]) -> None:
    broken = {**compose, "services": {"mysql": {**compose["services"]["mysql"], "imagee": "x"}}}
    with pytest.raises(jsonschema.ValidationError, match="imagee"):
        jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(broken)


def test_images_are_the_versions_of_the_stack(compose: dict[str, Any]) -> None:
    def image(service: dict[str, Any]) -> str:
        return str(service.get("image") or base_image(ROOT / service["build"]["dockerfile"]))

    assert {name: image(service) for name, service in compose["services"].items()} == versions.IMAGES


def test_airflow_and_spark_versions_are_those_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert f"apache-airflow=={versions.AIRFLOW}" in pins
    assert f"pyspark=={versions.SPARK}" in pins


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert published == {name: [f"{HOST}:{port}:{port}"] for name, port in COMPOSE_PORTS.items()}


def test_mysql_runs_with_the_settings_of_the_stack(compose: dict[str, Any]) -> None:
    given = dict(word.removeprefix("--").split("=", 1) for word in compose["services"]["mysql"]["command"])
    assert given.pop("default-authentication-plugin") == "mysql_native_password"
    assert given == mysql.server_settings(MySqlSettings(series="8.0"))


def test_mysql_users_have_the_same_least_privileges(compose: dict[str, Any]) -> None:
    grants = dict(re.findall(r"GRANT (.+) ON \*\.\* TO '(\w+)'", compose["configs"]["users"]["content"]))
    assert {user: tuple(privileges.split(", ")) for privileges, user in grants.items()} == {
        "cdc": CDC_PRIVILEGES,
        "debezium": DEBEZIUM_PRIVILEGES,
    }


def test_kafka_runs_with_the_settings_of_the_stack(compose: dict[str, Any]) -> None:
    environment = compose["services"]["kafka"]["environment"]
    wanted = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in kafka.SETTINGS.items()}
    assert {name: environment.get(name) for name in wanted} == wanted
    assert environment["KAFKA_HEAP_OPTS"] == f"-Xmx{kafka.HEAP}"


def test_connect_runs_with_the_settings_of_the_stack(compose: dict[str, Any]) -> None:
    given = properties(compose["configs"]["connect"]["content"])
    assert {name: given.get(name) for name in connect.SETTINGS} == connect.SETTINGS
    assert compose["services"]["connect"]["environment"]["KAFKA_HEAP_OPTS"] == f"-Xmx{connect.HEAP}"
    assert f":{COMPOSE_PORTS['connect']}" in given["listeners"]


def test_spark_gets_every_locked_jar(compose: dict[str, Any]) -> None:
    given = compose["services"]["airflow"]["environment"]["AIRFLOW__CDC__SPARK_JARS"].split(",")
    assert given == [f"/opt/jars/{name}" for name in sorted(jar.file_name for jar in jars_of("spark"))]


def test_connections_are_json_and_lead_to_the_services(compose: dict[str, Any]) -> None:
    environment = compose["services"]["airflow"]["environment"]
    made = {name: json.loads(text) for name, text in environment.items() if name.startswith("AIRFLOW_CONN_")}
    hosts = {name: str(value.get("host", "")).removeprefix("spark://") for name, value in made.items()}
    assert {host for host in hosts.values() if host} == {"mysql", "connect", "spark-master"}
    assert made["AIRFLOW_CONN_SHOP_KAFKA"]["extra"]["bootstrap.servers"] == "kafka:19092"


def test_no_password_stands_in_the_file() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    assert not re.search(r"(?i)password\"?[:=] *\"?(?!\$\{)[a-z0-9]", text.replace("mysql_native_password", ""))
