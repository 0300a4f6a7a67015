"""The frame of a connector's events, as its settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_cdc.connectors.debezium.converters import Converter, Format
from airflow_cdc.connectors.debezium.events.envelope import Envelope
from airflow_cdc.connectors.debezium.events.flattened import Flattened
from airflow_cdc.connectors.debezium.plugin_names import APICURIO_JSON
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.events.wire.avro import Avro
from airflow_cdc.events.wire.json import Json, JsonSchema
from airflow_cdc.events.wire.protobuf import Protobuf

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium.config import ConnectorSettings
    from airflow_cdc.events.frame import Frame
    from airflow_cdc.events.wire import Wiring


def frame_of(settings: ConnectorSettings, table: str) -> Frame:
    """The frame of the events of "schema.table". Raises ConfigError for a format that is not read."""
    renamed = settings.names_for_avro
    key, value = (wiring_of(one, renamed=renamed) for one in settings.converters)
    source, mark, form = settings.source, settings.key_mark(table), settings.flattened_form(table)
    if form is not None:
        return Flattened(form, key, value, source, mark)
    # an envelope has no field `payload`, so it shows whether a schema is around it: records may be older than the settings
    return Envelope(key, Json() if isinstance(value, Json) else value, source, mark)


def wiring_of(converter: Converter, *, renamed: bool = False) -> Wiring:
    """How keys or values are written. `renamed`: see Avro. Raises ConfigError for a format that is not read."""
    if converter.format in {Format.JSON, Format.UNSEEN} or converter.name == APICURIO_JSON:
        return Json(converter.wrapped)
    if converter.framing is not None and converter.format is Format.AVRO:
        return Avro(converter.framing, renamed)
    if converter.framing is not None and converter.format is Format.JSON_SCHEMA:
        return JsonSchema(converter.framing)
    if converter.framing is not None and converter.format is Format.PROTOBUF:
        return Protobuf(converter.framing, renamed)
    raise ConfigError(
        f"{converter.side}.converter is {converter.name}, whose records are not read",
        where="the connector's configuration",
        todo="Use the converter of JSON, Avro, Protobuf or JSON Schema.",
    )
