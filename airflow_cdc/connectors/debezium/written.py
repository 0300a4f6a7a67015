"""How a connector's records are written, as its topics' newest ones show it.

A connector that names no converter uses its worker's, and Connect's REST interface shows none of the worker's settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.forms import Form, converter_todo, form_of_key, form_of_value
from airflow_cdc.core.capture import Newest
from airflow_cdc.core.check import Check
from airflow_cdc.core.topics import NewestRecord

_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class _Looked:
    """Topics whose newest records look alike: `state` and `todo` as of a Check."""

    state: str
    what: str
    todo: str = ""


def written(
    settings: ConnectorSettings,
    subject: str,
    tables: Sequence[str],
    newest: Callable[[Sequence[str]], Newest],
) -> Sequence[Check]:
    """What the newest records of the tables' topics, and of the topic of schema changes, look like: one line for each form.

    ok: they can be followed. bad: they can't, and the connector would go on writing so. warn: they can't, but later ones
    can, or the connector's own settings say that it writes otherwise now. unknown: there is no record yet, and the
    converter is the worker's. A heartbeat, too, tells how the converter writes now.
    """
    if settings.observed_only or settings.rows_refused:
        return ()
    topics = [one for one in settings.topics_about(tables) if one != settings.history_topic]
    records = newest([*topics, settings.heartbeat_topic])
    now = {side: _now(records.values(), side) for side in settings.unseen_converters}
    looks: dict[_Looked, list[str]] = {}
    for topic in topics:
        looks.setdefault(_look(records.get(topic), now), []).append(topic)
    return [
        Check(subject, "events", one.state, f"{one.what}: {_names(names)}", one.todo) for one, names in looks.items()
    ]


def _now(records: Iterable[NewestRecord], side: str) -> Form | None:
    """How the worker's converter writes now: the newest record of all, heartbeats too. What is written otherwise is older."""
    ordered = sorted(records, key=lambda record: record.at_ms, reverse=True)
    return next((form for record in ordered for name, form in _forms(record) if name == side), None)


def _look(record: NewestRecord | None, now: Mapping[str, Form | None]) -> _Looked:
    """`now`: side → how the worker's converter writes it; sides whose converter the connector names are absent."""
    if record is None:
        return _no_record(now)
    wrong = {side: form for side, form in _forms(record) if not form.is_followed}
    if not wrong:
        return _Looked("ok", _value(record))
    what = "; ".join(f"the {side} is {form.what}" for side, form in wrong.items())
    foreign = [side for side, form in wrong.items() if not form.is_json and _is_foreign(now.get(side))]
    return _Looked("bad", what, converter_todo(foreign)) if foreign else _Looked("warn", what, _OLDER)


def _no_record(now: Mapping[str, Form | None]) -> _Looked:
    foreign = {side: form for side, form in now.items() if _is_foreign(form)}
    if foreign:
        what = "; ".join(
            f"the {side} of the connector's other records is {form.what}" for side, form in foreign.items() if form
        )
        return _Looked("bad", f"no record yet, and {what}", converter_todo(foreign))
    if None in now.values():
        return _Looked("unknown", "no record yet, so how events are written is not known", _UNKNOWN)
    return _Looked("ok", "no record yet, and JSON by the connector's settings or its other records")


def _is_foreign(form: Form | None) -> bool:
    return form is not None and not form.is_json


def _value(record: NewestRecord) -> str:
    return "a delete without a value" if record.value is None else form_of_value(record.value, record.headers).what


_UNKNOWN: Final = (
    "The connector names no converter of its own, so its worker's is used, which cannot be asked. The first apply looks at"
    " the first records; to see it now, change a row of the table."
)
_OLDER: Final = (
    "The connector does not write so now: these records are older, or another writer's. If an apply must still read them,"
    " it stops: then recover the table."
)


def _forms(record: NewestRecord) -> Iterator[tuple[str, Form]]:
    if record.key is not None:
        yield "key", form_of_key(record.key, record.headers)
    if record.value is not None:
        yield "value", form_of_value(record.value, record.headers)


def _names(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _SHOWN} more" if len(topics) > _SHOWN else ""
    return f"{', '.join(topics[:_SHOWN])}{more}"
