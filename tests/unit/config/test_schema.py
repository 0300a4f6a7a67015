"""The JSON schema of pipelines.yaml is what the code declares, and agrees with what the registry reads."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from airflow_cdc.config import schema
from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.errors import ConfigError
from tests.paths import ROOT

FILE = ROOT / "docs" / "reference" / "pipelines.schema.json"
GOOD: dict[str, Any] = {
    "source": {"kind": "mysql", "conn_id": "m", "tables": ["shop.orders"]},
    "connector": {"kind": "debezium", "conn_id": "c", "name": "shop"},
    "transport": {"kind": "kafka", "conn_id": "k"},
    "sink": {"kind": "iceberg", "catalog": "lake", "namespace": "shop"},
    "policy": {"max_lag": "1h 30m", "max_deletes": "1%", "hold": {"mode": False, "max": 60}, "notify": ["ops"]},
    "backfill": {"table": "shop.orders", "by": "day"},
    "owner": "crm",
    "tags": ["gold"],
}
CHANGES: list[tuple[str, Any, bool]] = [
    ("", None, True),
    ("source.kind", "oracle", False),
    ("source.tables", [], False),
    ("source.tables", ["orders"], False),
    ("source.tables", ["shop.orders", "shop.my table"], True),
    ("source.conn_id", "", False),
    ("source.conn_id", 7, False),
    ("sink.namespace", "1shop", False),
    ("sink.colour", "red", False),
    ("policy.approval", "sometimes", False),
    ("policy.approval", "never", True),
    ("policy.max_lag", "soon", False),
    ("policy.max_lag", 90, True),
    ("policy.max_lag", -1, False),
    ("policy.max_deletes", 1000, True),
    ("policy.max_deletes", "many", False),
    ("policy.report_rows", "yes", False),
    ("policy.reread_limit", 1.5, False),
    ("policy.hold.mode", "required", True),
    ("policy.alert", {"unknown_for": "5m"}, True),
    ("policy.alert", {"unknown": "5m"}, False),
    ("backfill", [{"table": "shop.orders", "by": "day"}], True),
    ("tags", "gold", False),
    ("owner", 7, False),
    ("colour", "red", False),
]


def test_the_file_is_what_the_code_says() -> None:
    assert FILE.read_text() == schema.text(), "run: make reference"


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema())


@pytest.mark.parametrize(
    "path", [*sorted(ROOT.glob("examples/*.yaml")), ROOT / "airflow_cdc/templates/pipelines.yaml"], ids=lambda p: p.name
)
def test_our_own_files_fit(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    if "pipelines" in document:
        jsonschema.validate(document, schema.schema())


@pytest.mark.parametrize(("key", "value", "allowed"), CHANGES)
def test_it_agrees_with_the_registry(key: str, value: Any, allowed: bool, tmp_path: Path) -> None:
    pipeline = copy.deepcopy(GOOD)
    *above, last = key.split(".")
    inner = pipeline
    for name in above:
        inner = inner[name]
    if key:
        inner[last] = value
    document = {"pipelines": {"shop": pipeline}}
    file = tmp_path / "pipelines.yaml"
    file.write_text(yaml.safe_dump(document))
    assert jsonschema.Draft202012Validator(schema.schema()).is_valid(document) is allowed
    try:
        load_registry(file)
    except ConfigError:
        assert not allowed
    else:
        assert allowed
