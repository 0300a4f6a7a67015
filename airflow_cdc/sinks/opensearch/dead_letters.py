"""The records of all pipelines that could not be applied: one document each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from opensearchpy.helpers import bulk, scan

from airflow_cdc.core.dead_letter import (
    MAX_ATTEMPTS,
    DeadLetter,
    data_in,
    data_text,
    headers_in,
    headers_text,
    is_before,
)
from airflow_cdc.core.errors import SinkError
from airflow_cdc.core.topics import Fence
from airflow_cdc.sinks.opensearch.indexes import LETTERS
from airflow_cdc.sinks.opensearch.record import ensure_index
from airflow_cdc.sinks.opensearch.session import Session

_WORD: Final = {"type": "keyword"}
_BODY: Final = {
    "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"},
    "mappings": {
        "dynamic": False,
        "properties": {"pipeline": _WORD, "table": _WORD, "resolved_at": {"type": "date"}},
    },
}
_COUNT_ATTEMPT: Final = (
    "ctx._source.attempts += 1; if (params.containsKey('reason')) {ctx._source.reason = params.reason}"
)


def record(session: Session, pipeline: str, letters: Iterable[DeadLetter]) -> None:
    """Store letters; one that is stored already counts one more attempt."""
    ensure_index(session, LETTERS, _BODY)
    _bulk(
        session,
        (
            _update(pipeline, letter, _COUNT_ATTEMPT, {"reason": letter.reason})
            | {"upsert": _document(pipeline, letter)}
            for letter in letters
        ),
    )


def unresolved(session: Session, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
    """The letters that are not resolved yet, of one table or of all, oldest first."""
    terms = [{"term": {"pipeline": pipeline}}, *([{"term": {"table": table}}] if table else [])]
    query = {"query": {"bool": {"filter": terms, "must_not": [{"exists": {"field": "resolved_at"}}]}}}
    with session.asked("read the dead letters", f"index {LETTERS}") as client:
        if not client.indices.exists(index=LETTERS):
            return ()
        client.indices.refresh(index=LETTERS)
        letters = [_letter(hit["_source"]) for hit in scan(client, query=query, index=LETTERS)]
    return tuple(sorted(letters, key=lambda one: (one.first_seen, one.topic, one.partition, one.offset)))


def waiting(session: Session, pipeline: str) -> int:
    """How many unresolved letters will be tried again."""
    return sum(letter.attempts < MAX_ATTEMPTS for letter in unresolved(session, pipeline))


def resolve_before(session: Session, pipeline: str, since: Mapping[str, Fence]) -> int:
    """Mark the letters before each table's fence as resolved. Returns how many were marked."""
    due = [
        one for one in unresolved(session, pipeline) if one.table in since and is_before(one.place, since[one.table])
    ]
    resolve(session, pipeline, due)
    return len(due)


def resolve(session: Session, pipeline: str, some: Sequence[DeadLetter]) -> None:
    """Mark letters as resolved: their keys, or their whole table, were read again."""
    now = {"at": datetime.now(UTC).isoformat()}
    _bulk(session, (_update(pipeline, letter, "ctx._source.resolved_at = params.at", now) for letter in some))


def count_attempt(session: Session, pipeline: str, some: Sequence[DeadLetter]) -> None:
    """Count an attempt that did not resolve the letters."""
    _bulk(session, (_update(pipeline, letter, _COUNT_ATTEMPT, {}) for letter in some))


def _update(pipeline: str, letter: DeadLetter, script: str, params: Mapping[str, object]) -> dict[str, object]:
    return {
        "_op_type": "update",
        "_index": LETTERS,
        "_id": _id(pipeline, letter),
        "retry_on_conflict": 5,
        "script": {"source": script, "params": dict(params)},
    }


def _id(pipeline: str, letter: DeadLetter) -> str:
    return hashlib.sha256("\n".join(map(str, (pipeline, letter.table, *letter.place))).encode()).hexdigest()


def _bulk(session: Session, actions: Iterable[Mapping[str, object]]) -> None:
    with session.asked("write the dead letters", f"index {LETTERS}") as client:
        _, errors = bulk(client, actions, raise_on_error=False, refresh=True)
    if errors:
        raise SinkError(
            f"dead letters could not be written: {errors[0]}",
            where=f"index {LETTERS}",
            todo="See to what the cluster says, then run the step again.",
        )


def _document(pipeline: str, letter: DeadLetter) -> dict[str, object]:
    plain = {name: getattr(letter, name) for name in letter.__slots__ if name != "resolved_at"}
    texts = {"key": data_text(letter.key), "value": data_text(letter.value), "headers": headers_text(letter.headers)}
    return plain | {"pipeline": pipeline, "first_seen": letter.first_seen.isoformat(), **texts}


def _letter(source: Mapping[str, Any]) -> DeadLetter:
    plain: dict[str, Any] = {name: source.get(name) for name in DeadLetter.__slots__}
    seen = datetime.fromisoformat(source["first_seen"])
    data = {name: data_in(source[name]) for name in ("key", "value")}
    return DeadLetter(**plain | {**data, "headers": headers_in(plain["headers"]), "first_seen": seen})
