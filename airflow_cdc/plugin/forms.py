"""The page's forms: recover or repair a pipeline, and acknowledge its problem or mute it.

A form is a POST, so a foreign site could make a signed-in browser send one. A form is refused unless it has a token
that only a page of this session contains, and unless the browser says that it comes from this site.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

from airflow.api.common.trigger_dag import trigger_dag
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.sdk.exceptions import AirflowException
from airflow.utils.types import DagRunTriggeredByType
from fastapi import HTTPException, Request, status

from airflow_cdc.core.amounts import parse_duration
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.decisions.diagnosis.strategy import AUTO, STRATEGIES
from airflow_cdc.names import RECOVERY_DAG_ID, REPAIR_DAG_ID, dag_id_for
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import Silence, StoredObservation

TOKEN = "token"  # noqa: S105 - the field's name
_OWN = frozenset({"", "same-origin", "none"})
DURATIONS: Mapping[str, str] = {
    "1h": "1 hour",
    "4h": "4 hours",
    "8h": "8 hours",
    "1d": "1 day",
    "3d": "3 days",
    "7d": "7 days",
}
# the tables that the form shows
SHOWN = "shown"
THIS_PROBLEM, EVERYTHING = "problem", "everything"
MOST_TEXT = 1000
MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy offered by the form: what it does, in plain words, and what it loses."""

    code: str
    when: str
    data_loss: str


Fields = Mapping[str, Sequence[str]]


def form_token(request: Request, pipeline: str) -> str:
    """The token of this pipeline's forms in this session; another site can read neither the session nor the page."""
    session = request.cookies.get(COOKIE_NAME_JWT_TOKEN) or request.headers.get("authorization", "")
    return hmac.new(session.encode(), f"cdc-form:{pipeline}".encode(), hashlib.sha256).hexdigest()


async def sent_fields(request: Request, pipeline: str) -> Fields:
    """The fields of a form that was sent. Raises 403 for a form that is not from a page of this session."""
    body = (await request.body())[:MOST_BYTES].decode("utf-8", errors="replace")
    fields = parse_qs(body, keep_blank_values=True)
    sent_token = _one(fields, TOKEN)
    foreign = request.headers.get("sec-fetch-site", "") not in _OWN
    if foreign or not hmac.compare_digest(sent_token.encode(), form_token(request, pipeline).encode()):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "This form has expired: load the page again.")
    return fields


def choices_for(observation: StoredObservation | None, *, has_sink: bool) -> list[Choice]:
    """The strategies that can be carried out for the problem last observed, cheapest first."""
    able = [
        code for code, why in (observation.choices if observation else {}).items() if not why and code in STRATEGIES
    ]
    rows = [STRATEGIES[code] for code in able]
    return [Choice(row.code, row.when, row.data_loss) for row in rows if has_sink or row.sinkless]


def refused_choices(observation: StoredObservation | None) -> Mapping[str, str]:
    """The strategies for the problem that can't be carried out → why."""
    return {code: why for code, why in (observation.choices if observation else {}).items() if why}


def start_recovery(pipeline: Pipeline, fields: Fields, offered: Sequence[Choice], user: str) -> str:
    """Trigger cdc_recovery as the form says; returns the run's id. Raises 400 for a choice that was not offered."""
    strategy = _one(fields, "strategy") or AUTO
    if strategy not in {AUTO, *(choice.code for choice in offered)}:
        raise _bad(f"The strategy {strategy} was not offered for this problem.")
    conf = {"pipeline": pipeline.name, "strategy": strategy, "tables": _tables(pipeline, fields), "note": _note(fields)}
    return _trigger(dag_id_for(pipeline, RECOVERY_DAG_ID), conf, user)


def start_repair(pipeline: Pipeline, fields: Fields, user: str) -> str:
    """Trigger cdc_repair as the form says; returns the run's id."""
    conf = {
        "pipeline": pipeline.name,
        "tables": _tables(pipeline, fields),
        "dry_run": bool(_one(fields, "dry_run")),
        "note": _note(fields),
    }
    return _trigger(dag_id_for(pipeline, REPAIR_DAG_ID), conf, user)


def silence(store: ReportStore, pipeline: str, code: str, fields: Fields, user: str) -> Silence:
    """Record that `user` acknowledged problem `code` or muted the pipeline. Raises 400 without a reason or an end."""
    reason, length = _one(fields, "reason").strip()[:MOST_TEXT], _one(fields, "length")
    if not reason or length not in DURATIONS:
        raise _bad("Enter a reason and an end time.")
    now = datetime.now(UTC)
    until = now + timedelta(seconds=parse_duration(length))
    new_silence = Silence(
        by=user,
        at=now.isoformat(timespec="seconds"),
        until=until.isoformat(timespec="seconds"),
        reason=reason,
        code="" if _one(fields, "what") == EVERYTHING else code,
    )
    store.keep_silences(pipeline, [*store.silences(pipeline), new_silence])
    return new_silence


def end_silences(store: ReportStore, pipeline: str, user: str) -> None:
    """End the current silences; their entries stay and record who ended them."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    ended = [
        replace(one, ended_at=now, ended_by=user) if one.covers(one.code, now) else one
        for one in store.silences(pipeline)
    ]
    store.keep_silences(pipeline, ended)


def _tables(pipeline: Pipeline, fields: Fields) -> list[str]:
    """The chosen tables; [] if all are chosen, or none, which the DAGs take as all.

    Raises 400 for a form of another day: for a chosen table that is no longer declared, and for "all" of other tables
    than the form shows. Worked case: the only chosen table was removed from pipelines.yaml, and all others were repaired.
    """
    declared, chosen, shown = set(pipeline.source.tables), fields.get("tables", ()), set(fields.get(SHOWN, ()))
    if gone := sorted(set(chosen) - declared):
        raise _bad(f"{', '.join(gone)}: not declared in pipeline {pipeline.name} (any more). Load the form again.")
    if not chosen and shown != declared:
        others = ", ".join(sorted(shown ^ declared))
        raise _bad(
            f"No table is chosen, which means all; but the form is old and does not agree on {others}. Load it again."
        )
    return [] if set(chosen) == declared else [table for table in pipeline.source.tables if table in chosen]


def _note(fields: Fields) -> str:
    return _one(fields, "note").strip()[:MOST_TEXT]


def _one(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "")


def _trigger(dag_id: str, conf: Mapping[str, object], user: str) -> str:
    try:
        run = trigger_dag(dag_id, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=user, conf=dict(conf))
    except (AirflowException, ValueError) as error:
        raise CdcError(
            f"{dag_id} could not be triggered: {type(error).__name__}: {error}",
            todo=f"Nothing was changed. Check that the DAG {dag_id} is loaded and not paused.",
        ) from error
    if run is None:
        raise CdcError(f"{dag_id} was not triggered", todo="Trigger it in Airflow.")
    return str(run.run_id)


def _bad(why: str) -> HTTPException:
    return HTTPException(status.HTTP_400_BAD_REQUEST, why)
