"""Fixtures that need no server: everything lives in tmp_path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_cdc.sinks.iceberg.client import Lake
from tests.contract.lakes import COLUMNS, lake_in


@pytest.fixture
def staging() -> str:
    """How stages are made; a module that tests both ways has a fixture of its own."""
    return "auto"


@pytest.fixture
def lake(tmp_path: Path, staging: str) -> Iterator[Lake]:
    """An empty lake."""
    new_lake = lake_in(tmp_path, staging=staging)
    yield new_lake
    new_lake.close()


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """A lake with an empty table shop.orders (id bigint, a string, b int)."""
    lake.ensure_table("shop", "orders", COLUMNS)
    return lake
