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
    """The address a browser opens for a page at `location`.

    Under `[cdc] report_url` where that is set, else on this provider's own page in Airflow. A report that is kept outside
    `[cdc] report_dir` is not served there: its own address is all there is.
    """
    base, root = settings.report_url(), settings.report_dir(report_dir)
    if base and location.startswith(f"{root}/"):
        return f"{base}/{location[len(root) + 1 :]}"
    served = settings.report_dir()
    if location.startswith(f"{served}/"):
        return settings.airflow_url() + _page_path(location[len(served) + 1 :])
    return location if "://" in location else PurePosixPath(location).as_uri()


def runbook_url(code: str) -> str:
    """The address at which a browser shows what to do about a problem: the runbook on this provider's page in Airflow."""
    from airflow_cdc.core.problem import (
        runbook,  # heavy, and this module is loaded whenever a DAG file is parsed
    )

    return f"{settings.airflow_url()}{PAGE_PREFIX}/{runbook(code)}"


def _page_path(below: str) -> str:
    """`<pipeline>/<run>/report.html` as the run's page; anything else beside it as a file of the run."""
    pipeline, run, *rest = below.split("/")
    page = f"{PAGE_PREFIX}/pipelines/{quote(pipeline)}/runs/{quote(run)}"
    return page if rest == [REPORT_PAGE] else "/".join((page, "files", *map(quote, rest)))


class _PageLink(BaseOperatorLink):
    """A link to the page whose location the task's step returned under `key`.

    Airflow asks once, in the task's own process, when the task has ended, and keeps the answer.
    """

    key: str = ""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow calls it so
        location = getattr(operator, "facts", {}).get(self.key)
        return web_address(str(location), getattr(operator, "report_dir", None)) if location else ""


class ReportLink(_PageLink):
    """The page a person reads: what was lost, what was done, what was compared."""

    name = "Recovery report"
    key = REPORT_KEY


class DataDocsLink(_PageLink):
    """What Great Expectations checked on the branch before it was published."""

    name = "Data Docs"
    key = DATA_DOCS_KEY
