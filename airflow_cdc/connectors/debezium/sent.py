"""The transactions of the last events in a connector's topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from airflow_cdc.connectors.debezium.converters import Format
from airflow_cdc.connectors.debezium.events.frames import wiring_of
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.ports import SchemaTexts, Transport
from airflow_cdc.events.record import Record, Unreadable
from airflow_cdc.events.value import Shape, Wire

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium.config import ConnectorSettings

MOST_TOPICS: Final = 50
# a delete is followed by its tombstone
_LAST: Final = 2
_GTID: Final = "source.gtid"
_TEXT: Final = Shape(Wire.STRING)
_SOURCE: Final = ("source", Shape(Wire.STRUCT, (("gtid", _TEXT),)))


def last_sent(settings: ConnectorSettings, topics: Transport, texts: SchemaTexts | None = None) -> tuple[str, ...]:
    """The GTIDs of the newest records of each partition, sorted; () where there are too many topics to read.

    `texts`: asks the registry that the records' schemas are in. Routed topics are not read. Raises TransportError.
    """
    own = (settings.prefix, f"{settings.prefix}.")
    names = [name for name in topics.topic_names() if name == own[0] or name.startswith(own[1])]
    names = [name for name in names if name not in (settings.history_topic, settings.heartbeat_topic)]
    if len(names) > MOST_TOPICS:
        return ()
    records = [record for name in names for record in _newest(name, topics)]
    gtid_of = _reader(settings, records, texts)
    return tuple(sorted({gtid for record in records if (gtid := gtid_of(record))}))


def _newest(name: str, topics: Transport) -> Iterator[Record]:
    state = topics.topic_states([name]).get(name)
    partitions = {} if state is None else state.partitions
    ranges = {p: (max(begin, end - _LAST), end) for p, (begin, end) in partitions.items() if end > begin}
    for record in topics.records(name, ranges) if ranges else ():
        if record.value:
            yield cast("Record", record)  # Kafka's have headers


def _reader(
    settings: ConnectorSettings, records: Sequence[Record], texts: SchemaTexts | None
) -> Callable[[Record], str]:
    """Reads a record's GTID, of an envelope or of what is left of it; "" for one that can't be read, or has none."""
    converter = next((one for one in settings.converters if one.side == "value"), None)
    if converter is None:
        return lambda _: ""
    try:
        # JSON shows by itself whether a schema is around it
        wiring = (
            wiring_of(converter) if converter.format is not Format.JSON else wiring_of(replace(converter, wrapped=None))
        )
    except ConfigError:
        return lambda _: ""
    fields = tuple({name for form in settings.flattened for part, name in form.fields if part == _GTID})
    headers = {name for form in settings.flattened for part, name in form.headers if part == _GTID}
    ids = {wiring.schema_of(record.value or b"", record.headers) for record in records} - {None} if texts else set()
    schemas = texts(sorted(one for one in ids if one is not None)) if texts and ids else {}
    read = wiring.reader(Shape(Wire.STRUCT, (_SOURCE, *((name, _TEXT) for name in fields))), schemas)

    def gtid_of(record: Record) -> str:
        header = next((data.decode(errors="replace") for name, data in record.headers if name in headers), "")
        try:
            parts = read(record.value or b"", record.headers)
        except Unreadable as error:
            parts = error.value
        source, *others = parts or (None,)
        inside = source[0] if type(source) is tuple else None
        return next((one for one in (inside, *others, header) if type(one) is str and one), "")

    return gtid_of
