"""The problems that a diagnosis can find in RabbitMQ's queues."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.problem import AnyCase, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis.evidence import evidence, transport_of
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES
from airflow_cdc.decisions.diagnosis.topic_rows import TOPIC_ROWS
from airflow_cdc.transports.rabbitmq.error_texts import TEXTS
from airflow_cdc.transports.rabbitmq.queue import STREAM

_WHERE: Final = "RabbitMQ's queues"


def queue_missing(case: AnyCase) -> Evidence | None:
    """A queue is not there: the server drops what is sent to it, and confirms it."""
    transport = transport_of(case.seen)
    if transport is None:
        return None
    missing = sorted(set(transport.of_table.values()) - set(transport.topics))
    does = "there is no such queue: what is sent to it is dropped, and the connector is not told"
    return evidence(case, _WHERE, dict.fromkeys(missing, does)) if missing else None


def cannot_be_read_again(case: AnyCase) -> Evidence | None:
    """A pipeline with a sink has a queue whose messages are gone once they are taken."""
    transport = transport_of(case.seen)
    if transport is None or not case.seen.pipeline.has_sink:
        return None
    wrong = {name: kind for name, kind in _kinds(case).items() if kind != STREAM}
    texts = {name: _told(kind, transport.configs.get(name, {}).get("consumers", "")) for name, kind in wrong.items()}
    return evidence(case, _WHERE, texts) if texts else None


def _kinds(case: AnyCase) -> dict[str, str]:
    transport = transport_of(case.seen)
    return {name: one["kind"] for name, one in transport.configs.items() if "kind" in one} if transport else {}


def _told(kind: str, consumers: str) -> str:
    others = "" if consumers in ("", "0") else f", and {consumers} consumers take them away now"
    return f"a {kind} queue: its messages have no offsets and are gone once they are taken{others}"


def not_a_stream(case: AnyCase) -> str:
    """Why no strategy can read events: a queue that is no stream."""
    wrong = sorted(f"{name} is a {kind} queue" for name, kind in _kinds(case).items() if kind != STREAM)
    return f"{', '.join(wrong)}: only the events of a stream queue can be read again" if wrong else ""


PROBLEMS = (
    Problem("TRANSPORT_MISCONFIGURED", 51, "Events are sent to a queue that does not exist.", queue_missing),
    Problem(
        "TRANSPORT_MISCONFIGURED",
        58,
        "A queue's events cannot be read again, so nothing can be applied from it or recovered through it.",
        cannot_be_read_again,
    ),
    *TOPIC_ROWS,
)
_READING: Final = tuple(code for code, strategy in STRATEGIES.items() if not strategy.sinkless)
RULES = Rules(PROBLEMS, texts=TEXTS, blockers=dict.fromkeys(_READING, (not_a_stream,)))
