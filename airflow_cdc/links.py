"""Extra links of the tasks: the recovery's report and Great Expectations' Data Docs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

from airflow_cdc import settings

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

REPORT_KEY = "page"
DATA_DOCS_KEY = "data_docs"


def web_address(location: str, report_dir: str | None = None) -> str:
    """The address a browser opens for a page at `location`: under `[cdc] report_url` where that is set."""
    base, root = settings.report_url(), settings.report_dir(report_dir)
    if base and location.startswith(f"{root}/"):
        return f"{base}/{location[len(root) + 1 :]}"
    return location if "://" in location else PurePosixPath(location).as_uri()


class _StoredLink(BaseOperatorLink):
    """A link whose address a task stored in XCom under `key`; empty until it has."""

    key: str = ""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow calls it so
        return str(XCom.get_value(ti_key=ti_key, key=self.key) or "")


class ReportLink(_StoredLink):
    """The page a person reads: what was lost, what was done, what was compared."""

    name = "Recovery report"
    key = REPORT_KEY


class DataDocsLink(_StoredLink):
    """What Great Expectations checked on the branch before it was published."""

    name = "Data Docs"
    key = DATA_DOCS_KEY
