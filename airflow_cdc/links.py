"""Extra links of the tasks: the recovery's report and Great Expectations' Data Docs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink

from airflow_cdc.config import settings
from airflow_cdc.names import PAGE_PREFIX, REPORT_PAGE

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

REPORT_KEY = "page"
DATA_DOCS_KEY = "data_docs"


def web_address(location: str, report_dir: str | None = None) -> str:
    """The URL at which a browser opens a page at `location`.

    It is under `[cdc] report_url` if that is set, else on this provider's own page in Airflow. A report stored outside
    `[cdc] report_dir` is not served there, so its own location is returned.
    """
    base, root = settings.report_url(), settings.report_dir(report_dir)
    if base and location.startswith(f"{root}/"):
        return f"{base}/{location[len(root) + 1 :]}"
    served = settings.report_dir()
    if location.startswith(f"{served}/"):
        return settings.airflow_url() + _page_path(location[len(served) + 1 :])
    return location if "://" in location else PurePosixPath(location).as_uri()


def runbook_url(code: str) -> str:
    """The URL of a problem's runbook on this provider's page in Airflow."""
    from airflow_cdc.core.problem import (
        runbook,  # slow to import, and every parse of a DAG file loads this module
    )

    return f"{settings.airflow_url()}{PAGE_PREFIX}/{runbook(code)}"


def _page_path(below: str) -> str:
    """`<pipeline>/<run>/report.html` as the run's page; any other file as a file of the run."""
    pipeline, run, *rest = below.split("/")
    page = f"{PAGE_PREFIX}/pipelines/{quote(pipeline)}/runs/{quote(run)}"
    return page if rest == [REPORT_PAGE] else "/".join((page, "files", *map(quote, rest)))


class _PageLink(BaseOperatorLink):
    """A link to the page whose location the task's step returned under `key`.

    Airflow asks once, in the task's own process after the task has ended, and stores the answer.
    """

    key: str = ""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow calls it so
        location = getattr(operator, "facts", {}).get(self.key)
        return web_address(str(location), getattr(operator, "report_dir", None)) if location else ""


class ReportLink(_PageLink):
    """The report for people: what was lost, what was done, what was compared."""

    name = "Recovery report"
    key = REPORT_KEY


class DataDocsLink(_PageLink):
    """Great Expectations' checks of the stage before it was published."""

    name = "Data Docs"
    key = DATA_DOCS_KEY
