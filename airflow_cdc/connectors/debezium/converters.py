"""How a connector's converters write its keys and values, as its settings say: the format, where a schema's id is, what becomes of a NULL.

Connect reads a converter's settings from the connector's configuration only if that also names the converter. What is
told here is told by settings alone; the bytes of a record do not say it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from airflow_cdc.connectors.debezium.names import is_false, is_true
from airflow_cdc.connectors.debezium.plugin_names import (
    APICURIO,
    APICURIO_AVRO,
    APICURIO_JSON,
    CONFLUENT,
    CONFLUENT_AVRO,
    CONFLUENT_JSON,
    CONFLUENT_PROTOBUF,
    JSON,
)
from airflow_cdc.core.endpoint import Address
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.events.record import Ids
from airflow_cdc.events.wire.ids import CONTENT_ID, GLOBAL_ID, Framing

_FOUR_BYTES: Final = "Legacy4ByteIdHandler"


class Format(StrEnum):
    """What a converter writes."""

    JSON = "JSON"
    AVRO = "Avro"
    JSON_SCHEMA = "JSON Schema"
    PROTOBUF = "Protobuf"
    OTHER = "an unknown format"
    UNSEEN = "the worker's format"


class _Known(NamedTuple):
    """A class of converter: its format, and the setting by which a NULL stays NULL; "" if it has none."""

    format: Format
    keeps_null: tuple[str, str] = ("", "")


# settings of converters that name a class which decides where the id of a schema is
_OWN_IDS: Final = ("apicurio.registry.headers.handler", "key.schema.id.serializer", "value.schema.id.serializer")
# settings with either of which Confluent's Protobuf tells a NULL from a zero
NULLS_SHOWN: Final = ("optional.for.nullables", "wrapper.for.nullables")
# settings by which Confluent's serializers write another schema's id, and their values by which they don't
_OTHER_SCHEMA: Final = {"use.latest.version": "false", "use.schema.id": "-1", "use.schema.guid": ""}
_ENVELOPE_NULL: Final = ("replace.null.with.default", "false")
_REGISTRY_NULL: Final = ("ignore.default.for.nullables", "true")
_KNOWN: Final[Mapping[str, _Known]] = {
    JSON: _Known(Format.JSON, _ENVELOPE_NULL),
    CONFLUENT_AVRO: _Known(Format.AVRO, _REGISTRY_NULL),
    CONFLUENT_PROTOBUF: _Known(Format.PROTOBUF, _REGISTRY_NULL),
    CONFLUENT_JSON: _Known(Format.JSON_SCHEMA, _REGISTRY_NULL),
    # seen on 2.6.13: a NULL arrives as the column's default, and no setting is read for it
    APICURIO_AVRO: _Known(Format.AVRO),
    APICURIO_JSON: _Known(Format.JSON_SCHEMA, _ENVELOPE_NULL),
}


@dataclass(frozen=True, slots=True)
class Converter:
    """One side's converter.

    Attributes:
        side: "key" or "value".
        name: its class; "" where the connector names none.
        framing: where the id of a record's schema is; None where there is none, or it can't be told.
        registry: the address of its registry, as the connector knows it, without a login; "" for none.
        replaces_null: whether a NULL may arrive as the column's default.
        keeps_null: the connector's setting by which it does not; {} if there is none.
        wrapped: of JSON: whether a schema, or an id, is around the value; None: its worker's converter decides.
        shows_null: of Protobuf: whether a NULL is told from a zero, or an empty text.
        other_schema: the setting by which the id in a record may be another schema's than the one that wrote it; "" for none.
        own_ids: the setting by which a class of somebody's own decides where the id is; "" if there is none.
    """

    side: str
    name: str
    format: Format
    framing: Framing | None = None
    registry: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    replaces_null: bool = True
    keeps_null: Mapping[str, str] = field(default_factory=dict)
    wrapped: bool | None = None
    own_ids: str = ""
    shows_null: bool = True
    other_schema: str = ""

    @property
    def needs_ids(self) -> bool:
        """Whether a record can only be read with the id of its schema, or from behind it."""
        return self.needs_registry or (self.format is Format.JSON_SCHEMA and self.name != APICURIO_JSON)

    @property
    def needs_registry(self) -> bool:
        """Whether a record can only be read with its schema, which is in a registry."""
        return self.format in {Format.AVRO, Format.PROTOBUF}


def read_converter(config: Mapping[str, str], side: str) -> Converter:
    """The converter of the connector's keys or values, by the connector's own settings."""
    name = config.get(f"{side}.converter", "").strip()
    own = f"{side}.converter."
    options = {key.removeprefix(own): value.strip() for key, value in config.items() if key.startswith(own)}
    known = _KNOWN.get(name, _Known(Format.OTHER if name else Format.UNSEEN))
    option, value = known.keeps_null
    address = _registry(name, options)
    user, password = _login(options, address)
    return Converter(
        side,
        name,
        known.format,
        _framing(name, side, options),
        address.url,
        user,
        password,
        not option or options.get(option, "").lower() != value,
        {own + option: value} if option else {},
        _wrapped(name, options),
        next((own + option for option in _OWN_IDS if options.get(option)), ""),
        known.format is not Format.PROTOBUF or any(is_true(options.get(one, "")) for one in NULLS_SHOWN),
        next((own + option for option, off in _OTHER_SCHEMA.items() if options.get(option, off).lower() != off), ""),
    )


def _wrapped(name: str, options: Mapping[str, str]) -> bool | None:
    """Apicurio's converter puts an id where others put the schema."""
    if name == APICURIO_JSON:
        return True
    return not is_false(options.get("schemas.enable", "true")) if name == JSON else None


def _framing(name: str, side: str, options: Mapping[str, str]) -> Framing | None:
    """Confluent's converters write five bytes before the message, unless a serializer of ids of another name is set."""
    if name.startswith(CONFLUENT):
        other = options.get(f"{side}.schema.id.serializer", "")
        return None if other and not other.endswith("PrefixSchemaIdSerializer") else Framing(Ids.CONFLUENT, side)
    if name != APICURIO_AVRO:  # ExtJsonConverter writes the id beside its payload, and it is read without its schema
        return None
    return _of_apicurio(side, {key.removeprefix("apicurio.registry."): value for key, value in options.items()})


def _of_apicurio(side: str, options: Mapping[str, str]) -> Framing | None:
    """In headers by default, which version 3 changed to Confluent's form; the address says which version it is."""
    newer = re.search(r"/apis/registry/v(?!2)\d+/?$", options.get("url", "")) is not None
    if options.get("headers.handler"):
        return None  # a class of somebody's own decides
    kind = (
        CONTENT_ID if options.get("use-id", "contentId" if newer else "globalId").lower() == "contentid" else GLOBAL_ID
    )
    if is_true(options.get("headers.enabled", "false" if newer else "true")):
        return Framing(Ids.HEADERS, side, kind)
    handler = options.get("id-handler", "")
    four = is_true(options.get("as-confluent", "")) or handler.endswith(_FOUR_BYTES) or (newer and not handler)
    return Framing(Ids.CONFLUENT if four else Ids.APICURIO, side, kind)


def registry_setting(converter: Converter) -> str:
    """The setting that names the converter's registry."""
    return f"{converter.side}.converter.{_url_option(converter.name)}"


def _url_option(name: str) -> str:
    return "apicurio.registry.url" if name.startswith(APICURIO) else "schema.registry.url"


def _registry(name: str, options: Mapping[str, str]) -> Address:
    urls = options.get(_url_option(name), "")
    try:
        return Address.of(urls.split(",", maxsplit=1)[0], "the schema registry")
    except ConfigError:
        return Address("", "", "")  # the connector could not use it either


def _login(options: Mapping[str, str], address: Address) -> tuple[str, str]:
    """Case: basic.auth.user.info=cdc:secret. A placeholder, which Connect alone resolves, is no login."""
    info = options.get("basic.auth.user.info") or options.get("schema.registry.basic.auth.user.info") or ""
    if info:
        user, _, password = info.partition(":") if not info.startswith("${") else ("", "", "")
        return user, password
    return (
        options.get("apicurio.auth.username", "") or address.user,
        options.get("apicurio.auth.password", "") or address.password,
    )
