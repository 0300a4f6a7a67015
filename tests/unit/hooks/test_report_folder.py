"""The connection of a report folder: who opens it, what a driver is told, and what is missing."""

from __future__ import annotations

import pytest

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.hooks.report_folder import NO_DATABASE, for_driver, opened
from airflow_cdc.reports.store import ReportStore, connection_of


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("s3://reports@bucket/cdc", "reports"),
        ("s3://bucket/cdc", ""),
        ("/srv/reports", ""),
        ("abfs://container@account.dfs.core.windows.net/cdc", ""),
        ("abfs://reports@container/cdc", "reports"),
    ],
)
def test_the_connection_of_a_url(url: str, name: str) -> None:
    assert connection_of(url) == name


def test_only_a_named_connection_is_told_to_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    assert for_driver("s3://bucket/cdc") == {}
    monkeypatch.setenv("AIRFLOW_CONN_REPORTS", '{"conn_type": "aws", "login": "k", "password": "p/w"}')
    told = for_driver("s3://reports@bucket/cdc")
    assert set(told) == {"AIRFLOW_CONN_REPORTS", *NO_DATABASE}
    assert told["AIRFLOW_CONN_REPORTS"].startswith("aws://k:p%2Fw@")
    with pytest.raises(ConfigError, match="connection 'others' is not defined"):
        for_driver("s3://others@bucket/cdc")


def test_other_stores_are_opened_by_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_REPORTS", '{"conn_type": "generic"}')
    with pytest.raises(ConfigError, match=r"can't open gs:// with a connection.*Install Airflow's provider"):
        opened("gs://reports@bucket/cdc")
    with pytest.raises(ConfigError, match="can't open gs://"):
        ReportStore("gs://reports@bucket/cdc").read("x")
