"""Lost positions under connectors whose events nobody here follows, and what the other commands answer then (INV 40)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.text import shorten
from tests.faults_diagnosis.case import Answer, Case
from tests.faults_diagnosis.cases_postgres import limits_gone, slot_lost
from tests.faults_diagnosis.cases_source import purge
from tests.faults_diagnosis.unfollowed import FORMS, OLD, AnySubject, Form, PostgresWithoutSink, WithoutSink

if TYPE_CHECKING:
    from tests.faults_diagnosis.world import Helper

_HOLD_S = "2"


def others(subject: Any, helper: Helper) -> Iterator[Answer]:
    """What a watch tells, once; what a forecast, a hold and a move of the offset answer; and the connector at its new place."""
    yield from _watched(subject, helper)
    yield _forecast(subject, helper)
    yield from _moved(subject, helper)
    yield _held(subject, helper)


def _watched(subject: AnySubject, helper: Helper) -> Iterator[Answer]:
    first, second = (helper.ask(json.dumps(["watch", subject.name])) for _ in range(2))
    alerts = [alert for seen in (first, second) for alert in (_of(seen, "facts") or {}).get("alerts", [])]
    yield Answer("watch", [alert["status"] for alert in alerts] == ["firing"], shorten(json.dumps(alerts), 200))


def _forecast(subject: AnySubject, helper: Helper) -> Answer:
    """Nothing that is lost already will be lost: the command says so, and which one knows more."""
    said = helper.ask(json.dumps(["forecast", subject.name]))
    return _answer("forecast", said, "Ask `diagnose` why" in said["error"])


def _moved(subject: AnySubject, helper: Helper) -> Iterator[Answer]:
    value = json.dumps(subject.at_the_end())
    moved = helper.ask(json.dumps(["offset", "set", subject.name, value, "--yes"]))
    yield _answer("move", moved, moved["status"] == 0 and subject.offset() == json.loads(value))
    if isinstance(subject, WithoutSink) and subject.form.worker == OLD:
        return  # Debezium 1.9 for MySQL starts once on a worker of Kafka 4: NoSuchMethodError, KafkaConsumer.poll(long)
    subject.resume()
    subject.wait_running()
    subject.write(40)
    subject.catch_up()
    after = helper.ask(subject.name)
    yield _answer("after the move", after, _of(after, "code") == "HEALTHY")
    forecast = helper.ask(json.dumps(["forecast", subject.name]))
    yield _answer("forecast after the move", forecast, _of(forecast, "pipeline") == subject.name)


def _held(subject: Any, helper: Helper) -> Answer:
    """9.7 keeps its log; 8.0 and PostgreSQL do not let anybody hold it, and say so."""
    held = helper.ask(json.dumps(["hold", subject.name, "--seconds", _HOLD_S]))
    return _answer("hold", held, bool(_of(held, "blocks_purge" if subject.server == "new" else "reason")))


def _of(said: dict[str, Any], name: str) -> Any:
    """A part of an answer; None where the command answered with an error alone."""
    return (said["answer"] or {}).get(name)


def _answer(what: str, said: dict[str, Any], right: bool) -> Answer:
    return Answer(what, right, shorten(json.dumps(said["answer"]) + said["error"], 300))


def _mysql(form: Form) -> Case:
    return Case(
        f"purged_{form.name}",
        f"stopped, and the log purged: {form.name}",
        "GTID_PURGED",
        "gtid" if form.worker == OLD else "new",
        purge,
        beside=form.beside,
        pipeline=partial(WithoutSink, form=form),
        others=others,
    )


def _postgres(form: Form) -> Case:
    given: Any = slot_lost
    undone: Any = limits_gone
    return Case(
        f"slot_lost_{form.name}",
        f"max_slot_wal_keep_size was exceeded: {form.name}",
        "SLOT_INVALIDATED",
        "pg15" if form.worker == OLD else "pg18",
        given,
        undone,
        beside=form.beside,
        pipeline=partial(PostgresWithoutSink, form=form),
        others=others,
    )


MYSQL_CASES: tuple[Case, ...] = tuple(_mysql(form) for form in FORMS)
POSTGRES_CASES: tuple[Case, ...] = tuple(_postgres(form) for form in FORMS)
