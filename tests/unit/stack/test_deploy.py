"""The image and the values for Airflow's chart: what can be checked of them without an engine or a cluster."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_cdc.config.registry import load_registry
from airflow_cdc.config.settings import OPTIONS
from tests.paths import ROOT

VALUES = ROOT / "deploy" / "airflow-chart-values.yaml"
DOCKERFILE = (ROOT / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    return dict(yaml.safe_load(VALUES.read_text()))


def test_the_options_are_those_of_the_provider(values: dict[str, Any]) -> None:
    assert set(values["config"]["cdc"]) <= {option.name for option in OPTIONS}


def test_reports_lie_where_every_component_can_read_them(values: dict[str, Any]) -> None:
    assert re.match(r"[a-z0-9]+://", values["config"]["cdc"]["report_dir"])


def test_the_pipelines_are_mounted_where_they_are_looked_for(values: dict[str, Any]) -> None:
    (mount,) = values["volumeMounts"]
    (volume,) = values["volumes"]
    assert mount["name"] == volume["name"]
    assert Path(values["config"]["cdc"]["registry"]).parent == Path(mount["mountPath"])
    assert set(values["extraConfigMaps"]) == {volume["configMap"]["name"]}


def test_the_pipelines_can_be_read(values: dict[str, Any], tmp_path: Path) -> None:
    (held,) = values["extraConfigMaps"].values()
    files = yaml.safe_load(held["data"])
    registry = tmp_path / Path(values["config"]["cdc"]["registry"]).name
    registry.write_text(files[registry.name])
    assert list(load_registry(registry)) == ["shop"]


def test_the_dags_are_where_the_image_has_them(values: dict[str, Any]) -> None:
    (copied,) = re.findall(r"^COPY .*\. (\S+)$", DOCKERFILE, re.MULTILINE)
    assert values["config"]["core"]["dags_folder"] == f"{copied}/dags"
    assert (ROOT / "dags").is_dir()


def test_the_image_takes_the_pinned_versions() -> None:
    (install,) = re.findall(r"^RUN pip install .*$", DOCKERFILE, re.MULTILINE)
    assert "--constraint /opt/project/constraints.txt" in install
    assert ".dockerignore" in {path.name for path in ROOT.iterdir()}, "or build/ and .venv would go along"
