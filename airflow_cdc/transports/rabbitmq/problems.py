"""The problems that a diagnosis can find in RabbitMQ's queues, and the error messages of its server and clients, as a connector reports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from airflow_cdc.core.error_texts import CUT, LOGIN_REFUSED, KnownText
from airflow_cdc.core.problem import WARNING, AnyCase, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis.evidence import evidence, transport_of
from airflow_cdc.decisions.diagnosis.strategy import STRATEGIES
from airflow_cdc.decisions.diagnosis.topic_rows import TOPIC_ROWS
from airflow_cdc.transports.rabbitmq.queue import STREAM, Moved, moved_of

TEXTS: Final[tuple[KnownText, ...]] = (
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        131,
        r"NOT_FOUND - no (exchange|queue) '",
        "the exchange or the queue that the connector writes to does not exist; a channel that this has closed stays closed",
    ),
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        132,
        r"PRECONDITION_FAILED - inequivalent arg ",
        "the connector declares its queue with other arguments than it has, so it cannot start",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        139,
        r"ACCESS_REFUSED - (Login was refused|access to (exchange|queue|vhost|topic))|NOT_ALLOWED - (access|vhost)",
        LOGIN_REFUSED,
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        196,
        r"CONNECTION_FORCED|AlreadyClosedException|ShutdownSignalException|delivery acknowledgement on channel \d+ timed out",
        CUT,
    ),
)


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


def taken_or_dropped(case: AnyCase) -> Evidence | None:
    """Messages leave the queue otherwise than by being moved to the stream."""
    return _of_moved(case, _taken)


def can_drop(case: AnyCase) -> Evidence | None:
    """A queue has settings by which messages can leave it before they are moved to the stream."""
    return _of_moved(case, lambda queue: queue.losses)


def _of_moved(case: AnyCase, texts_of: Callable[[Moved], Iterable[str]]) -> Evidence | None:
    transport = transport_of(case.seen)
    queues = moved_of(transport).values() if transport is not None and case.seen.pipeline.has_sink else ()
    texts = {f"queue {queue.name}": "; ".join(texts_of(queue)) for queue in queues}
    return evidence(case, _WHERE, {name: text for name, text in texts.items() if text}) or None


def _taken(queue: Moved) -> Iterator[str]:
    if queue.consumers > 0:
        yield f"{queue.consumers} other consumers take messages away: what they take never reaches the sink"
    for name, count in queue.dead.items():
        if count:
            yield f"its dead-letter exchange has put {count} messages in queue {name}: the sink has not seen them"


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
    Problem(
        "TRANSPORT_MISCONFIGURED",
        59,
        "Messages leave the queue by another way than to the stream that events are read from.",
        taken_or_dropped,
    ),
    Problem(
        "TRANSPORT_MISCONFIGURED",
        76,
        "The queue can lose messages, or change their order, before they are moved to the stream.",
        can_drop,
        WARNING,
    ),
    *TOPIC_ROWS,
)
_READING: Final = tuple(code for code, strategy in STRATEGIES.items() if not strategy.sinkless)
RULES = Rules(PROBLEMS, texts=TEXTS, blockers=dict.fromkeys(_READING, (not_a_stream,)))
