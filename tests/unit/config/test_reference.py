"""The configuration reference says what the code declares, and Airflow lists the same options."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_cdc.config import reference, settings
from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.amounts import parse_duration, written
from airflow_cdc.core.pipeline import AlertPolicy, BackfillSpec, HoldPolicy, Pipeline, Policy, SparkSpec, ThrottlePolicy
from airflow_cdc.core.settings import declared
from airflow_cdc.kinds import WINGS
from airflow_cdc.provider_info import get_provider_info
from tests.paths import ROOT
from tests.unit.conftest import REGISTRY

PAGE = ROOT / "docs" / "reference" / "configuration.md"


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == reference.page(), "run: make reference"


def test_airflow_lists_the_options_that_are_declared() -> None:
    listed = get_provider_info()["config"]["cdc"]["options"]
    assert list(listed) == [option.name for option in settings.OPTIONS]
    assert all(f"| `{name}` |" in PAGE.read_text() for name in listed)


def test_every_option_that_is_read_is_declared() -> None:
    """Reading one that is not is an error as soon as it is read, so here all are."""
    read = set(re.findall(r'_(?:get|schedule)\("(\w+)"\)', inspect.getsource(settings)))
    assert read == {option.name for option in settings.OPTIONS}


def test_an_example_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in settings.OPTIONS:
        monkeypatch.setenv(option.variable, option.example)
    assert settings.spark_conf() == {"spark.driver.memory": "2g"}
    assert settings.cli_users() == "shell"
    assert str(settings.registry_path()) == "/etc/airflow/pipelines.yaml"


def test_every_key_of_the_registry_is_described() -> None:
    kinds = [wing[name] for wing in WINGS.values() for name in wing.built_in]
    classes = [Pipeline, Policy, HoldPolicy, ThrottlePolicy, AlertPolicy, BackfillSpec, SparkSpec]
    classes += [kind.settings for kind in kinds]
    keys = [key for cls in classes for key in declared(cls)]
    assert len(keys) > 30
    assert [key.name for key in keys if not key.key.description] == []
    rows = re.findall(r"^\| `(?:[a-z_]+\.)*([a-z_]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert {key.name for key in keys} <= set(rows)


def test_every_default_of_the_page_may_be_written_in_a_registry(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `policy\.([a-z_.]+)` \|.*\| `([^`|]+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) >= 15
    policy: dict[str, Any] = {}
    for key, default in rows:
        *above, name = key.split(".")
        part = policy
        for one in above:
            part = part.setdefault(one, {})
        part[name] = yaml.safe_load(default)
    registry = yaml.safe_load(REGISTRY)
    registry["pipelines"]["shop"]["policy"] = policy
    (tmp_path / "pipelines.yaml").write_text(yaml.safe_dump(registry))
    without = {name: one for name, one in yaml.safe_load(REGISTRY)["pipelines"]["shop"].items() if name != "policy"}
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump({"pipelines": {"shop": without}}))
    as_written, left_out = (load_registry(tmp_path / name)["shop"] for name in ("pipelines.yaml", "plain.yaml"))
    assert as_written.policy == left_out.policy


@pytest.mark.parametrize("seconds", [0, 45, 60, 90, 600, 5400, 86400, 90061])
def test_a_written_duration_is_read_as_the_same_length(seconds: int) -> None:
    assert parse_duration(written(seconds)) == seconds
