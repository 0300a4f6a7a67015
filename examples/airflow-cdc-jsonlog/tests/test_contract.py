"""The suites of airflow_cdc.testing, against a real folder."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow_cdc_jsonlog.client import JsonLogEndpoint
from airflow_cdc_jsonlog.codec import JsonLogCodec
from airflow_cdc_jsonlog.position import JsonLogPosition

from airflow_cdc.core.kind import SourceKind
from airflow_cdc.core.position import Position
from airflow_cdc.kinds import SOURCES
from airflow_cdc.testing import KindContract, OffsetCodecContract, SourceBench, SourceContract


@dataclass(frozen=True, slots=True)
class Folder:
    """A log in a folder of its own."""

    path: Path

    @property
    def kind(self) -> SourceKind:
        return SOURCES["jsonlog"]

    @property
    def endpoint(self) -> JsonLogEndpoint:
        return JsonLogEndpoint(str(self.path))

    @property
    def newest(self) -> Path:
        return max(self.path.iterdir())

    def write(self) -> None:
        with self.newest.open("a") as file:
            file.write(json.dumps({"table": "shop.orders", "id": 1}) + "\n")

    def position(self) -> Position:
        return JsonLogPosition(int(self.newest.suffix[1:]), len(self.newest.read_text().splitlines()))

    def purge(self) -> None:
        old = list(self.path.iterdir())
        (self.path / f"log.{int(self.newest.suffix[1:]) + 1:06}").touch()
        for file in old:
            file.unlink()

    def busy(self, statements: int) -> AbstractContextManager[None]:
        raise NotImplementedError("a folder has no statements, and Spark does not read it")

    def unreachable(self) -> JsonLogEndpoint:
        return JsonLogEndpoint(str(self.path / "nowhere"))


@pytest.fixture
def bench(tmp_path: Path) -> SourceBench:
    (tmp_path / "log.000001").touch()
    return Folder(tmp_path)


class TestSource(SourceContract):
    """The folder does what every source does."""


class TestCodec(OffsetCodecContract):
    """What Debezium stores for the folder is read and checked as every offset is."""

    @pytest.fixture
    def codec(self) -> JsonLogCodec:
        return JsonLogCodec()

    @pytest.fixture
    def source(self) -> str:
        return "jsonlog"

    @pytest.fixture
    def stored(self) -> list[dict[str, Any]]:
        return [{"file": 1, "line": 9}, {"file": 1, "line": 10}, {"file": 2, "line": 0}]

    @pytest.fixture
    def malformed(self) -> list[dict[str, Any]]:
        return [{}, {"file": 1}, {"file": "log.000001", "line": 1}]


class TestKind(KindContract):
    """The kind is declared as every kind is."""

    @pytest.fixture
    def kind(self) -> SourceKind:
        return SOURCES["jsonlog"]

    @pytest.fixture
    def written(self) -> dict[str, Any]:
        return {"kind": "jsonlog", "conn_id": "c", "tables": ["shop.orders"]}

    @pytest.fixture
    def endpoint(self) -> JsonLogEndpoint:
        return JsonLogEndpoint("/data/log")

    @pytest.fixture
    def secrets(self) -> tuple[str, ...]:
        return ()
