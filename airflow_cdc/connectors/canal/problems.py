"""Canal's rows of the diagnosis. What is dangerous in Canal is mostly what it does without saying so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_cdc.connectors.canal.capture import (
    AUTO_RESET,
    EXCHANGE,
    MODES,
    SERVER_MODE,
    START_FILE,
    TOPIC,
    CanalCapture,
)
from airflow_cdc.connectors.canal.connector import CanalFacts
from airflow_cdc.connectors.canal.error_texts import TEXTS
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import SchemaFacts
from airflow_cdc.core.problem import WARNING, AnyCase, Beside, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis.connector_rows import CONNECTOR_STATES
from airflow_cdc.decisions.diagnosis.evidence import (
    OFFSETS,
    evidence,
    offset_evidence,
    server_evidence,
    state_evidence,
    transport_of,
)
from airflow_cdc.sources.mysql.facts import BinlogFacts, InBinlog
from airflow_cdc.transports.rabbitmq.queue import bindings_of

_CONFIG: Final = "Canal's settings"
_JUMPS: Final = (
    "after three refusals Canal looks for the time of its cursor less 60 s, and where the log still reaches back to that it"
    " continues there and says nothing"
)
# MySQL gave up `show master status` with 8.4
_WITHOUT_STATUS: Final = (8, 4)


def setting_refused(case: AnyCase) -> Evidence | None:
    """A setting with which no table of this destination can be followed."""
    facts = _facts(case)
    if facts is None:
        return None
    if facts.capture_fault is not None:
        return evidence(case, _CONFIG, {"refused": str(facts.capture_fault)})
    mode, transport = facts.config.get(SERVER_MODE, ""), case.seen.pipeline.transport.kind
    if mode.lower() == transport or mode.lower() not in MODES:
        return None  # in another mode no topic is filled: that is a fact about rows
    return evidence(case, _CONFIG, {SERVER_MODE: f"{mode}, and this pipeline's transport.kind is {transport}"})


def rows_remark(case: AnyCase) -> Iterator[str]:
    """Why no rows can be taken from Canal's events, said beside any diagnosis."""
    facts = _facts(case)
    error = facts.capture.rows_refused if facts is not None and facts.capture is not None else None
    if error is not None:
        yield f"rows: refused, because {error}"


def unroutable(case: AnyCase) -> Evidence | None:
    """Nothing brings what Canal sends to the queue: the server drops it and says nothing, and Canal moves its cursor on."""
    facts, transport = _facts(case), transport_of(case.seen)
    if facts is None or facts.capture is None or transport is None:
        return None
    exchange, key = facts.config.get(EXCHANGE, ""), facts.config.get(TOPIC, "")
    queues = {
        f"queue {queue} is bound to": ", ".join(map(str, bindings)) or "nothing"
        for queue, bindings in bindings_of(transport).items()
        if all(binding.carries(exchange, key) is False for binding in bindings)
    }
    sends = {EXCHANGE: exchange or "the default exchange", TOPIC: f"{key}, which is the routing key"}
    return {**evidence(case, _CONFIG, sends), **evidence(case, "RabbitMQ's queues", queues)} if queues else None


def resets_itself(case: AnyCase) -> Evidence | None:
    """Canal is set to go on at the log's end when its position is gone: all between is lost, and nothing shows it."""
    facts = _facts(case)
    if facts is None or facts.capture is None or facts.config.get(AUTO_RESET, "").strip().lower() != "true":
        return None
    does = "true: after three refusals of the server Canal continues at the log's end, and says nothing"
    return {**evidence(case, _CONFIG, {AUTO_RESET: does}), **offset_evidence(case), **state_evidence(case)}


def second_client(case: AnyCase) -> Evidence | None:
    """Another client has a cursor: the smallest one decides where Canal reads on after a restart."""
    facts = _facts(case)
    if facts is None or not facts.other_keys:
        return None
    others = {f"client {key.get('client')} is at": key.get("cursor") or "unreadable" for key in facts.other_keys}
    return {**offset_evidence(case), **evidence(case, OFFSETS, others)}


def taken_elsewhere(case: AnyCase) -> Evidence | None:
    """The cursor's identity names another server: Canal passes its position over and looks for one by its time."""
    facts = _facts(case)
    if facts is None or not facts.stranger:
        return None
    at = evidence(case, OFFSETS, {"cursor taken at": facts.stranger})
    return {**at, **evidence(case, _CONFIG, {"Canal reads": facts.address}), **offset_evidence(case)}


def tables_not_followed(case: AnyCase) -> Evidence | None:
    """Tables that Canal's filters pass over; where there is a sink, also those whose rows its events do not carry."""
    facts, schema = _facts(case), case.seen.schema
    if facts is None or not isinstance(facts.capture, CanalCapture) or not isinstance(schema, SchemaFacts):
        return None
    check = facts.capture.check_table if case.seen.pipeline.has_sink else facts.capture.check_read
    errors: dict[str, object] = {}
    for name, table in schema.definitions.items():
        try:
            check(table)
        except CdcError as error:
            errors[name] = error
    return evidence(case, _CONFIG, errors) if errors else None


def would_jump(case: AnyCase) -> Evidence | None:
    """The cursor names another server's id: harmless as long as its position is there."""
    jump = jump_evidence(case)
    return {**jump, **offset_evidence(case)} if jump else None


def jump_evidence(case: AnyCase) -> Evidence:
    """That the cursor's serverId is not the server's; {} where it is, or says nothing."""
    pair = case.both
    if pair is None or not isinstance(pair[0], BinlogFacts) or not isinstance(pair[1], InBinlog):
        return {}
    server, in_cursor = pair[0].server_id, pair[1].server_id
    if in_cursor is None or in_cursor == server:
        return {}
    texts = server_evidence(case, {"server_id": server})
    return {
        **evidence(case, OFFSETS, {"serverId in the cursor": f"{in_cursor}: if its position is gone, {_JUMPS}"}),
        **texts,
    }


def begins_evidence(case: AnyCase) -> Evidence:
    """Where Canal would begin without a cursor."""
    facts = _facts(case)
    return evidence(case, _CONFIG, {"without a cursor Canal begins at": facts.begins}) if facts else {}


def cannot_begin(case: AnyCase) -> Evidence | None:
    """A server without `show master status`, and settings that give no start: without its cursor Canal cannot begin."""
    facts = _facts(case)
    if facts is None or case.source is None or facts.config.get(START_FILE):
        return None
    numbers = tuple(int(part) for part in case.source.version.split("-")[0].split(".")[:2] if part.isdigit())
    if "mariadb" in case.source.version.lower() or numbers < _WITHOUT_STATUS:
        return None
    version = {
        "version": f"{case.source.version}: it does not know `show master status`, which Canal asks without a start"
    }
    return {
        **server_evidence(case, version),
        **evidence(case, _CONFIG, {START_FILE: "not set"}),
        **offset_evidence(case),
    }


def _facts(case: AnyCase) -> CanalFacts | None:
    return case.connector if isinstance(case.connector, CanalFacts) else None


PROBLEMS = (
    Problem(
        "CONNECTOR_MISCONFIGURED",
        84,
        "Canal has a setting with which its events cannot be followed.",
        setting_refused,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        88,
        "Canal is set to jump to the log's end when its position is gone: what is lost then is never reported.",
        resets_itself,
    ),
    Problem(
        "OFFSET_AMBIGUOUS",
        41,
        "Another client of the destination has a cursor, and Canal reads on from the smallest of all.",
        second_client,
    ),
    Problem(
        "SOURCE_CHANGED",
        46,
        "The cursor was taken at another address than the one that Canal reads, so Canal ignores its position.",
        taken_elsewhere,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        27,
        "What Canal sends reaches no queue: it is dropped without an error, and the cursor moves on.",
        unroutable,
    ),
    *CONNECTOR_STATES,
    Problem(
        "CONNECTOR_MISCONFIGURED",
        85,
        "Canal passes over a table of this pipeline, or its rows cannot be taken from what it sends.",
        tables_not_followed,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        97,
        "The cursor carries another server's id: if its position were purged, Canal would jump over what is missing.",
        would_jump,
        WARNING,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        98,
        "On this server Canal can begin at a given position only, and its settings give none.",
        cannot_begin,
        WARNING,
    ),
)

RULES = Rules(
    PROBLEMS,
    remarks=(rows_remark,),
    beside=(Beside(frozenset({33}), jump_evidence), Beside(frozenset({42, 43}), begins_evidence)),
    texts=TEXTS,
)
