"""Stored reports: what pages and commands read instead of asking a source."""

from __future__ import annotations

import json
from typing import Any

from airflow_cdc import settings
from airflow_cdc.core.errors import MALFORMED, CdcError
from airflow_cdc.core.report import RecoveryReport

FILE = "report.json"


def _files(location: str) -> Any:
    import fsspec

    return fsspec.filesystem(location.split("://", 1)[0] if "://" in location else "file")


def safe(run_id: str) -> str:
    """A run id as the name of its report's folder."""
    return run_id.replace(":", "_").replace("+", "_").replace("/", "_")


def folder(pipeline: str, run_id: str = "") -> str:
    """Where the reports of a pipeline, or of one of its runs, are stored."""
    return f"{settings.report_dir()}/{pipeline}/{safe(run_id)}".rstrip("/")


def load(pipeline: str, run_id: str) -> RecoveryReport | None:
    """The report of a run, or None if it has none. Raises CdcError when it can't be read."""
    found = load_json(pipeline, run_id, FILE)
    try:
        return None if found is None else RecoveryReport.from_json(found)
    except (CdcError, *MALFORMED) as error:
        raise _unreadable(error, f"{folder(pipeline, run_id)}/{FILE}") from error


def load_json(pipeline: str, run_id: str, name: str) -> Any:
    """A JSON file beside the report of a run, or None if there is none. Raises CdcError when it can't be read."""
    location = f"{folder(pipeline, run_id)}/{name}"
    files = _files(location)
    if not files.exists(location):
        return None
    try:
        with files.open(location, "r") as source:
            return json.load(source)
    except ValueError as error:
        raise _unreadable(error, location) from error


def _unreadable(error: Exception, location: str) -> CdcError:
    return CdcError(f"the report can't be read: {type(error).__name__}", where=location)


def newest(pipeline: str) -> str | None:
    """The run whose report was written last, or None."""
    root = folder(pipeline)
    files = _files(root)
    if not files.exists(root):
        return None
    found = {str(path): files.modified(path) for path in files.glob(f"{root}/*/{FILE}")}
    return max(found, key=lambda path: found[path]).split("/")[-2] if found else None
