"""Stored reports: what commands read instead of asking a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_cdc.config import settings
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.reports.store import ReportStore, safe
from airflow_cdc.reports.stored import known_to_differ, verified_through


def store() -> ReportStore:
    """The report folder of this installation."""
    return ReportStore(settings.report_dir())


def folder(pipeline: str, run_id: str = "") -> str:
    """Where the reports of a pipeline, or of one of its runs, are stored."""
    return store().location(pipeline, safe(run_id)).rstrip("/")


def load(pipeline: str, run_id: str) -> RecoveryReport | None:
    """The report of a run, or None if it has none. Raises CdcError when it can't be read."""
    return store().report(pipeline, run_id)


def load_json(pipeline: str, run_id: str, name: str) -> Any:
    """A JSON file beside the report of a run, or None if there is none. Raises CdcError when it can't be read."""
    return store().json(pipeline, run_id, name)


def differs(pipeline: str) -> tuple[str, ...]:
    """The tables of a pipeline that are known to differ from their source."""
    return known_to_differ(store().runs(pipeline))


def verified(pipeline: str) -> Mapping[str, str]:
    """Table → the source's time (ISO) up to which main was proven equal."""
    return verified_through(store().runs(pipeline))


def newest(pipeline: str) -> str | None:
    """The run whose report was written last, or None."""
    runs = store().runs(pipeline)
    return runs[0].run_id if runs else None
