"""The configuration reference says what the code declares, and Airflow lists the same options."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from airflow_cdc.config import reference, registry, settings
from airflow_cdc.provider_info import get_provider_info

ROOT = Path(__file__).parents[2]
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


def models(model: type[BaseModel]) -> list[type[BaseModel]]:
    below = [part for part in vars(registry).values() if inspect.isclass(part) and issubclass(part, BaseModel)]
    return [part for part in below if part.__module__ == registry.__name__ and part.model_fields]


def test_every_key_of_the_registry_is_described() -> None:
    fields: list[tuple[str, Any]] = [pair for model in models(BaseModel) for pair in model.model_fields.items()]
    assert len(fields) > 30
    assert [name for name, field in fields if not field.description] == []
    rows = re.findall(r"^\| `(?:[a-z_]+\.)*([a-z_]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert {name for name, _ in fields} <= set(rows)
