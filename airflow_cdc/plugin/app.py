"""The web application of the page: it reads stored observations and reports, and never connects to a source.

It changes nothing: every route is a GET, so there is nothing that a foreign site could make a signed-in browser do.
What changes a pipeline is triggered through Airflow's own form and API, which this page links to.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response, status
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException as AnyHTTPException

from airflow_cdc.config import settings
from airflow_cdc.config.registry import load_unchanged
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.names import RECOVERY_DAG_ID, main_dag_id
from airflow_cdc.plugin import PREFIX, view
from airflow_cdc.plugin.colour import VERDICTS
from airflow_cdc.reports.page import environment, report_values
from airflow_cdc.reports.runbook import runbook_codes, runbook_html
from airflow_cdc.reports.store import ReportStore, safe

DATA_DOCS = ("data_docs", "index.html")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# what Great Expectations wrote is shown as a foreign document: no script, no cookie, no origin of its own
SANDBOX = {
    **HEADERS,
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
}
KINDS = {".html": "text/html; charset=utf-8", ".json": "application/json"}


def may_open(request: Request, user: GetUserDep) -> None:
    """Whoever may read the DAG that recovers may open the page."""
    requires_access_dag("GET", param_dag_id=RECOVERY_DAG_ID)(request, user)


def may_read(request: Request, pipeline: str, user: GetUserDep) -> str:
    """A pipeline's facts are for those who may read its DAG: reports name keys of its rows."""
    declared = _registered().get(pipeline)
    has_sink = declared is None or declared.has_sink
    requires_access_dag("GET", param_dag_id=main_dag_id(pipeline, has_sink=has_sink))(request, user)
    if declared is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"There is no pipeline {pipeline} in pipelines.yaml.")
    return pipeline


PipelineDep = Annotated[str, Depends(may_read)]


@cache
def page() -> FastAPI:
    """The application, built once per process."""
    app = FastAPI(title="CDC pipelines", docs_url=None, redoc_url=None, openapi_url=None)
    guarded = [Depends(may_open)]
    app.get("/", dependencies=guarded)(overview)
    app.get("/runbook", dependencies=guarded)(runbook)
    app.get("/pipelines/{pipeline}", dependencies=guarded)(timeline)
    app.get("/pipelines/{pipeline}/runs/{run}", dependencies=guarded)(report)
    app.get("/pipelines/{pipeline}/runs/{run}/files/{path:path}", dependencies=guarded)(stored_file)
    app.add_exception_handler(AnyHTTPException, _refused)
    app.add_exception_handler(CdcError, _failed)
    return app


def overview(
    request: Request,
    user: GetUserDep,
    q: Annotated[str, Query(max_length=200)] = "",
    state: Annotated[str, Query(max_length=10)] = "",
    page: int = 1,
) -> Response:
    """The pipelines that the user may read, the worst first: those that fit a search, a page at a time."""
    sinkless = {name for name, one in _registered().items() if not one.has_sink}
    rows = view.overview(_store(), _readable(user), datetime.now(UTC), sinkless)
    found = view.listing(rows, q.strip(), state, page)
    return _html(request, "overview.html.j2", any_rows=bool(rows), found=found, counts=view.counts(rows))


def timeline(request: Request, pipeline: PipelineDep) -> Response:
    """One pipeline: its positions, its evidence, and what happened to it."""
    one = view.row(_store(), pipeline, datetime.now(UTC), has_sink=_registered()[pipeline].has_sink)
    return _html(
        request,
        "pipeline.html.j2",
        row=one,
        events=view.timeline(one),
        declared=_registered()[pipeline],
        runbook=runbook_html(one.code),
    )


def runbook(request: Request) -> Response:
    """What to do about each problem: commands, tasks and notifications link here, to the section of a code."""
    return _html(request, "runbook.html.j2", sections={code: runbook_html(code) for code in runbook_codes()})


def report(request: Request, pipeline: PipelineDep, run: str) -> Response:
    """One run's report; `run` is its id, or the name of its folder."""
    store, folder = _store(), safe(_plain(run))
    found = store.report(pipeline, folder)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"Run {run} of {pipeline} has left no report.")
    docs = "/".join(DATA_DOCS) if store.read(pipeline, folder, *DATA_DOCS) is not None else ""
    dag_id = next((one.dag_id for one in store.runs(pipeline) if one.folder == folder), "")
    values = report_values(found, store.rows(found))
    return _html(request, "run.html.j2", folder=folder, data_docs=docs, dag_id=dag_id, **values)


def stored_file(pipeline: PipelineDep, run: str, path: str) -> Response:
    """A file beside a report, such as the Data Docs."""
    parts = PurePosixPath(path).parts
    kind = KINDS.get(PurePosixPath(path).suffix)
    found = _store().read(pipeline, _plain(run), *map(_plain, parts)) if kind and parts else None
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such file beside this report.")
    return Response(found, media_type=kind, headers=SANDBOX)


def _plain(part: str) -> str:
    """One name of a path. Raises 404 for what would lead elsewhere."""
    if part.startswith(".") or not part or "/" in part or "\\" in part or not part.isprintable():
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such run.")
    return part


def _readable(user: Any) -> list[str]:
    """The pipelines whose DAG the user may read."""
    manager = get_auth_manager()
    by_dag = {main_dag_id(name, has_sink=one.has_sink): name for name, one in _registered().items()}
    teams = DagModel.get_dag_id_to_team_name_mapping(list(by_dag))
    return [
        name
        for dag_id, name in by_dag.items()
        if manager.is_authorized_dag(
            method="GET", details=DagDetails(id=dag_id, team_name=teams.get(dag_id)), user=user
        )
    ]


def _store() -> ReportStore:
    return ReportStore(settings.report_dir())


def _registered() -> dict[str, Pipeline]:
    return load_unchanged(settings.registry_path())


def _html(request: Request, template: str, answer: int = status.HTTP_200_OK, **values: Any) -> Response:
    here = str(request.scope.get("root_path", "")).rstrip("/")
    made = environment().get_template(template)
    text = made.render(here=here, airflow=here.removesuffix(PREFIX), **_HELPERS, **values)
    return HTMLResponse(text, status_code=answer, headers=HEADERS)


def _dag_url(dag_id: str, run_id: str = "") -> str:
    """The path of a DAG, or of one of its runs, below Airflow's own address."""
    base = f"/dags/{quote(dag_id, safe='')}"
    return f"{base}/runs/{quote(run_id, safe='')}" if run_id else base


_HELPERS: dict[str, Any] = {
    "clock": view.clock,
    "size": view.size,
    "dag_url": _dag_url,
    "verdicts": {str(verdict): colour for verdict, colour in VERDICTS.items()},
}


def _refused(request: Request, error: Exception) -> Response:
    """401, 403, 404 and 405 as pages that say what to do."""
    code = getattr(error, "status_code", status.HTTP_500_INTERNAL_SERVER_ERROR)
    login = get_auth_manager().get_url_login(next_url=str(request.url)) if code == status.HTTP_401_UNAUTHORIZED else ""
    said = _SAID.get(code) or str(getattr(error, "detail", "The request failed."))
    answer = _html(request, "error.html.j2", code, code=code, said=said, login=login)
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


def _failed(request: Request, error: Exception) -> Response:
    return _html(request, "error.html.j2", 500, code=500, said=str(error), login="")


_SAID = {
    401: "You are not signed in to Airflow.",
    403: f"You may not read this: it needs the right to read the DAG {RECOVERY_DAG_ID}, and of a pipeline its apply DAG.",
    405: "This page only shows. Trigger the DAG cdc_recovery in Airflow to change something.",
}
