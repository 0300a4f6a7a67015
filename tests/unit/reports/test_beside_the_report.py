"""What steps and drivers write beside a report goes where the report goes, also by the connection that its URL names."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_cdc.flows import checks
from airflow_cdc.hooks import report_folder
from airflow_cdc.reports.store import ReportStore

URL = "s3://reports@bucket/cdc/run"


def test_a_file_beside_the_report_is_written_by_the_connection_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_folder, "opened", lambda _url: (MemoryFileSystem(), "/bucket/cdc/run"))
    monkeypatch.setattr(checks, "report_folder", lambda _run: URL)
    assert checks.store_json(Mock(), "rows/of_a_table.json", "é") == f"{URL}/rows/of_a_table.json"
    assert ReportStore(URL).read("rows", "of_a_table.json") == '"é"'.encode()
