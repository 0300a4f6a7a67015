"""The web application of the page: it reads stored observations and reports, and never connects to a source.

Its forms trigger a DAG as Airflow's own form does, in the user's name and with the permissions that Airflow requires,
or record that a problem was acknowledged; a request from a foreign site is refused (see forms).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response, status
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException as AnyHTTPException

from airflow_cdc.config import settings
from airflow_cdc.config.registry import Declared, load_unchanged
from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.kinds import titles_of_others
from airflow_cdc.names import RECOVERY_DAG_ID, REPAIR_DAG_ID, dag_id_for, main_dag_id
from airflow_cdc.plugin import PREFIX, view
from airflow_cdc.plugin.action import RECOVER_FORM, REPAIR_FORM
from airflow_cdc.plugin.colour import VERDICTS
from airflow_cdc.plugin.forms import (
    DURATIONS,
    Fields,
    choices_for,
    end_silences,
    form_token,
    refused_choices,
    sent_fields,
    silence,
    start_recovery,
    start_repair,
)
from airflow_cdc.plugin.running import APPROVE_TASK, running_runs
from airflow_cdc.reports.page import environment, report_values
from airflow_cdc.reports.runbook import runbook_codes, runbook_html
from airflow_cdc.reports.store import ReportStore, safe
from airflow_cdc.reports.stored import known_to_differ

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

DATA_DOCS = ("data_docs", "index.html")
# light or dark according to Airflow's own switch, which the browser stores; this one script is allowed by its hash
THEME = 'try{var t=localStorage.getItem("theme");if(t=="dark"||t=="light")document.documentElement.dataset.theme=t}catch(e){}'
_HASH = base64.b64encode(hashlib.sha256(THEME.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src 'sha256-{_HASH}'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# Great Expectations' pages are served as foreign documents: no script, no cookie, no origin of their own
SANDBOX = {
    **HEADERS,
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
}
KINDS = {".html": "text/html; charset=utf-8", ".json": "application/json"}


def may_open(request: Request, user: GetUserDep) -> None:
    """Users who may read the recovery DAG may open the page: of a pipeline with one of its own, that; of the overview, any."""
    pipeline = request.path_params.get("pipeline")
    ids = [_dag_id(pipeline, RECOVERY_DAG_ID)] if pipeline else _recovery_dags()
    for dag_id in ids[:-1]:
        if _may_read(user, dag_id):
            return
    requires_access_dag("GET", param_dag_id=ids[-1])(request, user)


def may_read(request: Request, pipeline: str, user: GetUserDep) -> str:
    """Only users who may read a pipeline's DAG may see its facts: reports name keys of its rows."""
    declared = _registered().get(pipeline)
    applied = declared is None or declared.is_applied
    requires_access_dag("GET", param_dag_id=main_dag_id(pipeline, applied=applied))(request, user)
    if declared is None:
        error = _registered().errors.get(pipeline)
        raise HTTPException(
            status.HTTP_404_NOT_FOUND, str(error or f"There is no pipeline {pipeline} in pipelines.yaml.")
        )
    return pipeline


def may_change(request: Request, pipeline: str, user: GetUserDep) -> None:
    """Users who may trigger the pipeline's recovery DAG may send the forms."""
    dag_id = _dag_id(pipeline, RECOVERY_DAG_ID)
    requires_access_dag("POST", DagAccessEntity.RUN, param_dag_id=dag_id)(request, user)


def may_repair(request: Request, pipeline: str, user: GetUserDep) -> None:
    """Users who may trigger the pipeline's repair DAG may start a repair."""
    dag_id = _dag_id(pipeline, REPAIR_DAG_ID)
    requires_access_dag("POST", DagAccessEntity.RUN, param_dag_id=dag_id)(request, user)


def _dag_id(pipeline: str, dag_id: str) -> str:
    """The pipeline's own DAG instead of `dag_id`, if it has one; a pipeline that is not declared has none."""
    declared = _registered().get(pipeline)
    return dag_id_for(declared, dag_id) if declared else dag_id


def _recovery_dags() -> list[str]:
    """All recovery DAGs, the one for all pipelines last."""
    own = {dag_id_for(one, RECOVERY_DAG_ID) for one in _registered().values()}
    return [*sorted(own - {RECOVERY_DAG_ID}), RECOVERY_DAG_ID]


PipelineDep = Annotated[str, Depends(may_read)]
FieldsDep = Annotated[Fields, Depends(sent_fields)]
SILENCE_FORM = "silence"


@cache
def page() -> FastAPI:
    """The application, built once per process."""
    app = FastAPI(title="CDC pipelines", docs_url=None, redoc_url=None, openapi_url=None)
    guarded = [Depends(may_open)]
    app.get("/", dependencies=guarded)(overview)
    app.get("/runbook", dependencies=guarded)(runbook)
    app.get("/pipelines/{pipeline}", dependencies=guarded)(timeline)
    for form in (RECOVER_FORM, REPAIR_FORM, SILENCE_FORM):
        app.get(f"/pipelines/{{pipeline}}/{form}", dependencies=guarded)(FORMS[form])
    acting = [*guarded, Depends(may_change)]
    app.post(f"/pipelines/{{pipeline}}/{RECOVER_FORM}", dependencies=acting)(recover)
    app.post(f"/pipelines/{{pipeline}}/{REPAIR_FORM}", dependencies=[*acting, Depends(may_repair)])(repair)
    app.post(f"/pipelines/{{pipeline}}/{SILENCE_FORM}", dependencies=acting)(acknowledge)
    app.post(f"/pipelines/{{pipeline}}/{SILENCE_FORM}/end", dependencies=acting)(end_silence)
    app.get("/pipelines/{pipeline}/runs/{run}", dependencies=guarded)(report)
    app.get("/pipelines/{pipeline}/runs/{run}/files/{path:path}", dependencies=guarded)(stored_file)
    app.add_exception_handler(AnyHTTPException, _refused)
    app.add_exception_handler(CdcError, _failed)
    return app


@dataclass(frozen=True, slots=True)
class Search:
    """The overview's search, from the query string."""

    q: Annotated[str, Query(max_length=200)] = ""
    state: Annotated[str, Query(max_length=10)] = ""
    owner: Annotated[str, Query(max_length=200)] = ""
    tag: Annotated[str, Query(max_length=200)] = ""
    page: int = 1


def overview(request: Request, user: GetUserDep, search: Annotated[Search, Depends()]) -> Response:
    """The pipelines that the user may read, the worst first; filtered by a search, a page at a time."""
    names = _readable(user)
    rows = view.overview(
        _store(), names, datetime.now(UTC), _registered(), running_runs([_registered()[name] for name in names])
    )
    rows += [view.misdeclared(name, str(error)) for name, error in _misdeclared(user).items()]
    listing = view.listing(rows, search.q.strip(), search.state, search.page, owner=search.owner, tag=search.tag)
    owners, tags = sorted({one.owner for one in rows if one.owner}), sorted({tag for one in rows for tag in one.tags})
    return _html(
        request,
        "overview.html.j2",
        any_rows=bool(rows),
        found=listing,
        owners=owners,
        tags=tags,
        counts=view.counts(rows),
    )


def _row(pipeline: str) -> view.Row:
    live = running_runs([_registered()[pipeline]]).get(pipeline)
    return view.row(_store(), pipeline, datetime.now(UTC), _registered()[pipeline], live)


def _with_form(request: Request, template: str, one: view.Row, **more: object) -> Response:
    """A page about one pipeline that has a form: with its declaration and the token that the form sends back."""
    declared, token = _registered()[one.name], form_token(request, one.name)
    return _html(request, template, row=one, declared=declared, token=token, **more)


def timeline(request: Request, pipeline: PipelineDep) -> Response:
    """One pipeline: its positions, its evidence and its history."""
    one = _row(pipeline)
    text = runbook_html(one.code, titles_of_others(_registered()[pipeline]))
    more = {"silences": _store().silences(pipeline), "events": view.timeline(one), "runbook": text}
    return _with_form(request, "pipeline.html.j2", one, **more)


def recover_form(request: Request, pipeline: PipelineDep) -> Response:
    """The form of a recovery, with the pipeline filled in and the strategies that can be carried out."""
    one, declared = _row(pipeline), _registered()[pipeline]
    choices = choices_for(one.seen, has_sink=declared.has_sink)
    return _with_form(request, "recover.html.j2", one, choices=choices, refused=refused_choices(one.seen))


def recover(request: Request, pipeline: PipelineDep, fields: FieldsDep, user: GetUserDep) -> Response:
    """Trigger cdc_recovery as the form says, and redirect to its run."""
    declared = _registered()[pipeline]
    offered = choices_for(_row(pipeline).seen, has_sink=declared.has_sink)
    run_id = start_recovery(declared, fields, offered, user.get_name())
    return _to_run(request, dag_id_for(declared, RECOVERY_DAG_ID), run_id)


def repair_form(request: Request, pipeline: PipelineDep) -> Response:
    """The form of a repair, with the pipeline filled in and the tables that are known to differ chosen."""
    one = _row(pipeline)
    return _with_form(request, "repair.html.j2", one, differs=known_to_differ(one.runs))


def repair(request: Request, pipeline: PipelineDep, fields: FieldsDep, user: GetUserDep) -> Response:
    """Trigger cdc_repair as the form says, and redirect to its run."""
    declared = _registered()[pipeline]
    return _to_run(request, dag_id_for(declared, REPAIR_DAG_ID), start_repair(declared, fields, user.get_name()))


def silence_form(request: Request, pipeline: PipelineDep) -> Response:
    """The form to acknowledge a problem or mute a pipeline."""
    return _with_form(request, "silence.html.j2", _row(pipeline), lengths=DURATIONS)


def acknowledge(request: Request, pipeline: PipelineDep, fields: FieldsDep, user: GetUserDep) -> Response:
    """Record who acknowledged the problem or muted the pipeline, until when and why."""
    silence(_store(), pipeline, _row(pipeline).code, fields, user.get_name())
    return _to_pipeline(request, pipeline)


def end_silence(request: Request, pipeline: PipelineDep, fields: FieldsDep, user: GetUserDep) -> Response:  # noqa: ARG001 - the fields are checked by their dependency
    """End the pipeline's current silences."""
    end_silences(_store(), pipeline, user.get_name())
    return _to_pipeline(request, pipeline)


FORMS = {RECOVER_FORM: recover_form, REPAIR_FORM: repair_form, SILENCE_FORM: silence_form}


def _to_run(request: Request, dag_id: str, run_id: str) -> Response:
    """Redirect to the run in Airflow; with 303 the browser uses GET."""
    return RedirectResponse(
        f"{_airflow(request)}{_dag_url(dag_id, run_id)}", status.HTTP_303_SEE_OTHER, headers=HEADERS
    )


def _to_pipeline(request: Request, pipeline: str) -> Response:
    url = f"{_here(request)}/pipelines/{quote(pipeline, safe='')}"
    return RedirectResponse(url, status.HTTP_303_SEE_OTHER, headers=HEADERS)


def runbook(request: Request) -> Response:
    """The runbook for each problem; commands, tasks and notifications link to a code's section here."""
    return _html(request, "runbook.html.j2", sections={code: runbook_html(code) for code in runbook_codes()})


def report(request: Request, pipeline: PipelineDep, run: str) -> Response:
    """One run's report; `run` is its id, or the name of its folder."""
    store, folder = _store(), safe(_plain(run))
    stored = store.report(pipeline, folder)
    if stored is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"Run {run} of {pipeline} has no report.")
    docs = "/".join(DATA_DOCS) if store.read(pipeline, folder, *DATA_DOCS) is not None else ""
    dag_id = next((one.dag_id for one in store.runs(pipeline) if one.folder == folder), "")
    values = report_values(stored, store.rows(stored))
    return _html(request, "run.html.j2", folder=folder, data_docs=docs, dag_id=dag_id, **values)


def stored_file(pipeline: PipelineDep, run: str, path: str) -> Response:
    """A file beside a report, such as the Data Docs."""
    parts = PurePosixPath(path).parts
    kind = KINDS.get(PurePosixPath(path).suffix)
    text = _store().read(pipeline, _plain(run), *map(_plain, parts)) if kind and parts else None
    if text is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "This report has no such file.")
    return Response(text, media_type=kind, headers=SANDBOX)


def _plain(part: str) -> str:
    """One component of a path. Raises 404 for one that would lead elsewhere."""
    if part.startswith(".") or not part or "/" in part or "\\" in part or not part.isprintable():
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such run.")
    return part


def _readable(user: BaseUser) -> list[str]:
    """The pipelines whose DAG the user may read."""
    by_dag = {main_dag_id(name, applied=one.is_applied): name for name, one in _registered().items()}
    teams = DagModel.get_dag_id_to_team_name_mapping(list(by_dag))
    return [name for dag_id, name in by_dag.items() if _may_read(user, dag_id, teams.get(dag_id))]


def _misdeclared(user: BaseUser) -> Mapping[str, ConfigError]:
    """The pipelines that are declared badly, with what is wrong; of those whose DAG, as far as can be told, the user may read."""
    errors = _registered().errors
    ids = {name: [main_dag_id(name, applied=applied) for applied in (True, False)] for name in errors}
    teams = DagModel.get_dag_id_to_team_name_mapping([one for both in ids.values() for one in both])
    return {
        name: errors[name] for name, both in ids.items() if all(_may_read(user, one, teams.get(one)) for one in both)
    }


def _may_read(user: BaseUser, dag_id: str, team: str | None = None) -> bool:
    details = DagDetails(id=dag_id, team_name=team)
    return get_auth_manager().is_authorized_dag(method="GET", details=details, user=user)


def _store() -> ReportStore:
    return ReportStore(settings.report_dir())


def _registered() -> Declared:
    return load_unchanged(settings.registry_path())


def _html(request: Request, template: str, answer: int = status.HTTP_200_OK, /, **values: object) -> Response:
    page = environment().get_template(template)
    text = page.render(here=_here(request), airflow=_airflow(request), theme=THEME, **_HELPERS, **values)
    return HTMLResponse(text, status_code=answer, headers=HEADERS)


def _here(request: Request) -> str:
    """The path of this page."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def _airflow(request: Request) -> str:
    """The path of Airflow itself."""
    return _here(request).removesuffix(PREFIX)


def _dag_url(dag_id: str, run_id: str = "", *, asks: bool = False) -> str:
    """The path of a DAG, of one of its runs, or of the run's question, below Airflow's own address."""
    base = f"/dags/{quote(dag_id, safe='')}"
    run = f"{base}/runs/{quote(run_id, safe='')}" if run_id else base
    return f"{run}/tasks/{APPROVE_TASK}/required_actions" if run_id and asks else run


_HELPERS: dict[str, object] = {
    "clock": view.clock,
    "size": view.size,
    "dag_url": _dag_url,
    "verdicts": {str(verdict): colour for verdict, colour in VERDICTS.items()},
}


def _refused(request: Request, error: Exception) -> Response:
    """401, 403, 404 and 405 as pages that say what to do."""
    code = getattr(error, "status_code", status.HTTP_500_INTERNAL_SERVER_ERROR)
    login = get_auth_manager().get_url_login(next_url=str(request.url)) if code == status.HTTP_401_UNAUTHORIZED else ""
    detail = str(getattr(error, "detail", "The request failed."))
    text = _SAID.get(code) or (f"{detail} {_RIGHTS}" if detail == "Forbidden" else detail)
    answer = _html(request, "error.html.j2", code, code=code, said=text, login=login)
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


def _failed(request: Request, error: Exception) -> Response:
    return _html(request, "error.html.j2", 500, code=500, said=str(error), login="")


_RIGHTS = (
    f"This needs the right to read the DAG {RECOVERY_DAG_ID}, and of a pipeline its apply DAG; to change something, the right "
    f"to trigger {RECOVERY_DAG_ID}. A pipeline with DAGs of its own has one of its own instead."
)
_SAID = {
    401: "You are not signed in to Airflow.",
    405: "This page is read-only. Trigger the DAG cdc_recovery in Airflow to change something.",
}
