"""How a connector's records are written, as its topics' newest ones show it.

A connector that names no converter uses its worker's, and Connect's REST interface shows none of the worker's settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.converters import Converter
from airflow_cdc.connectors.debezium.flattening import FlattenedForm
from airflow_cdc.connectors.debezium.forms import NULL, ROW, Form, converter_todo, form_of_key, form_of_value
from airflow_cdc.core.capture import Newest
from airflow_cdc.core.check import Check
from airflow_cdc.core.topics import NewestRecord
from airflow_cdc.events.record import Unreadable

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
    of_tables = settings.topics(tables)
    for topic in topics:
        wants = _Wants.of(settings, of_tables[topic][0]) if topic in of_tables else _Wants()
        looks.setdefault(_look(records.get(topic), now, wants), []).append(topic)
    seen = [
        Check(subject, "events", one.state, f"{one.what}: {_names(names)}", one.todo) for one, names in looks.items()
    ]
    return [*seen, *_unplaced(settings, subject, tables)]


def _unplaced(settings: ConnectorSettings, subject: str, tables: Sequence[str]) -> Iterator[Check]:
    """What would give the changes of flattened events a place in the source's log, where they have none."""
    of_form: dict[FlattenedForm, list[str]] = {}
    for table in tables:
        form = settings.flattened_form(table)
        if form is not None and not form.is_placed(settings.source):
            of_form.setdefault(form, []).append(table)
    for form, names in of_form.items():
        found = f"{form.name} leaves no change its place in the source's log: {_names(names)}"
        todo = f"To have repeats of a restarted connector recognised, set {form.made_whole(settings.source)} on the connector."
        yield Check(subject, "events", "ok", found, todo)


def _now(records: Iterable[NewestRecord], side: str) -> Form | None:
    """How the worker's converter writes now: the newest record of all, heartbeats too. What is written otherwise is older."""
    ordered = sorted(records, key=lambda record: record.at_ms, reverse=True)
    return next((form for record in ordered for name, form in _forms(record, _Wants()) if name == side), None)


@dataclass(frozen=True, slots=True)
class _Wants:
    """What the settings say of a topic's records.

    `framed`: side → its converter, for those that write schemas' ids; `flattened`: whether a value is a row.
    """

    framed: Mapping[str, Converter] = field(default_factory=dict)
    flattened: bool = False

    @classmethod
    def of(cls, settings: ConnectorSettings, table: str) -> _Wants:
        framed = {one.side: one for one in settings.converters if one.needs_ids}
        return cls(framed, settings.flattened_form(table) is not None)

    def form(self, side: str, data: bytes, record: NewestRecord) -> Form:
        """How a key or a value is written, and whether it is so that it can be read by these settings."""
        if (converter := self.framed.get(side)) is not None:
            return _framed(converter, data, record)
        if side == "key":
            return form_of_key(data, record.headers)
        form = form_of_value(data, record.headers)
        rows = form.what.startswith((ROW, NULL))
        if not self.flattened:
            return form
        return form._replace(is_followed=rows, what=form.what if rows else f"{form.what}, not flattened")


def _framed(converter: Converter, data: bytes, record: NewestRecord) -> Form:
    try:
        if converter.framing is not None:
            converter.framing.split(data, record.carried)
    except Unreadable:
        form_of = form_of_key if converter.side == "key" else form_of_value
        return Form(f"{form_of(data, record.headers).what}, not {converter.format}", is_json=False, is_followed=False)
    return Form(f"{converter.format} with a schema of the registry", is_json=False, is_followed=True)


def _look(record: NewestRecord | None, now: Mapping[str, Form | None], wants: _Wants) -> _Looked:
    """`now`: side → how the worker's converter writes it; sides whose converter the connector names are absent."""
    if record is None:
        return _no_record(now)
    forms = dict(_forms(record, wants))
    wrong = {side: form for side, form in forms.items() if not form.is_followed}
    if not wrong:
        return _Looked("ok", forms["value"].what if "value" in forms else "a delete without a value")
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
    return _Looked("ok", "no record yet, and a form that is read by the connector's settings or its other records")


def _is_foreign(form: Form | None) -> bool:
    return form is not None and not form.is_json


_UNKNOWN: Final = (
    "The connector names no converter of its own, so its worker's is used, which cannot be asked. The first apply looks at"
    " the first records; to see it now, change a row of the table."
)
_OLDER: Final = (
    "The connector does not write so now: these records are older, or another writer's. If an apply must still read them,"
    " it stops: then recover the table."
)


def _forms(record: NewestRecord, wants: _Wants) -> Iterator[tuple[str, Form]]:
    for side, data in (("key", record.key), ("value", record.value)):
        if data is not None:
            yield side, wants.form(side, data, record)


def _names(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _SHOWN} more" if len(topics) > _SHOWN else ""
    return f"{', '.join(topics[:_SHOWN])}{more}"
